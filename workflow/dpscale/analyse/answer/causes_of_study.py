"""Why more devices are not faster, from the tables of a study: the causes of a diagnosis, as far as it saw them."""

from collections.abc import Iterator
from dataclasses import replace

from dpscale.analyse.answer.causes import FoundCause, causes_of, is_efficient, may_lose_nothing
from dpscale.analyse.answer.study import StudyPlace, places
from dpscale.tables.answer import CausesRow
from dpscale.tables.tables import Tables
from dpscale.vocabulary.causes import NO_CERTAIN_LOSS, NOTHING, UNKNOWN


def causes_rows(tables: Tables) -> list[CausesRow]:
    """For every configuration on several devices, without and with loading, its causes: those that are reasons first,
    in the order of their costs.

    A configuration without a reason has a row that says whether anything is wrong at all, and stands first.
    """
    return [row for place in places(tables) for row in _rows_of(place)]


def _rows_of(place: StudyPlace) -> Iterator[CausesRow]:
    speedup_row, probes, efficiency = place.speedup_row, place.probes, place.efficiency
    is_loss = place.is_loss_likely or not may_lose_nothing(efficiency)
    shared = CausesRow(
        scaling=speedup_row.scaling,
        **speedup_row.point,
        scope=place.scope,
        whole_s=probes[probes.whole],
        efficiency=efficiency,
        is_by_steps=place.is_by_steps,
    )
    rows = [_row(shared, finding, is_loss) for finding in causes_of(probes)]
    if not any(row.is_reason for row in rows):
        rows.insert(0, _without_a_reason(shared, place, is_loss))
    yield from (replace(row, order=order) for order, row in enumerate(rows))


def _without_a_reason(shared: CausesRow, place: StudyPlace, is_loss: bool) -> CausesRow:
    """Return a row that says that nothing is wrong, or may be; otherwise the largest part of the step that is known."""
    row = replace(shared, is_reason=False)
    if is_efficient(place.efficiency) and not place.efficiency.is_above(1):
        return replace(row, cause=NOTHING.name)
    if not is_loss:
        return replace(row, cause=NO_CERTAIN_LOSS.name)
    row = replace(row, cause=UNKNOWN.name)
    rung = place.largest_part
    return replace(row, part=rung.adds, part_s=rung.difference_s) if rung else row


def _row(shared: CausesRow, finding: FoundCause, is_loss: bool) -> CausesRow:
    is_reason = finding.is_reason and is_loss
    return replace(shared, cause=finding.cause.name, is_reason=is_reason, cost_s=finding.cost_s, share=finding.share)

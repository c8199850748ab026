"""Why more devices are not faster, from the tables of a study: the causes of a diagnosis, as far as it saw them."""

from collections.abc import Iterator
from dataclasses import replace

from dpscale.analyse.answer.causes import FoundCause, causes_of, is_efficient, may_lose_nothing
from dpscale.analyse.answer.series import COMPUTE, END_TO_END
from dpscale.analyse.answer.study import StudyPlace, places
from dpscale.formulas.figure import Figure
from dpscale.tables.answer import CausesRow
from dpscale.tables.tables import Tables
from dpscale.vocabulary.causes import NO_CERTAIN_LOSS, NOTHING, UNKNOWN, Cause


def causes_rows(tables: Tables) -> list[CausesRow]:
    """For every configuration on several devices its causes, those that are reasons first, in the order of their costs.

    A configuration without a reason has a row that says whether anything is wrong at all, and stands first.
    """
    return [row for place in places(tables) for row in _rows_of(place)]


def _rows_of(place: StudyPlace) -> Iterator[CausesRow]:
    gain, probes, efficiency = place.gain, place.probes, place.efficiency
    is_loss = not may_lose_nothing(efficiency)
    shared = CausesRow(
        scaling=gain.scaling,
        **gain.point,
        scope=END_TO_END if place.loading else COMPUTE,
        whole_s=probes[probes.whole],
        efficiency=efficiency,
    )
    rows = [_row(shared, found, is_loss) for found in causes_of(probes)]
    if not any(row.is_reason for row in rows):
        rows.insert(0, replace(shared, cause=_without_a_reason(efficiency).name, is_reason=False))
    yield from (replace(row, order=order) for order, row in enumerate(rows))


def _without_a_reason(efficiency: Figure) -> Cause:
    if is_efficient(efficiency) and not efficiency.is_above(1):
        return NOTHING
    return NO_CERTAIN_LOSS if may_lose_nothing(efficiency) else UNKNOWN


def _row(shared: CausesRow, found: FoundCause, is_loss: bool) -> CausesRow:
    is_reason = found.is_reason and is_loss
    return replace(shared, cause=found.cause.name, is_reason=is_reason, cost_s=found.cost_s, share=found.share)

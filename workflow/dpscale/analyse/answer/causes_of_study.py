"""Why more devices are not faster, from the tables of a study: the causes of a diagnosis, as far as it saw them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from dpscale.analyse.answer.causes import Evidence, FoundCause, Remedy, causes_of, is_efficient
from dpscale.analyse.answer.series import COMPUTE, END_TO_END, Series, series_of, support
from dpscale.analyse.answer.study import StudyPlace, graph_words, places
from dpscale.formulas.figure import Figure
from dpscale.strategies.known import BASELINE
from dpscale.tables.answer import AnswerRow, CausesRow
from dpscale.tables.tables import Tables
from dpscale.vocabulary.causes import NOTHING, UNKNOWN, cause

# The columns of what causes rest on: the evidence's name, and its unit.
EVIDENCE = (
    "end_to_end_s", "dp_s", "training_s", "no_op_hook_s", "loader_at_best_s", "alone_s", "alone_large_s",
    "alone_reference_s", "not_captured_s", "allreduce_s", "gradient_bytes", "bus_gb_s", "copy_gb_s", "nominal_gb_s",
    "loader_workers",
)  # fmt: skip
_NAMES = {column: column.removesuffix("_gb_s").removesuffix("_s") for column in EVIDENCE}


def causes_rows(tables: Tables) -> list[CausesRow]:
    """For every configuration on several devices its causes, those that are reasons first, in the order of their costs.

    A configuration without a reason has a row that says whether anything is wrong at all, and stands first. The rows
    that the answer tells are marked: every cause once for a strategy on a number of devices.
    """
    rows = [row for place in places(tables) for row in _rows_of(place)]
    told = {id(row) for row in _told(rows, {series_of(row): row for row in tables.answer})}
    return [replace(row, is_told=id(row) in told) for row in rows]


def cause_of(row: CausesRow) -> FoundCause:
    """A cause as its row has it: the way back from the table."""
    evidence = [
        Evidence(name, figure, row.column(column).unit)
        for column, name in _NAMES.items()
        if (figure := _figure(getattr(row, column))).is_known
    ]
    remedies = []
    if row.remedy:
        predicted, saved = (figure if figure.is_known else None for figure in (row.predicted_saving_s, row.saving_s))
        words = {} if row.larger_batch_per_gpu is None else {"batch_per_gpu": row.larger_batch_per_gpu}
        remedies.append(Remedy(row.remedy, predicted, saved, words))
    if row.graph_saving_s.is_known:
        gpus = row.graph_gpus or 0
        graph = graph_words(row.captured_variant, row.graph_variant, BASELINE if gpus == 1 else row.strategy, gpus)
        remedies.append(Remedy("variant_in_graph", None, row.graph_saving_s, graph))
    return FoundCause(cause(row.cause), row.cost_s, row.share, evidence, remedies)


def _figure(entry: Figure | float | None) -> Figure:
    return entry if isinstance(entry, Figure) else Figure() if entry is None else Figure(entry)


def _rows_of(place: StudyPlace) -> Iterator[CausesRow]:
    gain, probes = place.gain, place.probes
    found, not_seen = causes_of(probes)
    shared = CausesRow(
        scaling=gain.scaling,
        **gain.point,
        scope=END_TO_END if place.loading else COMPUTE,
        whole_s=probes[probes.whole],
        efficiency=place.efficiency,
        not_seen="; ".join(not_seen),
    )
    rows = [replace(shared, **_columns(one)) for one in found]
    if not any(one.is_reason for one in found):
        answer = NOTHING if is_efficient(place.efficiency) else UNKNOWN
        rows.insert(0, replace(shared, cause=answer.name, is_reason=False))
    yield from (replace(row, order=order) for order, row in enumerate(rows))


def _columns(found: FoundCause) -> dict[str, Any]:
    columns: dict[str, Any] = {
        "cause": found.cause.name, "is_reason": found.is_reason, "cost_s": found.cost_s, "share": found.share,
    }  # fmt: skip
    figures = {evidence.name: evidence.figure for evidence in found.evidence}
    for column, name in _NAMES.items():
        if name in figures:
            kind = CausesRow.column(column).kind
            columns[column] = figures[name] if kind == "figure" else figures[name].value
    for remedy in found.remedies:
        words = remedy.words
        if remedy.name == "variant_in_graph":
            columns |= {name: words[name] for name in ("captured_variant", "graph_variant")}
            columns |= {"graph_gpus": words["gpus"], "graph_saving_s": remedy.measured_s}
            continue
        columns |= {"remedy": remedy.name, "larger_batch_per_gpu": words.get("batch_per_gpu")}
        savings = {"predicted_saving_s": remedy.predicted_s, "saving_s": remedy.measured_s}
        columns |= {name: saving for name, saving in savings.items() if saving}
    return columns


def _told(rows: Iterable[CausesRow], answers: Mapping[Series, AnswerRow]) -> Iterator[CausesRow]:
    """What the answer tells of every strategy on a number of devices: the reasons at its batch, and of other batches
    the first reasons; every cause once, where its share is best supported. Strong scaling is told elsewhere."""

    def is_at_answer(row: CausesRow) -> bool:
        answer = answers.get(series_of(row))
        return answer is not None and row.batch_per_gpu == answer.batch_per_gpu

    found: dict[tuple[Series, str], list[CausesRow]] = {}
    for row in rows:
        if row.is_reason and row.scaling == "weak" and (is_at_answer(row) or row.order == 0):
            found.setdefault((series_of(row), row.cause), []).append(row)
    return (max(some, key=lambda row: (is_at_answer(row), *support(row.share))) for some in found.values())

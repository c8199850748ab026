"""The one answer of a study: are more devices worth it? What is asked, fixed before the data; on which side of it a
speedup lies, how sure that is, and what would decide it. Page, terminal and answer.json say what is decided here
(docs/method.md, "The answer").
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite, log, nan, sqrt
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from dpscale.analyse.answer import COMPUTE, END_TO_END, configuration_of, of_configuration
from dpscale.analyse.answer.claims import NOT_WORTH_MORE_DEVICES, WORTH_MORE_DEVICES
from dpscale.formulas.figure import Figure, students_factor, units_of
from dpscale.formulas.statistics import FEWEST_UNITS, units_to_decide
from dpscale.plan.cells import AnyCell, TimingCell, VariantCell
from dpscale.plan.plan import answer_batch
from dpscale.plan.study import Study
from dpscale.records.kinds import Record
from dpscale.records.progress import seconds_of
from dpscale.strategies.known import BASELINE, STRATEGIES
from dpscale.tables.answer import AdviceRow, AnswerRow, CausesRow
from dpscale.tables.row import Row, grouped, in_groups
from dpscale.tables.tables import Tables
from dpscale.tables.timing import SpeedupRow
from dpscale.vocabulary.states import (
    MACHINE,
    NOT_CONFIRMED,
    NOT_WORTH_IT,
    PROBABLY,
    PROBABLY_NOT,
    RUN,
    UNDECIDED,
    WORTH_IT,
)


@dataclass(frozen=True)
class Asked:
    """The terms of a study's answer, fixed before the data, and the cost of one more run."""

    batch_per_gpu: int = 128
    """The batch per device of the answer."""
    worth_from: float = 0.7
    """The efficiency from which more devices are worth it."""
    study_file: str = ""
    """The study's file, as a command names it."""
    run_s: float = nan
    """Seconds that one more run of all configurations takes, one after the other; NaN where no run was measured."""

    @classmethod
    def of(cls, study: Study, records: Mapping[AnyCell, Record]) -> "Asked":
        """Return what a study with these records asks."""
        repeated = {cell: record for cell, record in records.items() if _is_repeated(cell, study)}
        by_configuration = grouped(repeated, lambda cell: cell.path.rpartition("/")[0])
        medians = [median(seconds_of(repeated[cell]) for cell in cells) for cells in by_configuration.values()]
        return cls(
            batch_per_gpu=answer_batch(study),
            worth_from=study["answer"]["worth_from"],
            study_file=_named(study.source),
            run_s=sum(medians) if medians else nan,
        )


def _is_repeated(cell: AnyCell, study: Study) -> bool:
    """Whether the study's `runs` say how often it is measured: what has a number of its own keeps that."""
    if isinstance(cell, VariantCell):
        return "runs" not in study["variants"][cell.variant]
    return isinstance(cell, TimingCell)


def _named(source: str) -> str:
    """Return a study file as commands of the project's folder name it, wherever that is on this machine."""
    path = Path(source)
    return str(Path(path.parent.name, path.name)) if path.is_absolute() else str(path)


@dataclass(frozen=True)
class Units:
    """The machines, or the runs of one machine (`kind`), that a figure is the mean of, and the figure of each."""

    kind: str
    values: tuple[float, ...]

    @classmethod
    def of(cls, figure: Figure) -> "Units":
        """Return the units of a figure that knows its blocks."""
        return cls(MACHINE if figure.servers > 1 else RUN, tuple(units_of(figure.blocks)))

    def are_above(self, limit: float) -> bool:
        """Whether there are several units, and all are above the limit."""
        return len(self.values) > 1 and min(self.values) > limit

    def are_below(self, limit: float) -> bool:
        """Whether there are several units, and all are below the limit."""
        return len(self.values) > 1 and max(self.values) < limit


def verdict(row: AnswerRow, units: Units) -> str:
    """Return the state that says on which side of the limit the interval lies; otherwise on which side all machines, or
    runs, lie."""
    if WORTH_MORE_DEVICES.surely(row):
        return WORTH_IT
    if NOT_WORTH_MORE_DEVICES.surely(row):
        return NOT_WORTH_IT
    if units.are_above(row.limit):
        return PROBABLY
    if units.are_below(row.limit):
        return PROBABLY_NOT
    return UNDECIDED if len(units.values) > 1 else NOT_CONFIRMED


def more_units(speedup: Figure, units: Units, limit: float) -> int | None:
    """Return how many more machines, or runs, would decide what is not decided, if value and spread stay as they were
    seen; None where 20 in all would not. Of a single one the spread is not known: then so many that there is an
    interval."""
    number, spread = len(units.values), _spread(speedup, units)
    if spread is None:
        return max(1, FEWEST_UNITS - number)
    in_all = units_to_decide(log(speedup.value), log(limit), spread, number)
    return None if in_all is None else in_all - number


def _spread(speedup: Figure, units: Units) -> float | None:
    """Return the standard deviation of the logarithms between units; None of fewer than two.

    The interval of two units that borrowed has its ends at exp(+-t(2) * spread / sqrt(2)) times the value: their spread
    is taken from it.
    """
    if speedup.borrowed_from:
        return log(speedup.high / speedup.value) * sqrt(2) / students_factor(2)
    return float(np.log(units.values).std(ddof=1)) if len(units.values) > 1 else None


FILE = "answer.json"
# Pieces of advice in an answer, at most.
TO_DO = 3
_OF_ONE_DEVICE = Figure(1.0)


def answer_rows(tables: Tables, asked: Asked) -> Iterator[AnswerRow]:
    """Yield one device, then every number of devices of the study, at the batch per device of the answer or near it;
    then those of the same configurations that were measured with loading too."""
    weak = [row for row in tables.speedup if row.scaling == "weak" and row.status == "ok"]
    scope = min((row.scope for row in weak), default=COMPUTE)  # compute, where there is one
    candidates = _rows_of_one_environment(row for row in weak if row.scope == scope)
    common = nearest(candidates, asked.batch_per_gpu)
    if common is not None:
        yield _one_device(common, tables, asked)
    chosen = []
    for gpus in sorted({row.gpus for row in (*tables.times, *candidates) if row.gpus > 1}):
        batch = common.batch_per_gpu if common else asked.batch_per_gpu
        speedup_row = nearest((row for row in candidates if row.gpus == gpus), batch)
        if speedup_row is None:
            yield AnswerRow(
                gpus=gpus,
                batch_per_gpu=batch,
                global_batch=gpus * batch,
                scope=scope,
                asked_batch_per_gpu=asked.batch_per_gpu,
            )
        else:
            chosen.append(speedup_row)
            yield _with_twice_as_many(_row(speedup_row, tables, asked), candidates)
    if scope == END_TO_END:
        return
    loaded_rows = [row for row in weak if row.scope == END_TO_END]
    for speedup_row in chosen:
        for loaded_row in of_configuration(loaded_rows, speedup_row):
            yield _row(loaded_row, tables, asked)


def _rows_of_one_environment(rows: Iterable[SpeedupRow]) -> Sequence[SpeedupRow]:
    """Return the rows of the environment that has the most numbers of devices; of several such, of the first."""
    by_environment = in_groups(rows, lambda row: row.environment)
    return max(by_environment, key=lambda rows_there: len({row.gpus for row in rows_there}), default=[])


def nearest(rows: Iterable[SpeedupRow], batch: int) -> SpeedupRow | None:
    """Return the row at the batch that is nearest by its ratio, of two the smaller; there that of the last strategy
    that people read of. Both are chosen without looking at a time. None where there is no row."""
    order = list(STRATEGIES)

    def distance(row: SpeedupRow) -> tuple[float, int, int]:
        return round(abs(log(row.batch_per_gpu / batch)), 6), row.batch_per_gpu, -order.index(row.strategy)

    return min(rows, key=distance, default=None)


def _one_device(speedup_row: SpeedupRow, tables: Tables, asked: Asked) -> AnswerRow:
    """Return one device alone, at the batch of the speedups."""
    return AnswerRow(
        strategy=BASELINE,
        gpus=1,
        batch_per_gpu=speedup_row.batch_per_gpu,
        global_batch=speedup_row.batch_per_gpu,
        scope=speedup_row.scope,
        environment=speedup_row.environment,
        asked_batch_per_gpu=asked.batch_per_gpu,
        epoch_s=_epoch_s(tables, speedup_row, BASELINE, 1) or speedup_row.baseline_epoch_s,
        speedup=_OF_ONE_DEVICE,
        efficiency=_OF_ONE_DEVICE,
        gpu_s_over_one=_OF_ONE_DEVICE,
    )


def _epoch_s(tables: Tables, speedup_row: SpeedupRow, name: str, gpus: int) -> Figure | None:
    """Return the epoch time of a strategy on so many devices beside a speedup, as the table of times has it; None where
    that has none: one device may have been timed in the jobs of several alone."""
    place = name, gpus, speedup_row.batch_per_gpu, speedup_row.environment
    timed = (row for row in tables.times if configuration_of(row) == place and row.scope == speedup_row.scope)
    return next((row.epoch_s for row in timed if row.epoch_s.is_known), None)


def _row(speedup_row: SpeedupRow, tables: Tables, asked: Asked) -> AnswerRow:
    """Return the row of several devices, with the verdict, and what would decide it where it is not decided."""
    units = Units.of(speedup_row.speedup)
    row = AnswerRow(
        **speedup_row.point,
        scope=speedup_row.scope,
        asked_batch_per_gpu=asked.batch_per_gpu,
        is_headline=speedup_row.is_headline,
        other_runs=speedup_row.other_runs,
        epoch_s=_epoch_s(tables, speedup_row, speedup_row.strategy, speedup_row.gpus) or speedup_row.epoch_s,
        speedup=speedup_row.speedup,
        efficiency=speedup_row.efficiency,
        gpu_s_over_one=speedup_row.efficiency.map(lambda efficiency: 1 / efficiency),
        worth_from=asked.worth_from,
        limit=asked.worth_from * speedup_row.gpus,
    )
    worth = verdict(row, units)
    row = replace(
        row,
        worth=worth,
        is_decided=worth in (WORTH_IT, NOT_WORTH_IT),
        unit=units.kind,
        units=len(units.values),
        lowest=min(units.values),
        highest=max(units.values),
        units_below=sum(value < row.limit for value in units.values),
    )
    return row if row.is_decided else _with_what_decides(row, units, tables, asked)


def _with_twice_as_many(row: AnswerRow, rows: Iterable[SpeedupRow]) -> AnswerRow:
    """Return the row with what twice as many devices would give under two assumptions about what is lost."""
    half_as_many = row.strategy, row.gpus / 2, row.batch_per_gpu, row.environment
    halves = (half.efficiency.value for half in rows if configuration_of(half) == half_as_many)
    efficiency = row.efficiency.value
    fallen = 2 * efficiency - (1.0 if row.gpus == 2 else next(halves, nan))
    return replace(
        row,
        twice_if_level=2 * row.gpus * efficiency,
        twice_if_growing=2 * row.gpus * fallen if 0 < fallen < efficiency else nan,
    )


def _with_what_decides(row: AnswerRow, units: Units, tables: Tables, asked: Asked) -> AnswerRow:
    """Return the row with how many more machines or runs would decide it, if any number would, and the command for
    that: of all runs, or of the run on the next machine."""
    more = more_units(row.speedup, units, row.limit)
    if more is None:
        return row
    runs = 1 if units.kind == MACHINE else more
    last_run = max((run.run for run in of_configuration(tables.runs, row) if not run.variant), default=0)
    command = f"make report CONFIG={asked.study_file} RUNS={last_run + runs}"  # measures the runs that are missing
    return replace(row, more_units=more, more_s=asked.run_s * runs, command=command)


@dataclass(frozen=True)
class Answer:
    """The answer of a study in numbers and decisions, which the page puts into words."""

    rows: Sequence[AnswerRow]
    """One device and every number of devices of the study."""
    reason: CausesRow | None
    """The cause why the most devices give no more; None where it is not known."""
    to_do: Sequence[AdviceRow]
    """The most important advice first."""
    rejected: int
    """Records that could not be used."""
    loaded: Sequence[AnswerRow] = ()
    """The same numbers of devices with data loading, where that was measured."""
    reason_with_loading: CausesRow | None = None
    also_missing: int = 0
    """Planned cells without a record that are no timing cells under the study's own settings."""

    @property
    def several(self) -> list[AnswerRow]:
        """The numbers of devices that have a speedup."""
        return with_speedup(self.rows)

    @property
    def series(self) -> list[list[AnswerRow]]:
        """The rows that have a speedup, by strategy and batch."""
        return list(grouped(self.several, lambda row: (row.strategy, row.batch_per_gpu)).values())

    @property
    def unknown(self) -> list[AnswerRow]:
        """The numbers of devices that have no speedup."""
        return [row for row in self.rows if row.gpus > 1 and not row.speedup.is_known]


def is_one_enough(gains: Sequence[AnswerRow]) -> bool:
    """Whether it is decided that one device is to be used: no more were faster, and none of them is worth it."""
    return bool(gains) and all(row.speedup.value <= 1 and row.worth == NOT_WORTH_IT for row in gains)


def with_speedup(rows: Iterable[AnswerRow]) -> list[AnswerRow]:
    """Return the rows of several devices in the scope that the answer is about."""
    rows = list(rows)
    return [row for row in rows if row.gpus > 1 and row.speedup.is_known and row.scope == rows[0].scope]


def answer_of(tables: Tables) -> Answer:
    """Return the answer that these tables hold."""
    rows = [row for row in tables.answer if row.scope == tables.answer[0].scope]
    loaded = [row for row in tables.answer if row.scope != tables.answer[0].scope]
    return Answer(
        rows=rows,
        reason=_reason(tables, with_speedup(rows)),
        to_do=tables.advice[:TO_DO],
        rejected=len(tables.rejected),
        loaded=loaded,
        reason_with_loading=_reason(tables, [row for row in loaded if row.speedup.is_known]),
        also_missing=sum(row.kind != "timing" or bool(row.variant) for row in tables.missing),
    )


def _reason(tables: Tables, gains: Sequence[AnswerRow]) -> CausesRow | None:
    """Return the first cause at the most devices of these rows, in their scope; None where there is no row or no
    cause."""
    most = max(gains, key=lambda row: row.gpus, default=None)
    if most is None:
        return None
    first = (row for row in tables.causes if (row.order, row.scope) == (0, most.scope))
    return next(iter(of_configuration(first, most)), None)


def answer_json(answer: Answer, sentences: Sequence[str]) -> str:
    """Return the answer for machines, in the shape of `schemas/answer.schema.yaml`. Rows have the names of their
    columns; what is not known is null."""
    entries = {
        "question": "Are more devices worth it?",
        "sentence": " ".join(sentences),
        "devices": list(map(_json_of_row, answer.rows)),
        "with_loading": list(map(_json_of_row, answer.loaded)),
        "reason": _json_of_row(answer.reason) if answer.reason else None,
        "reason_with_loading": _json_of_row(answer.reason_with_loading) if answer.reason_with_loading else None,
        "to_do": list(map(_json_of_row, answer.to_do)),
        "rejected_records": answer.rejected,
    }
    return json.dumps(entries, indent=1, allow_nan=False) + "\n"


def _json_of_row(row: Row) -> dict[str, object]:
    return {name: _json_of(getattr(row, name), column.unit.stored) for name, column in row.columns().items()}


def _json_of(entry: Any, unit: str) -> Any:
    """Return an entry of a row; a figure with its ends, what these are, and its unit."""
    if not isinstance(entry, Figure):
        return None if entry == "" or (isinstance(entry, float) and not isfinite(entry)) else entry
    if not entry.is_known:
        return None
    value, low, high = (number if isfinite(number) else None for number in (entry.value, *entry.interval))
    return {"value": value, "low": low, "high": high, "kind": entry.kind, "unit": unit}

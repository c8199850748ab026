"""The one answer of a study: are more devices worth it? Page, terminal, comparison, export and answer.json say what is
decided here (docs/method.md, "The answer").
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf, log

from dpscale.analyse.answer.series import COMPUTE, END_TO_END, configuration_of, of_configuration
from dpscale.analyse.timing.times import WORTH
from dpscale.formulas.figure import UNKNOWN, Figure
from dpscale.strategies.known import BASELINE, STRATEGIES
from dpscale.tables.answer import AdviceRow, AnswerRow, CausesRow
from dpscale.tables.row import grouped
from dpscale.tables.tables import Tables
from dpscale.tables.timing import SpeedupRow
from dpscale.vocabulary.states import NOT_CONFIRMED, NOT_WORTH_IT, UNDECIDED, WORTH_IT

_ALONE = Figure(1.0)
# What is to be done, at most.
TO_DO = 3


@dataclass(frozen=True)
class Answer:
    """What one device and every number of devices of the study give; why the most of them give no more, if that is
    known; what to do, the most important first; how many records were rejected; and what an epoch of every row costs,
    if an hour of a device has a price."""

    rows: Sequence[AnswerRow]
    reason: CausesRow | None
    to_do: Sequence[AdviceRow]
    rejected: int
    prices: Sequence[float] = ()

    @property
    def several(self) -> list[AnswerRow]:
        """The numbers of devices that have a speedup."""
        return [row for row in self.rows if row.gpus > 1 and row.speedup.is_known]

    @property
    def series(self) -> list[list[AnswerRow]]:
        """These, by strategy and batch."""
        return list(grouped(self.several, lambda row: (row.strategy, row.batch_per_gpu)).values())

    @property
    def unknown(self) -> list[AnswerRow]:
        """Those that have none."""
        return [row for row in self.rows if row.gpus > 1 and not row.speedup.is_known]

    @property
    def is_reason_known(self) -> bool:
        """Whether the reason is a cause, and not that there is none."""
        return self.reason is not None and bool(self.reason.is_reason)

    @property
    def is_nothing_faster(self) -> bool:
        """Whether no number of devices was faster than one."""
        return is_none_faster(row.speedup for row in self.several)

    @property
    def above_ideal(self) -> list[AnswerRow]:
        """Those that gave more than all that they could, as far as their intervals tell."""
        return [row for row in self.several if row.efficiency.value > 1 and not row.efficiency.holds(1)]


def is_none_faster(speedups: Iterable[Figure]) -> bool:
    """Whether no number of devices was faster than one, of those that have a speedup."""
    return max((speedup.value for speedup in speedups), default=inf) <= 1


def answer_of(tables: Tables, per_gpu_hour: float | None = None) -> Answer:
    """The answer that these tables hold, where an hour of a device costs so much."""
    most = max((row for row in tables.answer if row.speedup.is_known), key=lambda row: row.gpus, default=None)
    causes = (row for row in tables.causes if row.scaling == "weak" and row.order == 0)
    reason = next(iter(of_configuration(causes, most)), None) if most else None
    prices = (
        [] if per_gpu_hour is None else [row.epoch_s.value * row.gpus / 3600 * per_gpu_hour for row in tables.answer]
    )
    return Answer(tables.answer, reason, tables.advice[:TO_DO], len(tables.rejected), prices)


def answer_rows(tables: Tables, batch: int) -> Iterator[AnswerRow]:
    """One device, then every number of devices of the study, at the batch per device of the answer or near it."""
    weak = [row for row in tables.speedup if row.scaling == "weak" and row.status == "ok"]
    scope = min((row.scope for row in weak), default=COMPUTE)  # compute, where there is one
    here = _of_one_environment(row for row in weak if row.scope == scope)
    common = _nearest(here, batch)
    if common is not None:
        yield _alone(common, tables, batch)
    for gpus in sorted({row.gpus for row in (*tables.times, *here) if row.gpus > 1}):
        gain = _nearest((row for row in here if row.gpus == gpus), common.batch_per_gpu if common else batch)
        yield _row(gain, tables, batch) if gain else AnswerRow(gpus=gpus, scope=scope, asked_batch_per_gpu=batch)


def _of_one_environment(rows: Iterable[SpeedupRow]) -> Sequence[SpeedupRow]:
    """Of the environment that has the most numbers of devices, of several the first."""
    found = grouped(rows, lambda row: row.environment)
    return max((found[name] for name in sorted(found)), key=lambda some: len({row.gpus for row in some}), default=[])


def _nearest(rows: Iterable[SpeedupRow], batch: int) -> SpeedupRow | None:
    """At the batch that is nearest by its ratio, of two the smaller; there of the last strategy that people read of:
    both are chosen without looking at a time."""
    order = list(STRATEGIES)

    def distance(row: SpeedupRow) -> tuple[float, int, int]:
        return round(abs(log(row.batch_per_gpu / batch)), 6), row.batch_per_gpu, -order.index(row.strategy)

    return min(rows, key=distance, default=None)


def _alone(gain: SpeedupRow, tables: Tables, batch: int) -> AnswerRow:
    """One device alone, at the batch of the speedups."""
    return AnswerRow(
        strategy=BASELINE,
        gpus=1,
        batch_per_gpu=gain.batch_per_gpu,
        global_batch=gain.batch_per_gpu,
        scope=gain.scope,
        environment=gain.environment,
        asked_batch_per_gpu=batch,
        epoch_s=_epoch_s(tables, gain, BASELINE, 1) or gain.baseline_epoch_s,
        speedup=_ALONE,
        efficiency=_ALONE,
        gpu_s_over_one=_ALONE,
    )


def _epoch_s(tables: Tables, gain: SpeedupRow, name: str, gpus: int) -> Figure | None:
    """The epoch time of a strategy on so many devices beside a speedup, as the table of times has it; None where that
    has none: one device may have been timed in the jobs of several alone."""
    place = name, gpus, gain.batch_per_gpu, gain.environment
    timed = (row for row in tables.times if configuration_of(row) == place and row.scope == gain.scope)
    return next((row.epoch_s for row in timed if row.epoch_s.is_known), None)


def _row(gain: SpeedupRow, tables: Tables, batch: int) -> AnswerRow:
    weak = (row for row in tables.speedup if row.scaling == "weak" and row.environment == gain.environment)
    known = [row for row in weak if row.gpus == gain.gpus and row.speedup.is_known]
    loaded = [row for row in of_configuration(known, gain) if row.scope == END_TO_END]
    with_loading = loaded[0].speedup if loaded and gain.scope == COMPUTE else UNKNOWN
    row = AnswerRow(
        **gain.point,
        scope=gain.scope,
        asked_batch_per_gpu=batch,
        blocks=gain.blocks,
        servers=gain.servers,
        is_headline=gain.is_headline,
        other_runs=gain.other_runs,
        epoch_s=_epoch_s(tables, gain, gain.strategy, gain.gpus) or gain.epoch_s,
        speedup=gain.speedup,
        efficiency=gain.efficiency,
        gpu_s_over_one=gain.efficiency.map(lambda efficiency: 1 / efficiency),
        limit=WORTH * gain.gpus,
        worth=worth(gain.speedup, gain.gpus),
        end_to_end_speedup=with_loading,
        end_to_end_worth=worth(with_loading, gain.gpus),
    )
    here = [row for row in known if row.scope == gain.scope]
    return _with_faster(row, here)


def worth(speedup: Figure, gpus: int) -> str:
    """On which side of half the number of devices its interval lies; nothing where there is no speedup."""
    if not speedup.is_known:
        return ""
    if not speedup.has_interval:
        return NOT_CONFIRMED
    limit = WORTH * gpus
    return WORTH_IT if speedup.is_above(limit) else NOT_WORTH_IT if speedup.is_below(limit) else UNDECIDED


def _with_faster(row: AnswerRow, here: Sequence[SpeedupRow]) -> AnswerRow:
    """With the other strategy that is surely faster at this batch, if there is one."""
    beside = (other for other in here if other.batch_per_gpu == row.batch_per_gpu and other.strategy != row.strategy)
    found = next((other for other in beside if other.speedup.exceeds(row.speedup)), None)
    return replace(row, faster_strategy=found.strategy, faster_speedup=found.speedup) if found else row

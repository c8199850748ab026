"""What the page claims of rows of tables: which rows it asks, and of which of them it holds.

A claim compares only where 95 % intervals carry it: a row without an interval is not asked.
Every predicate that rests on an interval is here, and is counted.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Generic, Protocol, TypeVar

from dpscale.analyse.answer.series import configuration_of
from dpscale.formulas.figure import Figure
from dpscale.strategies.known import strategy
from dpscale.tables.answer import AnswerRow, CausesRow
from dpscale.tables.communication import BandwidthRow, CommunicationRow, LadderRow, StepsRow
from dpscale.tables.row import Row
from dpscale.tables.study import EnvironmentsRow, MissingRow, RecordsRow, RejectedRow
from dpscale.tables.tables import TABLES
from dpscale.tables.timing import BlocksRow, RunsRow, ScopesRow, SpeedupRow, StrategyPairsRow, TimesRow
from dpscale.tables.training import TrainingSummaryRow, TwinsRow
from dpscale.tables.variants import OneGpuRow, VariantsRow
from dpscale.vocabulary.causes import NOTHING
from dpscale.vocabulary.states import (
    DOES_NOT,
    HOLDS,
    NEVER,
    NOT_RESOLVABLE,
    PAYS,
    WORTH_IT,
)

R = TypeVar("R", bound=Row)

# Where ablation (E2) and profiler (E3) are held to agree: both measure exposed communication.
AGREEMENT_BATCH = 512
AGREEMENT = 0.15
# What the parts of a profiled step may be off the step by.
SUM_OF_PARTS = 0.03
# An arm is trained with at least so many seeds.
SEEDS_WANTED = 3
# An epoch time is well known where its interval, from end to end, is within this part of it.
WIDTH = 0.1
# Ranks of a healthy server, where the host is the limit, differ by up to a tenth of a step: a slow device by more.
UNEVEN = 0.2
# A hypervisor takes little away from a cell: at most this part of its cores.
STOLEN = 0.01


@dataclass(frozen=True)
class Outcome(Generic[R]):
    """The rows that a claim asked, and those of them for which it holds."""

    asked: Sequence[R]
    holding: Sequence[R]

    @property
    def number(self) -> int:
        return len(self.holding)

    @property
    def of(self) -> int:
        return len(self.asked)


@dataclass(frozen=True)
class Claim(Generic[R]):
    """Of the rows of a table that are `among` those it speaks of, the ones for which it `holds`. It is counted.

    `figures` are the columns that decide: a row where one of them has no 95 % interval is not asked. Rows that are
    equal in `once_per` are asked once.
    """

    what: str
    kind: type[R]
    holds: Callable[[R], bool]
    among: Callable[[R], bool] = lambda row: True
    figures: Sequence[str] = ()
    once_per: Callable[[R], object] = id

    def __post_init__(self) -> None:
        CLAIMS[self.what] = self
        for name in self.figures:
            self.kind.column(name)  # there is one

    @property
    def table(self) -> str:
        return _NAMES[self.kind]

    def intervals(self, row: R) -> list[Figure]:
        return [getattr(row, name) for name in self.figures]

    def asks(self, row: R) -> bool:
        return self.among(row) and all(figure.has_interval for figure in self.intervals(row))

    def surely(self, row: R) -> bool:
        """Whether it asks this row, and holds for it."""
        return self.asks(row) and self.holds(row)

    def of(self, rows: Sequence[R]) -> Outcome[R]:
        """What it says of a table."""
        first: dict[object, R] = {}
        for row in filter(self.asks, rows):
            first.setdefault(self.once_per(row), row)
        return Outcome(list(first.values()), [row for row in first.values() if self.holds(row)])


_NAMES = {kind: name for name, kind in TABLES.items()}
CLAIMS: dict[str, Claim[Any]] = {}


def _sides(
    kind: type[R], figure: str, limit: float, above: str, below: str, among: Callable[[R], bool] = lambda row: True
) -> tuple[Claim[R], Claim[R]]:
    """That a figure lies wholly above a limit, and that it lies wholly below."""
    return (
        Claim(above, kind, lambda row: getattr(row, figure).is_above(limit), among, [figure]),
        Claim(below, kind, lambda row: getattr(row, figure).is_below(limit), among, [figure]),
    )


class _WithSteps(Protocol):
    @property
    def is_headline(self) -> bool | None: ...


def _is_headline(row: _WithSteps) -> bool:
    """Whether its epochs have steps enough to speak of."""
    return bool(row.is_headline)


def _weak(row: SpeedupRow) -> bool:
    return _is_headline(row) and row.scaling == "weak"


WORTH_MORE_DEVICES = Claim(
    "more devices are worth it", AnswerRow, lambda row: row.worth == WORTH_IT, lambda row: row.gpus > 1, ["speedup"]
)
SLOWER = Claim("more devices are slower", SpeedupRow, lambda row: row.speedup.is_below(1), _weak, ["speedup"])


def _compared(outcome: str, scope: str, holds: Callable[[StrategyPairsRow], bool]) -> Claim[StrategyPairsRow]:
    return Claim(
        f"one strategy is {outcome}{'' if scope == 'compute' else ' with loading'}",
        StrategyPairsRow,
        holds,
        lambda row: _is_headline(row) and row.scope == scope,
        ["epoch_s", "other_epoch_s"],
    )


# By scope, where the later strategy of the table is faster, and where it is slower.
STRATEGIES = {
    scope: {
        "faster": _compared("faster", scope, lambda row: row.other_epoch_s.exceeds(row.epoch_s)),
        "slower": _compared("slower", scope, lambda row: row.epoch_s.exceeds(row.other_epoch_s)),
    }
    for scope in ("compute", "end_to_end")
}
SHARDED_FOR_NOTHING = Claim(
    "whole weights fit and are faster",
    StrategyPairsRow,
    STRATEGIES["compute"]["faster"].holds,
    lambda row: _is_headline(row) and row.scope == "compute" and strategy(row.other_strategy).is_sharded,
    ["epoch_s", "other_epoch_s"],
)
NOTHING_WRONG = Claim(
    "nothing is wrong", CausesRow, lambda row: row.cause == NOTHING.name, lambda row: row.order == 0, ["efficiency"]
)
LOADER_HIDES = Claim(
    "the DataLoader hides speedup",
    ScopesRow,
    lambda row: row.speedup.is_above(1) and row.speedup.exceeds(row.end_to_end_speedup),
    _is_headline,
    ["speedup", "end_to_end_speedup"],
)
NOT_TOLD_FROM_ZERO = Claim(
    "bandwidth is not resolvable",
    BandwidthRow,
    lambda row: row.status == NOT_RESOLVABLE,
    _is_headline,
    ["communication_s"],
)


def _is_resolved(row: CommunicationRow) -> bool:
    """Its intervals are those of the bandwidths, and counted there."""
    return _is_headline(row) and row.status == "ok" and row.communication_s.has_interval


COMMUNICATION = Claim(
    "communication takes time", CommunicationRow, lambda row: row.communication_s.is_above(0), _is_resolved
)
MAY_BE_NOTHING = Claim(
    "communication may take no time", CommunicationRow, lambda row: row.communication_s.holds(0), _is_resolved
)
BELOW_THE_LINKS = Claim(
    "bandwidth is below that of the links",
    BandwidthRow,
    lambda row: row.bandwidth_gb_s.is_below(row.bus_bandwidth_gb_s.value),
    lambda row: _is_headline(row) and row.bus_bandwidth_gb_s.is_known and row.bandwidth_gb_s.has_interval,
)
LONGER_THAN_MESSAGES = Claim(
    "a step is longer by more than its messages",
    CommunicationRow,
    lambda row: row.communication_step_s.is_above(row.isolated_step_s.value),
    lambda row: _is_headline(row) and row.isolated_step_s.is_known,
    ["communication_step_s"],
)
DISAGREE = Claim(
    "epochs and steps disagree",
    SpeedupRow,
    lambda row: row.speedup.is_apart(row.speedup_from_steps),
    _weak,
    ["speedup", "speedup_from_steps"],
)
ABOVE_IDEAL = Claim(
    "efficiency is above 100 %", SpeedupRow, lambda row: row.efficiency.is_above(1), _is_headline, ["speedup"]
)


def _profiler_tells(row: CommunicationRow | StepsRow) -> bool:
    """Whether profiling changed the step so little that what it shows can be held against other estimates."""
    return row.profiler == "ok"


def _exposed_apart(row: CommunicationRow) -> bool:
    """Ablation and profiler agree neither within their intervals nor within `AGREEMENT`."""
    ablation, profiler = row.ablation_step_s, row.profiler_exposed_step_s
    is_close = abs(ablation.value - profiler.value) <= AGREEMENT * abs(profiler.value)
    return ablation.is_apart(profiler) and not is_close


APART = Claim(
    "ablation and profiler are apart",
    CommunicationRow,
    _exposed_apart,
    lambda row: row.batch_per_gpu >= AGREEMENT_BATCH and _profiler_tells(row),
    ["ablation_step_s", "profiler_exposed_step_s"],
)
MORE_THAN_COMMUNICATION = Claim(
    "subtraction counts more than communication",
    CommunicationRow,
    lambda row: row.communication_step_s.exceeds(row.profiler_step_s),
    lambda row: _is_headline(row) and _profiler_tells(row),
    ["communication_step_s", "profiler_step_s"],
)
WAITING = Claim(
    "devices wait for each other",
    CommunicationRow,
    lambda row: row.profiler_step_s.exceeds(row.profiler_least_step_s),
    _profiler_tells,
    ["profiler_step_s", "profiler_least_step_s"],
)
PROFILER_LEFT_OUT = Claim(
    "the profiler is left out", CommunicationRow, lambda row: not _profiler_tells(row), lambda row: bool(row.profiler)
)
PARTS_OFF = Claim(
    "parts do not make the step",
    StepsRow,
    lambda row: abs(row.difference) > SUM_OF_PARTS,
    lambda row: isfinite(row.difference) and _profiler_tells(row),
)
PROFILING_SLOWS = Claim(
    "profiling slows",
    CommunicationRow,
    lambda row: row.profiler_slows_by > SUM_OF_PARTS,
    lambda row: isfinite(row.profiler_slows_by),
)


VARIANT_FASTER, VARIANT_SLOWER = _sides(
    VariantsRow, "faster", 1, "a variant is faster", "a variant is slower", _is_headline
)


def _is_faster_alone(row: VariantsRow) -> bool:
    return _is_headline(row) and row.alone_faster.is_above(1)


_SCALING = ("speedup", "base_speedup", "alone_faster")
WEIGHS_MORE = Claim(
    "communication weighs more in a variant",
    VariantsRow,
    lambda row: row.base_speedup.exceeds(row.speedup),
    _is_faster_alone,
    _SCALING,
)
WEIGHS_LESS = Claim(
    "communication weighs less in a variant",
    VariantsRow,
    lambda row: row.speedup.exceeds(row.base_speedup),
    _is_faster_alone,
    _SCALING,
)


def _is_prepared(row: VariantsRow) -> bool:
    return _is_headline(row) and bool(row.pays)


PREPARATION_PAYS = Claim("preparation pays", VariantsRow, lambda row: row.pays == PAYS, _is_prepared, ["saved_s"])
PREPARATION_NEVER_PAYS = Claim(
    "preparation never pays", VariantsRow, lambda row: row.pays == NEVER, _is_prepared, ["saved_s"]
)
ONE_AS_FAST = Claim("one GPU is as fast as more", OneGpuRow, lambda row: row.as_fast == HOLDS, _is_headline, ["ratio"])
ONE_NOT_AS_FAST = Claim(
    "one GPU is not as fast as more", OneGpuRow, lambda row: row.as_fast == DOES_NOT, _is_headline, ["ratio"]
)
REMEDY_HELPS, REMEDY_HARMS = _sides(TrainingSummaryRow, "test_accuracy_gain", 0, "a remedy helps", "a remedy harms")
REMEDY_LEVEL = Claim(
    "a remedy shows no difference",
    TrainingSummaryRow,
    lambda row: row.test_accuracy_gain.holds(0),
    figures=["test_accuracy_gain"],
)
ABOVE_BASELINE, BELOW_BASELINE = _sides(
    TrainingSummaryRow,
    "test_accuracy_difference",
    0,
    "an arm is more accurate than the baseline",
    "an arm is less accurate than the baseline",
)
TRAINED_ABOVE, TRAINED_BELOW = _sides(
    TrainingSummaryRow,
    "training_accuracy_difference",
    0,
    "an arm is trained to a higher accuracy",
    "an arm is trained to a lower accuracy",
)
LOSS_LEVEL = Claim(
    "a remedy changes no loss",
    TrainingSummaryRow,
    lambda row: row.training_loss_change.holds(0),
    figures=["training_loss_change"],
)
TWIN_ABOVE, TWIN_BELOW = _sides(
    TwinsRow, "twin_accuracy_difference", 0, "a faster step ends more accurate", "a faster step ends less accurate"
)
DIVERGED = Claim("an arm diverged", TrainingSummaryRow, lambda row: row.status == "diverged")
FEW_SEEDS = Claim(
    "few seeds", TrainingSummaryRow, lambda row: (row.seeds or 0) < SEEDS_WANTED, lambda row: bool(row.seeds)
)
FAILED = Claim("a cell failed", MissingRow, lambda row: row.status == "failed")
REJECTED = Claim("a record is not used", RejectedRow, lambda row: True)
ENVIRONMENT = Claim("an environment was found", EnvironmentsRow, lambda row: True)


def _of_configuration(what: str, holds: Callable[[TimesRow], bool]) -> Claim[TimesRow]:
    """A configuration is asked once, whatever its scopes."""
    return Claim(what, TimesRow, holds, lambda row: row.status == "ok", once_per=configuration_of)


SINGLE_RUN = _of_configuration("a single run", lambda row: (row.runs or 0) < 2)
ON_ONE_SERVER = _of_configuration("one server", lambda row: row.epoch_s.is_one_machine)
# How wide it is decides, not where it lies.
WIDE = Claim(
    "a wide interval",
    TimesRow,
    lambda row: row.interval_width > WIDTH,
    lambda row: row.status == "ok" and row.epoch_s.has_interval,
)
DRIFTED = Claim(
    "a baseline drifted", BlocksRow, lambda row: bool(row.has_drifted), lambda row: row.has_drifted is not None
)
RUN_WITHOUT_BASELINE = Claim("a run has no baseline", BlocksRow, lambda row: row.status == "no baseline")
OFF = Claim("a run is off", RunsRow, lambda row: bool(row.is_outlier), lambda row: row.is_outlier is not None)
NO_BASELINE = Claim("no baseline", SpeedupRow, lambda row: row.status == "no baseline")
# Where nothing counted for how long: that is told with the seconds.
THROTTLED = Claim(
    "clocks were held down", RecordsRow, lambda row: bool(row.throttle_reasons), lambda row: not isfinite(row.slowed_s)
)
SLOW_DEVICE = Claim(
    "a device is slow",
    LadderRow,
    lambda row: row.uneven_s.is_above(UNEVEN * row.step_s.value),
    figures=("uneven_s",),
)
DISTURBED = Claim("other processes", RecordsRow, lambda row: bool(row.other_processes))
SLOWED = Claim(
    "clocks were kept down in the clock", RecordsRow, lambda row: row.slowed_s > 0, lambda row: isfinite(row.slowed_s)
)
CORES_STOLEN = Claim(
    "cores were stolen", RecordsRow, lambda row: row.stolen_share > STOLEN, lambda row: isfinite(row.stolen_share)
)
DIRTY = Claim("dirty code", RecordsRow, lambda row: bool(row.git_dirty))

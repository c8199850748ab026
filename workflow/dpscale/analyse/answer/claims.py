"""What the page claims of rows of tables: which rows it asks, and of which of them it holds.

A claim compares only where 95 % intervals carry it: a row without an interval is not asked.
Every predicate that rests on an interval is here, and is counted.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Generic, TypeVar

from dpscale.analyse.answer.series import COMPUTE, configuration_of
from dpscale.formulas.figure import Figure
from dpscale.formulas.scaling import AS_FAST
from dpscale.tables.answer import AnswerRow, CausesRow
from dpscale.tables.communication import BandwidthRow, CommunicationRow, LadderRow
from dpscale.tables.row import Row
from dpscale.tables.study import MissingRow, RecordsRow
from dpscale.tables.tables import TABLES
from dpscale.tables.timing import BlocksRow, SpeedupRow, StrategyPairsRow, TimesRow
from dpscale.tables.training import TrainingSummaryRow
from dpscale.vocabulary.causes import NOTHING
from dpscale.vocabulary.states import WORTH_IT

R = TypeVar("R", bound=Row)

# Ranks of a healthy server, where the host is the limit, differ by up to a tenth of a step: a slow device by more.
UNEVEN = 0.2


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
    """A predicate over rows of one table, which is counted: of the rows that are `among` those it speaks of, it `holds`
    for some.

    `sentence` names it. `figures` are the columns that decide: a row where one of them has no 95 % interval is not
    asked. Rows that are equal in `once_per` are asked once.
    """

    sentence: str
    kind: type[R]
    holds: Callable[[R], bool]
    among: Callable[[R], object] = lambda row: True
    figures: Sequence[str] = ()
    once_per: Callable[[R], object] = id

    def __post_init__(self) -> None:
        CLAIMS[self.sentence] = self

    @property
    def table(self) -> str:
        return _NAMES[self.kind]

    def intervals(self, row: R) -> list[Figure]:
        return [getattr(row, name) for name in self.figures]

    def asks(self, row: R) -> bool:
        return bool(self.among(row)) and all(figure.has_interval for figure in self.intervals(row))

    def surely(self, row: R) -> bool:
        """Whether the claim asks this row, and holds for it."""
        return self.asks(row) and self.holds(row)

    def of(self, rows: Sequence[R]) -> Outcome[R]:
        """Return the rows of a table that the claim asks, and those of them for which it holds."""
        first: dict[object, R] = {}
        for row in filter(self.asks, rows):
            first.setdefault(self.once_per(row), row)
        return Outcome(list(first.values()), [row for row in first.values() if self.holds(row)])


_NAMES = {kind: name for name, kind in TABLES.items()}
CLAIMS: dict[str, Claim[Any]] = {}


WORTH_MORE_DEVICES = Claim(
    "more devices are worth it", AnswerRow, lambda row: row.worth == WORTH_IT, lambda row: row.gpus > 1, ["speedup"]
)
SLOWER = Claim(
    "more devices are slower",
    SpeedupRow,
    lambda row: row.speedup.is_below(1),
    lambda row: row.is_headline and row.scaling == "weak",
    ["speedup"],
)


def _weak(sentence: str, holds: Callable[[Figure], bool]) -> Claim[SpeedupRow]:
    """Return a claim that asks every weak comparison, with an interval or without."""
    return Claim(
        sentence,
        SpeedupRow,
        lambda row: holds(row.speedup),
        lambda row: row.is_headline and row.scaling == "weak" and row.speedup.is_known,
    )


PROBABLY_SLOWER = _weak(
    "more devices are probably slower", lambda speedup: speedup.value < 1 and not speedup.is_below(1)
)
SURELY_FASTER = _weak("more devices are surely faster", lambda speedup: speedup.is_above(1))
PROBABLY_FASTER = _weak(
    "more devices are probably faster", lambda speedup: speedup.value > 1 and not speedup.is_above(1)
)


def _compared(outcome: str, holds: Callable[[StrategyPairsRow], bool]) -> Claim[StrategyPairsRow]:
    return Claim(
        f"one strategy is {outcome}",
        StrategyPairsRow,
        holds,
        lambda row: row.is_headline and row.scope == COMPUTE,
        ["epoch_s", "other_epoch_s"],
    )


# Where the later strategy of the table is faster, and where it is slower.
STRATEGIES = {
    "faster": _compared("faster", lambda row: row.other_epoch_s.exceeds(row.epoch_s)),
    "slower": _compared("slower", lambda row: row.epoch_s.exceeds(row.other_epoch_s)),
}


def _probably(outcome: str, holds: Callable[[StrategyPairsRow], bool]) -> Claim[StrategyPairsRow]:
    """Return a claim that holds by the value alone, where the intervals do not carry it, or there is none."""
    return Claim(
        f"one strategy is probably {outcome}",
        StrategyPairsRow,
        lambda row: holds(row) and not any(surely.surely(row) for surely in STRATEGIES.values()),
        lambda row: row.is_headline and row.scope == COMPUTE and isfinite(row.ratio),
    )


PROBABLY_STRATEGIES = {
    "faster": _probably("faster", lambda row: row.ratio > 1),
    "slower": _probably("slower", lambda row: row.ratio < 1),
}
ENOUGH = Claim(
    "a batch is as fast as the best",
    TimesRow,
    lambda row: row.of_best.is_above(AS_FAST),
    lambda row: row.is_headline and row.scope == COMPUTE,
    ["of_best"],
)
NOTHING_WRONG = Claim(
    "nothing is wrong", CausesRow, lambda row: row.cause == NOTHING.name, lambda row: row.order == 0, ["efficiency"]
)


def _communication(sentence: str, holds: Callable[[Figure], bool]) -> Claim[CommunicationRow]:
    return Claim(
        sentence,
        CommunicationRow,
        lambda row: holds(row.communication_s),
        lambda row: row.is_headline and row.status == "ok",
        ["communication_s"],
    )


COMMUNICATION = _communication("communication takes time", lambda time: time.is_above(0))
PROBABLY_COMMUNICATION = Claim(
    "communication probably takes time",
    CommunicationRow,
    lambda row: row.communication_s.value > 0 and not row.communication_s.is_above(0),
    lambda row: row.is_headline and row.status == "ok" and row.communication_s.is_known,
)
MAY_BE_NOTHING = _communication("communication may take no time", lambda time: time.holds(0))
BELOW_THE_LINKS = Claim(
    "bandwidth is below that of the links",
    BandwidthRow,
    lambda row: row.bandwidth_gb_s.is_below(row.bus_bandwidth_gb_s.value),
    lambda row: row.is_headline and row.bus_bandwidth_gb_s.is_known and row.bandwidth_gb_s.has_interval,
)
LONGER_THAN_MESSAGES = Claim(
    "a step is longer by more than its messages",
    CommunicationRow,
    lambda row: row.communication_step_s.is_above(row.isolated_step_s.value),
    lambda row: row.is_headline and row.isolated_step_s.is_known,
    ["communication_step_s"],
)
PROFILER_LEFT_OUT = Claim(
    "the profiler is left out", CommunicationRow, lambda row: row.profiler != "ok", lambda row: bool(row.profiler)
)


def _remedy(sentence: str, holds: Callable[[Figure], bool]) -> Claim[TrainingSummaryRow]:
    return Claim(
        sentence,
        TrainingSummaryRow,
        lambda row: holds(row.test_accuracy_gain),
        lambda row: bool(row.remedies),
        ["test_accuracy_gain"],
    )


REMEDY_HELPS = _remedy("a remedy helps", lambda difference: difference.is_above(0))
REMEDY_LEVEL = _remedy("a remedy shows no difference", lambda difference: difference.holds(0))
REMEDY_HARMS = _remedy("a remedy harms", lambda difference: difference.is_below(0))
BELOW_BASELINE = Claim(
    "an arm is less accurate than the baseline",
    TrainingSummaryRow,
    lambda row: row.test_accuracy_difference.is_below(0),
    figures=["test_accuracy_difference"],
)
FAILED = Claim("a cell failed", MissingRow, lambda row: row.status == "failed")


def _of_configuration(sentence: str, holds: Callable[[TimesRow], bool]) -> Claim[TimesRow]:
    """Return a claim that asks a configuration once, whatever its scopes."""
    return Claim(sentence, TimesRow, holds, lambda row: row.status == "ok", once_per=configuration_of)


SINGLE_RUN = _of_configuration("a single run", lambda row: (row.runs or 0) < 2)
ON_ONE_SERVER = _of_configuration("one server", lambda row: row.epoch_s.is_one_machine)
BORROWED = Claim(
    "a speedup of two servers borrows the spread of others",
    SpeedupRow,
    lambda row: bool(row.borrowed_from),
    lambda row: row.speedup.has_interval,
)
DRIFTED = Claim(
    "a baseline drifted", BlocksRow, lambda row: bool(row.has_drifted), lambda row: row.has_drifted is not None
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

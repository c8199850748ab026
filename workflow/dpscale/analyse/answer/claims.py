"""Claims of the page: predicates over rows of tables, each counted. Of how many rows they are asked, and for how many
they hold, is the table `counts`.

Every predicate that rests on a 95 % interval is here. A claim is counted only where intervals carry it: a row without
an interval is not asked (`surely`, `of`). `holds` is the predicate alone, for whoever knows that its row can be asked.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import isfinite
from typing import Any, Generic, TypeVar

from dpscale.analyse.answer import COMPUTE, configuration_of, series_of
from dpscale.formulas.figure import INTERVAL, Figure
from dpscale.strategies.known import BASELINE
from dpscale.tables.answer import AdviceRow, AnswerRow, CausesRow, CountsRow
from dpscale.tables.communication import BandwidthRow, CommunicationRow, LadderRow
from dpscale.tables.row import Row, grouped
from dpscale.tables.study import RecordsRow
from dpscale.tables.tables import TABLES, Tables
from dpscale.tables.timing import BlocksRow, ServersRow, SpeedupRow, StrategyPairsRow, TimesRow, VariantsRow
from dpscale.tables.training import TrainingSummaryRow
from dpscale.vocabulary.causes import NOTHING

R = TypeVar("R", bound=Row)
P = TypeVar("P", TimesRow, SpeedupRow, CommunicationRow, BandwidthRow)
C = TypeVar("C")
_Speedups = tuple[SpeedupRow, SpeedupRow]
_Arms = tuple[TrainingSummaryRow, TrainingSummaryRow]

# The row of `counts` that says how many different intervals are looked at before findings and verdict are chosen.
INTERVALS_USED = "intervals used"
# Of 100 intervals, so many miss the true value by chance.
MISSED_OF_100 = round(100 * (1 - (INTERVAL[1] - INTERVAL[0])))
# Ranks of a healthy server, where the host is the limit, differ by up to a tenth of a step: a slow device by more.
UNEVEN = 0.2
# Healthy servers, where the host is the limit, need up to 1.16 times as long as others; but no interval of one lies
# above 1.02 (recorded studies).
SLOWER_SERVER = 1.05
# Rounds that agree in the sign of a cost, where they are too few for an interval.
FEWEST_ROUNDS = 3


@dataclass(frozen=True)
class Outcome(Generic[C]):
    """The cases that a claim asked, and those of them for which it holds."""

    asked: Sequence[C]
    holding: Sequence[C]

    @property
    def number(self) -> int:
        return len(self.holding)

    @property
    def of(self) -> int:
        return len(self.asked)


@dataclass(frozen=True)
class Claim(Generic[C]):
    """A predicate over cases, which is counted: of those that are `among` the ones it speaks of, it `holds` for some.
    A case is a row of a table of the kind `rows`, or a tuple of such rows, which `cases` makes of all of them.

    `sentence` names the claim. `figures` are the columns that decide: a case where one of them has no 95 % interval is
    not asked. `adds_intervals` is false where their intervals are those of another claim in another unit, and counted
    there; and where no finding is chosen by them: a question has its answer whatever they are.
    """

    sentence: str
    rows: type[Row]
    holds: Callable[[C], bool]
    among: Callable[[C], object] = lambda case: True
    figures: Sequence[str] = ()
    adds_intervals: bool = True
    cases: Callable[[Sequence[Any]], Iterable[C]] = iter

    def __post_init__(self) -> None:
        CLAIMS[self.sentence] = self

    def intervals(self, case: C) -> list[Figure]:
        rows = case if isinstance(case, tuple) else (case,)
        return [getattr(row, name) for row in rows for name in self.figures]

    def asks(self, case: C) -> bool:
        return bool(self.among(case)) and all(figure.has_interval for figure in self.intervals(case))

    def surely(self, case: C) -> bool:
        """Whether the claim asks this case, and holds for it."""
        return self.asks(case) and self.holds(case)

    def of(self, rows: Sequence[Row]) -> Outcome[C]:
        """Return the cases of a table's rows that the claim asks, and those of them for which it holds."""
        asked = list(filter(self.asks, self.cases(rows)))
        return Outcome(asked, list(filter(self.holds, asked)))


CLAIMS: dict[str, Claim[Any]] = {}


def counts_rows(tables: Tables) -> Iterator[CountsRow]:
    """Yield for every claim of how many cases that it asks it holds; then how many intervals are looked at."""
    names = {kind: name for name, kind in TABLES.items()}
    used: set[int] = set()  # a figure of several rows is one
    for sentence, claim in CLAIMS.items():
        outcome = claim.of(getattr(tables, names[claim.rows]))
        if claim.adds_intervals:
            used |= {id(figure) for case in outcome.asked for figure in claim.intervals(case)}
        yield CountsRow(claim=sentence, number=outcome.number, asked=outcome.of)
    yield CountsRow(claim=INTERVALS_USED, number=len(used), asked=len(used))


def _claims_of(
    rows: type[R],
    among: Callable[[R], object] = lambda row: True,
    figures: Sequence[str] = (),
    adds_intervals: bool = True,
) -> Callable[[str, Callable[[R], bool]], Claim[R]]:
    """Return what makes claims of these rows, of a sentence and a predicate each."""
    return lambda sentence, holds: Claim(sentence, rows, holds, among, figures, adds_intervals)


# Whether more devices are worth it, by the limit of the study (`analyse.answer.answer`).

_answer = _claims_of(AnswerRow, lambda row: row.gpus > 1, ["speedup"])
WORTH_MORE_DEVICES = _answer("more devices are worth it", lambda row: row.speedup.is_above(row.limit))
NOT_WORTH_MORE_DEVICES = _answer("more devices are not worth it", lambda row: row.speedup.is_below(row.limit))
SAVES = _claims_of(AdviceRow, figures=["saving"])("a change saves time", lambda row: row.saving.is_above(0))


# Whether more devices are faster. "Probably" is asked with an interval or without.


def _is_weak(row: SpeedupRow) -> bool:
    return bool(row.is_headline) and row.scaling == "weak" and row.speedup.is_known


SLOWER = _claims_of(SpeedupRow, _is_weak, ["speedup"])("more devices are slower", lambda row: row.speedup.is_below(1))
PROBABLY_SLOWER = _claims_of(SpeedupRow, _is_weak)(
    "more devices are probably slower", lambda row: row.speedup.value < 1 and not row.speedup.is_below(1)
)


# Where the later strategy of the table is faster, and where it is slower; then by the value alone, where the intervals
# do not carry it, or there is none.
_compared = _claims_of(
    StrategyPairsRow, lambda row: row.is_headline and row.scope == COMPUTE, ["epoch_s", "other_epoch_s"]
)
STRATEGIES = {
    "faster": _compared("one strategy is faster", lambda row: row.other_epoch_s.exceeds(row.epoch_s)),
    "slower": _compared("one strategy is slower", lambda row: row.epoch_s.exceeds(row.other_epoch_s)),
}

_by_value = _claims_of(StrategyPairsRow, lambda row: row.is_headline and row.scope == COMPUTE and isfinite(row.ratio))
PROBABLY_STRATEGIES = {
    "faster": _by_value(
        "one strategy is probably faster", lambda row: row.ratio > 1 and not STRATEGIES["faster"].surely(row)
    ),
    "slower": _by_value(
        "one strategy is probably slower", lambda row: row.ratio < 1 and not STRATEGIES["slower"].surely(row)
    ),
}


# DataParallel starts new threads in every step, and torch keeps what cuDNN's search finds for one thread.
SEARCH_COSTS = _claims_of(
    VariantsRow,
    lambda row: row.is_headline and (row.strategy, row.changes) == ("dp", "cudnn_benchmark=True"),
    ["longer_step_s"],
)("cuDNN's search makes steps of dp longer", lambda row: row.longer_step_s.is_above(0))


# Why more devices are not faster. Of the step of a script there is no row: `diagnosis` asks its figures.


def is_efficient(efficiency: Figure) -> bool:
    """Whether surely no more is lost than what is not named as a reason."""
    return efficiency.is_above(1 - NOTHING.least_share)


def is_large_cost(cost_s: Figure, share: Figure, least_share: float, noise_s: float) -> bool:
    """Whether a cost surely takes enough of the step, and more than noise."""
    is_enough = share.value >= least_share and not share.low < least_share
    return is_enough and cost_s.value > noise_s and _is_surely_above_zero(cost_s)


def _is_surely_above_zero(cost: Figure) -> bool:
    """Whether all of an interval is, or every one of some rounds that are too few for one; or a value of no rounds."""
    if cost.has_interval or not cost.blocks:
        return not cost.low <= 0
    return len(cost.blocks) >= FEWEST_ROUNDS and min(cost.blocks.values()) > 0


def _loses(efficiency: Figure) -> bool:
    """Whether something is surely lost; without an interval, whether that is more than little."""
    return efficiency.is_below(1) if efficiency.has_interval else not efficiency.value >= 1 - NOTHING.least_share


_first_cause = _claims_of(CausesRow, lambda row: row.order == 0, ["efficiency"])
NOTHING_WRONG = _first_cause(
    "nothing is wrong",
    lambda row: not row.is_reason and is_efficient(row.efficiency) and not row.efficiency.is_above(1),
)
LOSES = _first_cause("more devices lose time", lambda row: _loses(row.efficiency))
REASON = _claims_of(CausesRow, lambda row: row.cost_s.is_known, ["share"])(
    "a cause is a reason", lambda row: bool(row.is_reason)
)


def _spread(figure: Figure) -> float:
    return figure.high / figure.low


SURER_BY_STEPS = _claims_of(
    SpeedupRow,
    lambda row: row.is_headline and row.scaling == "weak",
    ["speedup_from_steps"],
    adds_intervals=False,
)(
    "an efficiency is surer by steps than by epochs",
    lambda row: not row.efficiency.has_interval or _spread(row.speedup_from_steps) < _spread(row.efficiency),
)


# Communication and bandwidth.


def _has_communication(row: CommunicationRow) -> bool:
    return bool(row.is_headline) and row.status == "ok" and row.communication_s.is_known


_communication = _claims_of(CommunicationRow, _has_communication, ["communication_s"])
COMMUNICATION = _communication("communication takes time", lambda row: row.communication_s.is_above(0))
PROBABLY_COMMUNICATION = _claims_of(CommunicationRow, _has_communication)(
    "communication probably takes time",
    lambda row: row.communication_s.value > 0 and not row.communication_s.is_above(0),
)

_bandwidth = _claims_of(BandwidthRow, lambda row: row.is_headline, ["communication_s"], adds_intervals=False)
RESOLVABLE = _bandwidth("a bandwidth follows from communication time", lambda row: row.communication_s.is_above(0))
# The longest time gives the least bandwidth. Nothing follows where it is surely below zero.
BOUNDED = _bandwidth(
    "a bandwidth has a lower bound", lambda row: row.communication_s.has_interval and row.communication_s.high > 0
)
BELOW_THE_LINKS = _claims_of(
    BandwidthRow,
    lambda row: row.is_headline and row.bus_bandwidth_gb_s.is_known,
    ["bandwidth_gb_s"],
    adds_intervals=False,
)(
    "bandwidth is below that of the links",
    lambda row: row.bandwidth_gb_s.is_below(row.bus_bandwidth_gb_s.value),
)


# How a figure goes with the batch: by the figures of a smaller and of a larger one.

RISES, FALLS, LEVEL = "rises", "falls", "is level"
_WAYS: Mapping[str, Callable[[Figure, Figure], bool]] = {
    RISES: lambda smaller, larger: larger.exceeds(smaller),
    FALLS: lambda smaller, larger: smaller.exceeds(larger),
    LEVEL: lambda smaller, larger: not (larger.exceeds(smaller) or smaller.exceeds(larger)),
}


@dataclass(frozen=True)
class Trend(Generic[P]):
    """How a figure goes from a smaller to a larger batch of a series: a claim for every way of `_WAYS`."""

    figure: str
    ways: Mapping[str, Claim[tuple[P, P]]]

    def way(self, smaller: P, larger: P) -> str:
        """Return `rises`, `falls` or `is level`; `untold` without intervals to compare."""
        return next((way for way, claim in self.ways.items() if claim.surely((smaller, larger))), "untold")


def _pairs(among: Callable[[P], bool]) -> Callable[[Sequence[P]], Iterator[tuple[P, P]]]:
    """Return what makes pairs of a smaller and a larger batch, of the rows that are `among` those that speak for their
    series."""

    def pairs(rows: Sequence[P]) -> Iterator[tuple[P, P]]:
        by_batch = sorted(filter(among, rows), key=lambda row: row.batch_per_gpu)
        for series in grouped(by_batch, lambda row: (series_of(row), row.scope)).values():
            yield from combinations(series, 2)

    return pairs


def _trend(name: str, figure: str, kind: type[P], among: Callable[[P], bool]) -> Trend[P]:
    """Return the trend of a column over the rows that are `among` those that speak for their series."""

    def claim(way: str, goes: Callable[[Figure, Figure], bool]) -> Claim[tuple[P, P]]:
        return Claim(
            f"{name} {way} with the batch",
            kind,
            lambda pair: goes(getattr(pair[0], figure), getattr(pair[1], figure)),
            figures=[figure],
            adds_intervals=False,
            cases=_pairs(among),
        )

    return Trend(figure, {way: claim(way, goes) for way, goes in _WAYS.items()})


SPEEDUP_TREND = _trend("speedup", "speedup", SpeedupRow, _is_weak)
COMMUNICATION_TREND = _trend("communication time", "communication_s", CommunicationRow, _has_communication)
BANDWIDTH_TREND = _trend("bandwidth", "bandwidth_gb_s", BandwidthRow, lambda row: bool(row.is_headline))


def _is_of_one_device(row: TimesRow) -> bool:
    return bool(row.is_headline) and row.status == "ok" and row.strategy == BASELINE


EPOCH_TREND = _trend("time of an epoch on one device", "epoch_s", TimesRow, _is_of_one_device)


def _in_all_runs(way: str, is_so: Callable[[Figure, Figure], bool]) -> Claim[tuple[TimesRow, TimesRow]]:
    """Return the claim of two values each that lie apart, or of intervals that do, where none is sure."""
    return Claim(
        f"time of an epoch on one device {way} with the batch in all runs, too few for an interval",
        TimesRow,
        lambda pair: is_so(pair[0].epoch_s, pair[1].epoch_s) and not EPOCH_TREND.ways[way].surely(pair),
        among=lambda pair: all(isfinite(end) for row in pair for end in row.epoch_s.interval),
        cases=_pairs(_is_of_one_device),
    )


EPOCH_IN_ALL_RUNS = {
    RISES: _in_all_runs(RISES, lambda smaller, larger: larger.low > smaller.high),
    FALLS: _in_all_runs(FALLS, lambda smaller, larger: smaller.low > larger.high),
}


def strong_beside_weak(rows: Sequence[SpeedupRow]) -> Iterator[_Speedups]:
    """Yield every strong speedup with the weak one over the same time of one device."""
    measured = [row for row in rows if row.is_headline and row.status == "ok"]
    weak = {(series_of(row), row.scope, row.batch_per_gpu): row for row in measured if row.scaling == "weak"}
    for row in measured:
        beside = weak.get((series_of(row), row.scope, row.global_batch))
        if row.scaling == "strong" and beside:
            yield row, beside


def _strong(side: str, is_so: Callable[[Figure, Figure], bool]) -> Claim[_Speedups]:
    return Claim(
        f"a strong speedup is {side} than the weak one",
        SpeedupRow,
        lambda pair: is_so(pair[0].speedup, pair[1].speedup),
        figures=["speedup"],
        adds_intervals=False,
        cases=strong_beside_weak,
    )


STRONG_BESIDE_WEAK = {
    "lower": _strong("lower", lambda strong, weak: weak.exceeds(strong)),
    "higher": _strong("higher", lambda strong, weak: strong.exceeds(weak)),
}


# Trainings.


def large_beside_baseline(rows: Sequence[TrainingSummaryRow]) -> Iterator[_Arms]:
    """Yield, of every environment that has both, the baseline and the largest batch without a remedy."""
    trained = [row for row in rows if row.status == "ok"]
    for arms in grouped(trained, lambda row: row.environment).values():
        baseline = next((row for row in arms if row.is_baseline), None)
        plain = [row for row in arms if not (row.is_baseline or row.remedies or row.lacks)]
        if baseline and plain:
            yield baseline, max(plain, key=lambda row: row.global_batch)


LARGE_IS_WORSE = Claim[_Arms](
    "a large batch trains less accurately than the baseline",
    TrainingSummaryRow,
    lambda pair: pair[0].training_accuracy.exceeds(pair[1].training_accuracy),
    figures=["training_accuracy"],
    adds_intervals=False,
    cases=large_beside_baseline,
)
_remedy = _claims_of(TrainingSummaryRow, lambda row: bool(row.remedies), ["test_accuracy_gain"])
REMEDY_HELPS = _remedy("a remedy helps", lambda row: row.test_accuracy_gain.is_above(0))
REMEDY_LEVEL = _remedy("a remedy shows no difference", lambda row: row.test_accuracy_gain.holds(0))
REMEDY_HARMS = _remedy("a remedy harms", lambda row: row.test_accuracy_gain.is_below(0))
BELOW_BASELINE = _claims_of(TrainingSummaryRow, figures=["test_accuracy_difference"])(
    "an arm is less accurate than the baseline", lambda row: row.test_accuracy_difference.is_below(0)
)


# How things were measured.


def _configurations(rows: Sequence[TimesRow]) -> Iterable[TimesRow]:
    """Return a row of every configuration that was measured: the first of its scopes."""
    return {configuration_of(row): row for row in reversed(rows) if row.status == "ok"}.values()


SINGLE_RUN = Claim[TimesRow]("a single run", TimesRow, lambda row: (row.runs or 0) < 2, cases=_configurations)
ON_ONE_SERVER = Claim[TimesRow]("one server", TimesRow, lambda row: row.epoch_s.is_one_machine, cases=_configurations)
DRIFTED = _claims_of(BlocksRow, lambda row: row.has_drifted is not None)(
    "a baseline drifted", lambda row: bool(row.has_drifted)
)
SLOW_DEVICE = _claims_of(LadderRow, figures=["uneven_s"])(
    "a device is slow", lambda row: row.uneven_s.is_above(UNEVEN * row.step_s.value)
)
SLOW_SERVER = _claims_of(ServersRow, figures=["times_as_long"])(
    "a server is slow", lambda row: row.times_as_long.is_above(SLOWER_SERVER)
)
DISTURBED = _claims_of(RecordsRow)("other processes", lambda row: bool(row.other_processes))
STALLED = _claims_of(RecordsRow)("an epoch stood still", lambda row: row.stalled_s > 0)
SKIPPED = _claims_of(RecordsRow)("an update was skipped", lambda row: bool(row.skipped_updates))
_with_clocks = _claims_of(RecordsRow, lambda row: isfinite(row.slowed_s))
HOT = _with_clocks("heat slows a device", lambda row: bool(row.hot_devices))
SLOWED = _with_clocks("clocks were kept down in the clock", lambda row: row.slowed_s > 0)

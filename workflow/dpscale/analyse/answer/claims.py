"""Claims of the page: predicates over rows of tables, each counted. Of how many rows they are asked, and for how many
they hold, is the table `counts`.

Every predicate that rests on a 95 % interval is here. A claim compares only where intervals carry it: a row without an
interval is not asked.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from math import isfinite
from typing import Any, Generic, TypeVar

from dpscale.analyse.answer.series import COMPUTE, configuration_of, series_of
from dpscale.formulas.figure import INTERVAL, Figure
from dpscale.formulas.scaling import AS_FAST
from dpscale.tables.answer import AdviceRow, AnswerRow, CausesRow, CountsRow
from dpscale.tables.communication import BandwidthRow, CommunicationRow, LadderRow
from dpscale.tables.row import Row, grouped
from dpscale.tables.study import MissingRow, RecordsRow
from dpscale.tables.tables import TABLES, Tables
from dpscale.tables.timing import BlocksRow, SpeedupRow, StrategyPairsRow, TimesRow
from dpscale.tables.training import TrainingSummaryRow
from dpscale.tables.variants import OneGpuRow, VariantsRow
from dpscale.vocabulary.causes import NOTHING

R = TypeVar("R", bound=Row)
P = TypeVar("P", SpeedupRow, CommunicationRow, BandwidthRow)
C = TypeVar("C")
T = TypeVar("T")

# The row of `counts` that says how many different intervals are looked at before findings and verdict are chosen.
INTERVALS_USED = "intervals used"
# Of 100 intervals, so many miss the true value by chance.
MISSED_OF_100 = round(100 * (1 - (INTERVAL[1] - INTERVAL[0])))
# Ranks of a healthy server, where the host is the limit, differ by up to a tenth of a step: a slow device by more.
UNEVEN = 0.2
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
    not asked. `is_other_unit` says that their intervals are those of another claim in another unit, and counted there.
    Cases that are equal in `once_per` are asked once.
    """

    sentence: str
    rows: type[Row]
    holds: Callable[[C], bool]
    among: Callable[[C], object] = lambda case: True
    figures: Sequence[str] = ()
    is_other_unit: bool = False
    once_per: Callable[[C], object] = id
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
        first: dict[object, C] = {}
        for case in filter(self.asks, self.cases(rows)):
            first.setdefault(self.once_per(case), case)
        return Outcome(list(first.values()), [case for case in first.values() if self.holds(case)])


CLAIMS: dict[str, Claim[Any]] = {}


def counts_rows(tables: Tables) -> Iterator[CountsRow]:
    """Yield for every claim of how many cases that it asks it holds; then how many intervals are looked at."""
    names = {kind: name for name, kind in TABLES.items()}
    used: set[int] = set()  # a figure of several rows is one
    for sentence, claim in CLAIMS.items():
        outcome = claim.of(getattr(tables, names[claim.rows]))
        if not claim.is_other_unit:
            used |= {id(figure) for case in outcome.asked for figure in claim.intervals(case)}
        yield CountsRow(what=sentence, number=outcome.number, of=outcome.of)
    yield CountsRow(what=INTERVALS_USED, number=len(used), of=len(used))


def _claim(
    sentence: str,
    rows: type[R],
    holds: Callable[[R], bool],
    among: Callable[[R], object] = lambda row: True,
    figures: Sequence[str] = (),
    is_other_unit: bool = False,
    once_per: Callable[[R], object] = id,
) -> Claim[R]:
    """Return a claim whose cases are rows."""
    return Claim(sentence, rows, holds, among, figures, is_other_unit, once_per)


# Whether more devices are worth it, by the limit of the study (`analyse.answer.verdict`).


def _of_answer(sentence: str, holds: Callable[[AnswerRow], bool]) -> Claim[AnswerRow]:
    return _claim(sentence, AnswerRow, holds, lambda row: row.gpus > 1, ["speedup"])


WORTH_MORE_DEVICES = _of_answer("more devices are worth it", lambda row: row.speedup.is_above(row.limit))
NOT_WORTH_MORE_DEVICES = _of_answer("more devices are not worth it", lambda row: row.speedup.is_below(row.limit))
ABOVE_IDEAL = _claim(
    "more devices give more than they can",
    AnswerRow,
    lambda row: row.efficiency.value > 1 and not row.efficiency.holds(1),
    lambda row: row.gpus > 1 and row.efficiency.is_known,
)
SAVES = _claim(
    "a change saves time", AdviceRow, lambda row: row.saving.is_above(0), figures=["saving"], is_other_unit=True
)


# Whether more devices are faster.


def _weak(sentence: str, holds: Callable[[Figure], bool], figures: Sequence[str] = ()) -> Claim[SpeedupRow]:
    """Return a claim that asks every weak comparison; without `figures` those too that have no interval."""
    return _claim(
        sentence,
        SpeedupRow,
        lambda row: holds(row.speedup),
        lambda row: row.is_headline and row.scaling == "weak" and row.speedup.is_known,
        figures,
    )


SLOWER = _weak("more devices are slower", lambda speedup: speedup.is_below(1), ["speedup"])
PROBABLY_SLOWER = _weak(
    "more devices are probably slower", lambda speedup: speedup.value < 1 and not speedup.is_below(1)
)
SURELY_FASTER = _weak("more devices are surely faster", lambda speedup: speedup.is_above(1))
PROBABLY_FASTER = _weak(
    "more devices are probably faster", lambda speedup: speedup.value > 1 and not speedup.is_above(1)
)


def _rivals(rows: Sequence[SpeedupRow]) -> Iterator[tuple[SpeedupRow, SpeedupRow]]:
    """Yield every two strategies on the same devices at the same batch, in both orders."""
    weak = [row for row in rows if row.is_headline and row.scaling == "weak"]
    places = grouped(weak, lambda row: (row.gpus, row.batch_per_gpu, row.scope, row.environment))
    for rivals in places.values():
        yield from permutations(rivals, 2)


FASTER_STRATEGY = Claim[tuple[SpeedupRow, SpeedupRow]](
    "a strategy has a larger speedup than another",
    SpeedupRow,
    lambda rivals: rivals[0].speedup.exceeds(rivals[1].speedup),
    figures=["speedup"],
    cases=_rivals,
)


def _compared(outcome: str, holds: Callable[[StrategyPairsRow], bool]) -> Claim[StrategyPairsRow]:
    return _claim(
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
    return _claim(
        f"one strategy is probably {outcome}",
        StrategyPairsRow,
        lambda row: holds(row) and not any(surely.surely(row) for surely in STRATEGIES.values()),
        lambda row: row.is_headline and row.scope == COMPUTE and isfinite(row.ratio),
    )


PROBABLY_STRATEGIES = {
    "faster": _probably("faster", lambda row: row.ratio > 1),
    "slower": _probably("slower", lambda row: row.ratio < 1),
}
ENOUGH = _claim(
    "a batch is as fast as the best",
    TimesRow,
    lambda row: row.of_best.is_above(AS_FAST),
    lambda row: row.is_headline and row.scope == COMPUTE,
    ["of_best"],
)


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


def _of_causes(sentence: str, holds: Callable[[CausesRow], bool]) -> Claim[CausesRow]:
    return _claim(sentence, CausesRow, holds, lambda row: row.order == 0, ["efficiency"])


NOTHING_WRONG = _of_causes(
    "nothing is wrong",
    lambda row: not row.is_reason and is_efficient(row.efficiency) and not row.efficiency.is_above(1),
)
LOSES = _of_causes("more devices lose time", lambda row: _loses(row.efficiency))
REASON = _claim(
    "a cause is a reason", CausesRow, lambda row: bool(row.is_reason), lambda row: row.cost_s.is_known, ["share"]
)
SURER_BY_STEPS = _claim(
    "an efficiency is surer by steps than by epochs",
    SpeedupRow,
    lambda row: not row.efficiency.has_interval or _spread(row.speedup_from_steps) < _spread(row.efficiency),
    lambda row: row.is_headline and row.scaling == "weak",
    ["speedup_from_steps"],
    is_other_unit=True,
)


def _spread(figure: Figure) -> float:
    return figure.high / figure.low


# Communication and bandwidth.


def _communication(sentence: str, holds: Callable[[Figure], bool], figures: Sequence[str]) -> Claim[CommunicationRow]:
    return _claim(
        sentence,
        CommunicationRow,
        lambda row: holds(row.communication_s),
        lambda row: row.is_headline and row.status == "ok" and row.communication_s.is_known,
        figures,
    )


COMMUNICATION = _communication("communication takes time", lambda time: time.is_above(0), ["communication_s"])
PROBABLY_COMMUNICATION = _communication(
    "communication probably takes time", lambda time: time.value > 0 and not time.is_above(0), ()
)
MAY_BE_NOTHING = _communication("communication may take no time", lambda time: time.holds(0), ["communication_s"])


def _bandwidth(sentence: str, holds: Callable[[Figure], bool]) -> Claim[BandwidthRow]:
    return _claim(
        sentence,
        BandwidthRow,
        lambda row: holds(row.communication_s),
        lambda row: row.is_headline,
        ["communication_s"],
        is_other_unit=True,
    )


RESOLVABLE = _bandwidth("a bandwidth follows from communication time", lambda time: time.is_above(0))
# The longest time gives the least bandwidth. Nothing follows where it is surely below zero.
BOUNDED = _bandwidth("a bandwidth has a lower bound", lambda time: time.has_interval and time.high > 0)
BELOW_ZERO = _bandwidth("communication time is below zero", lambda time: time.is_below(0))
BELOW_THE_LINKS = _claim(
    "bandwidth is below that of the links",
    BandwidthRow,
    lambda row: row.bandwidth_gb_s.is_below(row.bus_bandwidth_gb_s.value),
    lambda row: row.is_headline and row.bus_bandwidth_gb_s.is_known,
    ["bandwidth_gb_s"],
    is_other_unit=True,
)


def _beside_messages(sentence: str, holds: Callable[[CommunicationRow], bool]) -> Claim[CommunicationRow]:
    return _claim(
        sentence,
        CommunicationRow,
        holds,
        lambda row: row.is_headline and row.isolated_step_s.is_known,
        ["communication_step_s"],
    )


LONGER_THAN_MESSAGES = _beside_messages(
    "a step is longer by more than its messages",
    lambda row: row.communication_step_s.is_above(row.isolated_step_s.value),
)
MAY_BE_NO_LONGER = _beside_messages(
    "a step may be no longer than on one device", lambda row: row.communication_step_s.holds(0)
)
PROFILER_LEFT_OUT = _claim(
    "the profiler is left out", CommunicationRow, lambda row: row.profiler != "ok", lambda row: bool(row.profiler)
)


# How a figure goes with the batch.


@dataclass(frozen=True)
class Trend(Generic[P]):
    """How a figure goes from a smaller to a larger batch of a series: a claim for every way, and one that the figure
    turns between the ends."""

    figure: Callable[[P], Figure]
    ways: Mapping[str, Claim[tuple[P, P]]]
    turns: Claim[tuple[P, P, P]]

    def way(self, first: P, last: P) -> str:
        """Return `rises`, `falls` or `level`; `untold` without intervals to compare."""
        return next((way for way, claim in self.ways.items() if claim.surely((first, last))), "untold")

    def turn(self, series: Sequence[P]) -> P | None:
        """Return the first row between the ends of a series where the figure surely turns."""
        return next((between for first, between, last in filter(self.turns.surely, _turns(series))), None)


def _turns(series: Sequence[T]) -> Iterator[tuple[T, T, T]]:
    """Yield every row between the ends of a series, with these."""
    return ((series[0], between, series[-1]) for between in series[1:-1])


def _trend(figure: str, kind: type[P], speaks: Callable[[P], object]) -> Trend[P]:
    """Return the trend of a column over the rows that speak for their configurations."""

    def of(row: P) -> Figure:
        return getattr(row, figure)  # type: ignore[no-any-return]

    def series(rows: Sequence[P]) -> Iterator[list[P]]:
        speaking = [row for row in rows if row.is_headline and row.status == "ok" and speaks(row)]
        for alike in grouped(speaking, lambda row: (series_of(row), row.scope)).values():
            if len(alike) > 1:
                yield sorted(alike, key=lambda row: row.batch_per_gpu)

    def ends(rows: Sequence[P]) -> Iterator[tuple[P, P]]:
        return ((alike[0], alike[-1]) for alike in series(rows))

    def way(name: str, holds: Callable[[Figure, Figure], bool]) -> Claim[tuple[P, P]]:
        return Claim(
            f"{figure} {name} with the batch",
            kind,
            lambda rows: holds(of(rows[0]), of(rows[1])),
            figures=[figure],
            is_other_unit=True,
            cases=ends,
        )

    def is_turn(first: Figure, between: Figure, last: Figure) -> bool:
        is_peak = between.exceeds(first) and between.exceeds(last)
        return is_peak or (first.exceeds(between) and last.exceeds(between))

    return Trend(
        of,
        {
            "rises": way("rises", lambda first, last: last.exceeds(first)),
            "falls": way("falls", lambda first, last: first.exceeds(last)),
            "level": way("is level", lambda first, last: not (last.exceeds(first) or first.exceeds(last))),
        },
        Claim(
            f"{figure} turns between two batches",
            kind,
            lambda rows: is_turn(*map(of, rows)),
            figures=[figure],
            is_other_unit=True,
            cases=lambda rows: (case for alike in series(rows) for case in _turns(alike)),
        ),
    )


SPEEDUP_TREND = _trend("speedup", SpeedupRow, lambda row: row.scaling == "weak")
COMMUNICATION_TREND = _trend("communication_s", CommunicationRow, lambda row: row.communication_s.is_known)
BANDWIDTH_TREND = _trend("bandwidth_gb_s", BandwidthRow, lambda row: row.bandwidth_gb_s.is_known)


# Other settings: whether they pay, and whether one device is enough with them.


def _saved(sentence: str, holds: Callable[[Figure], bool]) -> Claim[VariantsRow]:
    return _claim(
        sentence,
        VariantsRow,
        lambda row: holds(row.saved_s),
        lambda row: row.is_headline and row.preparation_s.is_known,
        ["saved_s"],
    )


PREPARATION_PAYS = _saved("a preparation pays", lambda saved: saved.is_above(0))
PREPARATION_NEVER_PAYS = _saved("a preparation never pays", lambda saved: saved.has_interval and saved.high <= 0)


def _one_device(sentence: str, holds: Callable[[Figure], bool]) -> Claim[OneGpuRow]:
    return _claim(sentence, OneGpuRow, lambda row: holds(row.ratio), lambda row: row.is_headline, ["ratio"])


ONE_DEVICE_AS_FAST = _one_device("one device is as fast as more", lambda ratio: ratio.has_interval and ratio.low >= 1)
ONE_DEVICE_SLOWER = _one_device("one device is slower than more", lambda ratio: ratio.is_below(1))


# Trainings.


def _remedy(sentence: str, holds: Callable[[Figure], bool]) -> Claim[TrainingSummaryRow]:
    return _claim(
        sentence,
        TrainingSummaryRow,
        lambda row: holds(row.test_accuracy_gain),
        lambda row: bool(row.remedies),
        ["test_accuracy_gain"],
    )


REMEDY_HELPS = _remedy("a remedy helps", lambda difference: difference.is_above(0))
REMEDY_LEVEL = _remedy("a remedy shows no difference", lambda difference: difference.holds(0))
REMEDY_HARMS = _remedy("a remedy harms", lambda difference: difference.is_below(0))
BELOW_BASELINE = _claim(
    "an arm is less accurate than the baseline",
    TrainingSummaryRow,
    lambda row: row.test_accuracy_difference.is_below(0),
    figures=["test_accuracy_difference"],
)


# How things were measured.


def _of_configuration(sentence: str, holds: Callable[[TimesRow], bool]) -> Claim[TimesRow]:
    """Return a claim that asks a configuration once, whatever its scopes."""
    return _claim(sentence, TimesRow, holds, lambda row: row.status == "ok", once_per=configuration_of)


FAILED = _claim("a cell failed", MissingRow, lambda row: row.status == "failed")
SINGLE_RUN = _of_configuration("a single run", lambda row: (row.runs or 0) < 2)
ON_ONE_SERVER = _of_configuration("one server", lambda row: row.epoch_s.is_one_machine)
BORROWED = _claim(
    "a speedup of two servers borrows the spread of others",
    SpeedupRow,
    lambda row: bool(row.borrowed_from),
    lambda row: row.speedup.has_interval,
)
DRIFTED = _claim(
    "a baseline drifted", BlocksRow, lambda row: bool(row.has_drifted), lambda row: row.has_drifted is not None
)
SLOW_DEVICE = _claim(
    "a device is slow", LadderRow, lambda row: row.uneven_s.is_above(UNEVEN * row.step_s.value), figures=["uneven_s"]
)
DISTURBED = _claim("other processes", RecordsRow, lambda row: bool(row.other_processes))
SLOWED = _claim(
    "clocks were kept down in the clock", RecordsRow, lambda row: row.slowed_s > 0, lambda row: isfinite(row.slowed_s)
)

"""A figure with its uncertainty: how it is formed in blocks, its interval, and its arithmetic.

The method (docs/method/statistics.md). A block is what shares processes, GPUs and minutes: a run, or a run of several
GPUs with its one-GPU baseline. Differences and ratios are formed inside blocks, so that what a block shares drops out,
such as its server. Blocks of one server share that server's effect: they are averaged first, and servers are the units
of every interval. Three or more units have Student's 95 % interval. Two have their values as ends, but for speedups:
where other configurations lend their spread, or steps are even, they have an interval (`interval_of_two`). One has no
ends. Times and ratios vary in proportion, so they are averaged as logarithms.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import scipy  # its parts load when they are first used: an audit needs none of them

from dpscale.formulas import OnServer

INTERVAL = (0.025, 0.975)

# Times and ratios vary in proportion, differences do not.
Scale = Literal["log", "linear"]
_SCALES: Mapping[Scale, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "log": (np.log, np.exp),
    "linear": (np.asarray, np.asarray),
}

# Where a speedup rests on two servers (docs/method/statistics.md, "Two servers"): quartiles of a run's steps are uneven
# that lie further apart than this share of the median; so many other configurations lend their spread, no fewer; and
# all of them together count as so many servers.
UNEVEN = 0.02
LENDERS = 3
COUNTS_AS = 1

# What `low` and `high` are: a 95 % interval over servers; the same over the runs of one server, which says nothing of
# another one; the lower and the higher value of two servers, or of two runs of one; or nothing, of one run or for
# another reason.
Kind = Literal["interval", "one machine", "two machines", "two runs", "one run", "none"]


@dataclass(frozen=True)
class Figure:
    """A value between `low` and `high`; what is not known is NaN. An infinite number is not known either.

    Predicates that need a 95 % interval are false where there is none.
    """

    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    kind: Kind = "none"
    blocks: Mapping[OnServer, float] = field(default_factory=dict, repr=False, compare=False)
    """The figure of every block that it is the mean of, if it is one."""
    borrowed_from: int = 0
    """Other configurations whose spread is part of its interval, where it rests on two servers or runs."""

    @classmethod
    def of(cls, value: float, low: float = math.nan, high: float = math.nan) -> "Figure":
        """Return a figure with a 95 % interval, where both ends are known."""
        return cls(value, low, high, "interval" if math.isfinite(low) and math.isfinite(high) else "none")

    @property
    def interval(self) -> tuple[float, float]:
        """The two ends, (nan, nan) where there are none; `kind` says what they are."""
        return self.low, self.high

    @property
    def is_known(self) -> bool:
        return math.isfinite(self.value)

    @property
    def servers(self) -> int:
        """The servers that its blocks are of."""
        return len({block.server for block in self.blocks})

    @property
    def has_interval(self) -> bool:
        """Whether it has a 95 % interval: over servers, or over the runs of one machine."""
        return self.kind in ("interval", "one machine") and all(map(math.isfinite, (self.value, self.low, self.high)))

    @property
    def is_one_machine(self) -> bool:
        """Whether it rests on several runs of one server alone."""
        return self.kind in ("one machine", "two runs")

    @property
    def is_of_two(self) -> bool:
        """Whether its ends are the values of two servers or runs, and no interval."""
        return self.kind in ("two machines", "two runs")

    @property
    def sure(self) -> "Figure":
        """The figure of no block, with its 95 % interval, or the values of two, if it has them."""
        has_ends = self.has_interval or self.is_of_two
        return Figure(self.value, self.low, self.high, self.kind) if has_ends else Figure(self.value)

    def is_above(self, limit: float) -> bool:
        """Whether its whole interval lies above the limit."""
        return self.has_interval and self.low > limit

    def is_below(self, limit: float) -> bool:
        """Whether its whole interval lies below the limit."""
        return self.has_interval and self.high < limit

    def holds(self, limit: float) -> bool:
        """Whether the limit lies in its interval: on neither side surely."""
        return self.has_interval and self.low <= limit <= self.high

    def exceeds(self, lower: "Figure") -> bool:
        """Whether the interval of its ratio to `lower` lies above 1; that of their difference above 0, where one of
        their ends is not above zero."""
        has_logarithms = min(self.low, lower.low) > 0
        return ratio(self, lower).is_above(1) if has_logarithms else less(self, lower).is_above(0)

    def map(self, function: Callable[[float], float]) -> "Figure":
        """Return a monotone function of all that is known of it, block by block too."""
        low, high = function(self.low), function(self.high)
        low, high = (high, low) if low > high else (low, high)
        blocks = {block: function(value) for block, value in self.blocks.items()}
        return replace(self, value=function(self.value), low=low, high=high, blocks=blocks)


UNKNOWN = Figure()


def estimate_of_blocks(values_by_block: Mapping[OnServer, float], scale: Scale = "log") -> Figure:
    """Return the mean over servers with Student's 95 % interval over them; of logarithms where the scale is `log`.

    Blocks on one server are averaged first. Where all are on one server, the interval is over its blocks, and of kind
    `one machine`. Two servers, or two blocks of one, have no interval: their values are the ends. One block has none.
    Raises ValueError without a block, and, on the scale `log`, for a figure that is not above zero.
    """
    values = np.array(list(values_by_block.values()), dtype=float)
    if not len(values):
        raise ValueError("no block has a figure")
    if scale == "log" and not (values > 0).all():
        raise ValueError(f"a figure that is not above zero has no logarithm: {values}")
    blocks = dict(values_by_block)
    units = np.array(units_of(blocks, scale))
    to_scale, back = _SCALES[scale]
    scaled = to_scale(units)
    mean = float(scaled.mean())
    is_one_server = len({block.server for block in blocks}) == 1
    if len(units) == 1:
        return Figure(float(units[0]), kind="one run", blocks=blocks)
    if len(units) == 2:
        kind: Kind = "two runs" if is_one_server else "two machines"
        return Figure(float(back(mean)), float(units.min()), float(units.max()), kind, blocks)
    error = float(scaled.std(ddof=1)) / math.sqrt(len(units))
    reach = error * students_factor(len(units) - 1)
    kind = "one machine" if is_one_server else "interval"
    with np.errstate(over="ignore"):
        return Figure(float(back(mean)), float(back(mean - reach)), float(back(mean + reach)), kind, blocks)


def students_factor(freedom: int) -> float:
    """Return how many standard errors a 95 % interval by Student's t reaches to each side (Student 1908)."""
    return float(scipy.special.stdtrit(freedom, INTERVAL[1]))


def units_of(values_by_block: Mapping[OnServer, float], scale: Scale = "log") -> list[float]:
    """Return the values that an interval is over: the mean of every server's blocks; of one server alone its blocks."""
    to_scale, back = _SCALES[scale]
    of_server: dict[int, list[float]] = {}
    for block, value in values_by_block.items():
        of_server.setdefault(block.server, []).append(value)
    if len(of_server) == 1:
        return list(values_by_block.values())
    means = {server: float(back(to_scale(np.array(values)).mean())) for server, values in of_server.items()}
    return [values[0] if len(values) == 1 else means[server] for server, values in of_server.items()]


def estimate_of_runs(timings_by_run: Mapping[OnServer, Sequence[float]], scale: Scale = "log") -> Figure:
    """Return the mean over servers where every run is a block: its figure is the median of its timings."""
    return estimate_of_blocks({run: float(np.median(values)) for run, values in timings_by_run.items()}, scale)


def derive_in_blocks(formula: Callable[..., float], *paired_estimates: Figure, scale: Scale = "log") -> Figure:
    """Return the mean of a formula over the blocks that all the estimates have, with its figure in every block.

    What the estimates of a block share, such as its server, so drops out of a difference or ratio. Raises ValueError
    where they share no block.
    """
    first = paired_estimates[0]
    shared = [block for block in first.blocks if all(block in estimate.blocks for estimate in paired_estimates)]
    figures = {block: float(formula(*(estimate.blocks[block] for estimate in paired_estimates))) for block in shared}
    return estimate_of_blocks(figures, scale)


def is_uneven(lower_s: float, upper_s: float, median_s: float) -> bool:
    """Whether the steps of a run differ in length by more than 2 % of their median, from quartile to quartile.

    Such steps wait for the host, and speedups of them differ between servers by several per cent; those of even steps
    differ by some tenths of a per cent (recorded studies).
    """
    return upper_s - lower_s > UNEVEN * median_s


def interval_of_two(speedup: Figure, uneven: bool | None, lent: Sequence[Figure]) -> Figure:
    """A speedup with the 95 % interval that two servers allow; any other figure is returned as it is.

    Where steps are not `uneven`, it is Student's with one degree of freedom, of the two logarithms alone.

    Where they are, two values say little of how much servers differ, and other configurations stand in for a third
    server. With s^2 the variance of the two logarithms and s0^2 the pooled variance of the others, the variance is
    (s^2 + s0^2) / 2 with two degrees of freedom. It is the posterior variance under a scaled inverse chi-square prior
    (Gelman et al., "Bayesian Data Analysis", 3.2) with s0^2 as its scale. The prior has one degree of freedom however
    many others there are: they were measured on the same servers, and are not independent of each other. So the
    interval reaches at least 1.52 times as far as the two values are apart to each side.

    Steps are uneven where those of any of its runs are (`is_uneven`): one server may be even and another not.
    `lent` are the speedups of the other uneven configurations of the same environment and settings, with ten full
    steps in an epoch. Those of at least two units lend, over servers where this is of two servers, and over the runs of
    one server where this is of two runs. With fewer than three, or where it is not known whether steps are uneven
    (None), there is no interval.
    """
    if not speedup.is_of_two:
        return speedup
    seen = _Spread.of(speedup)
    if uneven is False:
        return _with_interval(speedup, seen, borrowed_from=0)
    spreads = [_Spread.of(figure) for figure in lent if figure.is_one_machine == speedup.is_one_machine]
    lenders = [spread for spread in spreads if spread.freedom > 0]
    if not uneven or len(lenders) < LENDERS:
        return speedup
    pooled = sum(spread.variance * spread.freedom for spread in lenders) / sum(spread.freedom for spread in lenders)
    freedom = seen.freedom + COUNTS_AS
    variance = (seen.variance * seen.freedom + pooled * COUNTS_AS) / freedom
    return _with_interval(speedup, _Spread(variance, freedom), borrowed_from=len(lenders))


class _Spread(NamedTuple):
    """A variance of logarithms between the units of a figure, and its degrees of freedom."""

    variance: float
    freedom: int

    @classmethod
    def of(cls, figure: Figure) -> Self:
        """Return the spread of a figure. One unit has none, and no degree of freedom."""
        logarithms = np.log(units_of(figure.blocks))
        return cls(float(logarithms.var(ddof=1)), len(logarithms) - 1) if len(logarithms) > 1 else cls(math.nan, 0)


def _with_interval(figure: Figure, spread: _Spread, borrowed_from: int) -> Figure:
    """Return a figure of two units with Student's 95 % interval of logarithms of this spread."""
    reach = math.sqrt(spread.variance / 2) * students_factor(spread.freedom)
    return replace(
        figure,
        low=figure.value * exponential(-reach),
        high=figure.value * exponential(reach),
        kind="one machine" if figure.is_one_machine else "interval",
        borrowed_from=borrowed_from,
    )


def less(figure: Figure, subtracted: Figure) -> Figure:
    """Return `figure` minus `subtracted`, of which it is independent, from the intervals alone (Zou and Donner 2008).

    Each side's distance from figure to limit stands for its error there, so that intervals need not be symmetric.
    Without both intervals there is none, and over the runs of one machine it is where either is.
    """
    value = figure.value - subtracted.value
    if not (figure.has_interval and subtracted.has_interval):
        return Figure(value)
    down = np.hypot(figure.value - figure.low, subtracted.high - subtracted.value)
    up = np.hypot(figure.high - figure.value, subtracted.value - subtracted.low)
    kind: Kind = "one machine" if figure.is_one_machine or subtracted.is_one_machine else "interval"
    return Figure(value, float(value - down), float(value + up), kind)


def ratio(figure: Figure, divisor: Figure) -> Figure:
    """Return `figure` over `divisor`: the difference of their logarithms. NaN where a figure or limit is not above
    zero."""
    return less(figure.map(_logarithm), divisor.map(_logarithm)).map(exponential)


def _logarithm(value: float) -> float:
    return float(np.log(value)) if value > 0 else math.nan


def exponential(exponent: float) -> float:
    """Return e to a power; infinite where that is too large for a number, as the end of an interval of runs that differ
    vastly."""
    with np.errstate(over="ignore"):
        return float(np.exp(exponent))


def multiplied(figure: Figure, factor: float) -> Figure:
    """Return a figure times `factor`, which is above zero."""
    return figure.map(lambda value: value * factor)


def share_of(cost: Figure, total: Figure) -> Figure:
    """Return the share that a cost has of a total, both independent. A cost that may be nothing has no logarithm: the
    total then counts as exact."""
    if cost.value <= 0 or cost.low <= 0:
        return multiplied(cost, 1 / total.value)
    return ratio(cost, total)

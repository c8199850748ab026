"""Figures over blocks with their 95 % intervals, figures derived from them, and what a single process repeats.

A block is what shares processes, GPUs and minutes: a run, or a run and its baseline. Blocks on one server share its
effect, so servers are the unit of every interval (docs/method/statistics.md).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import scipy  # its parts load when they are first used: an audit needs none of them

from dpscale.formulas.figure import INTERVAL, Figure, Floats, Kind
from dpscale.formulas.on_server import OnServer

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


def estimate_of_blocks(values_by_block: Mapping[OnServer, float], scale: Scale = "log") -> Figure:
    """The mean over servers with Student's 95 % interval over them; of logarithms where the scale is `log`.

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
    reach = error * float(scipy.special.stdtrit(len(units) - 1, INTERVAL[1]))
    kind = "one machine" if is_one_server else "interval"
    with np.errstate(over="ignore"):
        return Figure(float(back(mean)), float(back(mean - reach)), float(back(mean + reach)), kind, blocks)


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
    reach = math.sqrt(spread.variance / 2) * float(scipy.special.stdtrit(spread.freedom, INTERVAL[1]))
    return replace(
        figure,
        low=figure.value * _exp(-reach),
        high=figure.value * _exp(reach),
        kind="one machine" if figure.is_one_machine else "interval",
        borrowed_from=borrowed_from,
    )


def best_of(chosen: Figure, candidates: int, units: int | None = None) -> Figure:
    """Return a ratio that was chosen as the best of so many `candidates`: with the interval that holds for all of them
    at once, so for whichever is chosen.

    Student's t of so many independent figures stay within c together with 95 % where each of them does with the root of
    95 %. Figures that depend on each other stay there more often (Sidak 1967): the interval is not too narrow for them.
    `units` are those of its interval, where it does not know its blocks; a figure of which they are not known has none.
    """
    free = (len(units_of(chosen.blocks)) if units is None else units) - 1
    if not chosen.has_interval or free < 1:
        return Figure(chosen.value)
    share = INTERVAL[1] - INTERVAL[0]
    wider = scipy.special.stdtrit(free, (1 + share ** (1 / candidates)) / 2) / scipy.special.stdtrit(free, INTERVAL[1])
    low, high = (float(chosen.value * (end / chosen.value) ** wider) for end in chosen.interval)
    return replace(chosen, low=low, high=high)


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


def repeatability(runs: Sequence[Sequence[float]]) -> float:
    """How much timings of one process differ: the standard deviation within runs, over their mean (ISO 5725-1).

    It says nothing of another process, and is no interval. NaN where no run has two timings.
    """
    free = sum(len(run) - 1 for run in runs)
    if not free:
        return math.nan
    within = sum(float(np.sum(np.square(np.asarray(run) / np.mean(run) - 1))) for run in runs)
    return math.sqrt(within / free)


def mean_with_t_interval(values: Sequence[float]) -> Figure:
    """The mean and its 95 % interval by Student's t, for values drawn independently from a normal distribution: each is
    a block."""
    mean = _small_sample(float(np.mean(values)), values)
    return replace(mean, blocks={OnServer(str(number), number): value for number, value in enumerate(values, 1)})


def welch_difference(values: Sequence[float], subtracted: Sequence[float]) -> Figure:
    """Return the mean of `values` minus that of `subtracted`, with Welch's 95 % interval (Welch 1947): the spreads may
    differ."""
    return _small_sample(float(np.mean(values) - np.mean(subtracted)), values, subtracted)


def paired_difference(values: Sequence[float], subtracted: Sequence[float]) -> Figure:
    """Return the mean of `values` minus that of `subtracted`, which belong together one by one, with Student's 95 %
    interval.

    What both of a pair have in common, such as a seed, is then no part of the spread (Student 1908).
    """
    differences = np.subtract(values, subtracted)
    return _small_sample(float(np.mean(differences)), differences)


def ratio_of_blocks(values: Sequence[float], divisors: Sequence[float]) -> Figure:
    """Return the geometric mean of `values` over that of `divisors`, with Welch's 95 % interval of the logarithms
    (Welch 1947).

    Units are servers, or the runs of one. The two sets are independent, and may differ in number and spread. One unit
    alone has no interval. All values are above zero.
    """
    logarithms = welch_difference(np.log(values).tolist(), np.log(divisors).tolist())
    return Figure.of(math.exp(logarithms.value), _exp(logarithms.low), _exp(logarithms.high))


def _exp(exponent: float) -> float:
    """Return e to a power: infinite where that is larger than a number can be, as the end of an interval of runs that
    differ vastly."""
    with np.errstate(over="ignore"):
        return float(np.exp(exponent))


def median_of_blocks(values: Sequence[float]) -> Figure:
    """The median with the interval of order statistics that holds the true one in at least 95 % of samples, whatever
    the distribution (Conover 1999, "Practical Nonparametric Statistics", 3.2). Fewer than six values have none."""
    ordered = sorted(values)
    n, rank = len(ordered), 0  # so many values lie below the interval or at its end, and as many above
    below = 0.5**n
    while below < INTERVAL[0]:
        rank += 1
        below += math.comb(n, rank) * 0.5**n
    ends = (ordered[rank - 1], ordered[-rank]) if rank else (math.nan, math.nan)
    return Figure.of(float(np.median(ordered)), *ends)


def _small_sample(value: float, *groups: Sequence[float] | Floats) -> Figure:
    reach = reach_of_means([np.asarray(group, dtype=float) for group in groups])
    return Figure.of(value, value - reach, value + reach)


def reach_of_means(groups: Sequence[Floats]) -> float:
    """Half the 95 % interval of a sum or difference of means of independent groups; NaN where one is a single value.

    The degrees of freedom are Welch's (1947), and of one group Student's. SciPy's tests give the same, but to load them
    takes longer than most tables.
    """
    if any(len(group) < 2 for group in groups):
        return math.nan
    variances = np.array([group.var(ddof=1) / len(group) for group in groups])
    total = variances.sum()
    if total == 0:
        return 0.0
    freedom = total**2 / (variances**2 / np.array([len(group) - 1 for group in groups])).sum()
    return float(scipy.special.stdtrit(freedom, INTERVAL[1]) * math.sqrt(total))

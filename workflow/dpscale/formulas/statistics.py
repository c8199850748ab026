"""Intervals of independent values, of the best of several, and how many units would decide."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import scipy  # its parts load when they are first used: an audit needs none of them

from dpscale.formulas import OnServer
from dpscale.formulas.figure import INTERVAL, Figure, Floats, exponential, units_of

# Fewer have no interval.
FEWEST_UNITS = 3
# More than so many are no advice.
MOST_UNITS = 20


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
    return Figure.of(math.exp(logarithms.value), exponential(logarithms.low), exponential(logarithms.high))


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


def units_to_decide(value: float, limit: float, spread: float, units: int) -> int | None:
    """How many units in all have a 95 % interval on one side of the limit; None where even `MOST_UNITS` have not.

    Student's interval of n units reaches t(n - 1) * spread / sqrt(n) to either side (Student 1908). `value`, `limit`
    and `spread`, the standard deviation of one unit, are on one scale: that of logarithms for a ratio. The number is
    above that of the `units` that there are.

    It assumes that value and spread stay as they were seen. Both were seen in few units, so this many decide in about
    half of the cases.
    """
    enough = range(max(FEWEST_UNITS, units + 1), MOST_UNITS + 1)
    return next((number for number in enough if _reach(number, spread) < abs(value - limit)), None)


def _reach(units: int, spread: float) -> float:
    return float(scipy.special.stdtrit(units - 1, INTERVAL[1])) * spread / math.sqrt(units)

"""Intervals of independent values, of the best of several, and how many units would decide."""

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import scipy  # its parts load when they are first used: an audit needs none of them

from dpscale.formulas import OnServer
from dpscale.formulas.figure import INTERVAL, Figure, exponential, students_factor, units_of

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
    wider = scipy.special.stdtrit(free, (1 + share ** (1 / candidates)) / 2) / students_factor(free)
    low, high = (float(chosen.value * (end / chosen.value) ** wider) for end in chosen.interval)
    return replace(chosen, low=low, high=high)


def mean_with_t_interval(values: Sequence[float]) -> Figure:
    """The mean and its 95 % interval by Student's t, for values drawn independently from a normal distribution: each is
    a block."""
    mean = _with_interval(float(np.mean(values)), scipy.stats.ttest_1samp, values, 0)
    return replace(mean, blocks={OnServer(str(number), number): value for number, value in enumerate(values, 1)})


def welch_difference(values: Sequence[float], subtracted: Sequence[float]) -> Figure:
    """Return the mean of `values` minus that of `subtracted`, with Welch's 95 % interval (Welch 1947): the spreads may
    differ."""
    welch_test = partial(scipy.stats.ttest_ind, equal_var=False)
    return _with_interval(float(np.mean(values) - np.mean(subtracted)), welch_test, values, subtracted)


def paired_difference(values: Sequence[float], subtracted: Sequence[float]) -> Figure:
    """Return the mean of `values` minus that of `subtracted`, which belong together one by one, with Student's 95 %
    interval.

    What both of a pair have in common, such as a seed, is then no part of the spread (Student 1908).
    """
    return _with_interval(float(np.mean(np.subtract(values, subtracted))), scipy.stats.ttest_rel, values, subtracted)


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
    return _with_interval(float(np.median(values)), scipy.stats.quantile_test, values)


def _with_interval(value: float, test: Callable[..., Any], *groups: Any) -> Figure:
    """Return a value with the 95 % interval of a test of SciPy. Without enough values it has none."""
    with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
        low, high = test(*groups).confidence_interval(0.95)
    return Figure.of(value, float(low), float(high))


def units_to_decide(value: float, limit: float, spread: float, units: int) -> int | None:
    """How many units in all have a 95 % interval on one side of the limit; None where even `MOST_UNITS` have not.

    Student's interval of n units reaches t(n - 1) * spread / sqrt(n) to either side (Student 1908). `value`, `limit`
    and `spread`, the standard deviation of one unit, are on one scale: that of logarithms for a ratio. The number is
    above that of the `units` that there are.

    It assumes that value and spread stay as they were seen. Both were seen in few units, so this many decide in about
    half of the cases.
    """
    enough = range(max(FEWEST_UNITS, units + 1), MOST_UNITS + 1)
    reach = {number: students_factor(number - 1) * spread / math.sqrt(number) for number in enough}
    return next((number for number in enough if reach[number] < abs(value - limit)), None)

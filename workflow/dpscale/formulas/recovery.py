"""The share of a loss that something gives back: a ratio of differences of means, with its interval."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import scipy

from dpscale.formulas.figure import Figure, Floats
from dpscale.formulas.statistics import reach_of_means

NOT_RESOLVABLE = Figure(math.nan, math.nan, math.nan)
# How often the search for a limit doubles its distance from the value. Then it is as good as infinite.
DOUBLINGS = 60


def recovered_share(
    remedied: Sequence[float], plain: Sequence[float], baseline: Sequence[float], *, paired: bool
) -> Figure:
    """(mean(remedied) - mean(plain)) / (mean(baseline) - mean(plain)), with Fieller's 95 % interval (Fieller 1954).

    It holds every share r at which mean(remedied) - (1 - r) mean(plain) - r mean(baseline) is not told from zero.
    Spreads may differ: degrees of freedom are Welch's (1947). With `paired`, the values of `remedied` and `plain`
    belong together one by one; otherwise all three are independent. `plain` is in both differences, and that counts.

    All NaN where the share is not resolvable: the interval of the loss, mean(baseline) - mean(plain), is not wholly
    above zero.
    """
    with_remedy, without, reference = (np.asarray(values, dtype=float) for values in (remedied, plain, baseline))

    def distance(share: float) -> float:
        """How far the sum of means at a share lies outside its interval around zero; negative inside."""
        kept = (1 - share) * without
        groups = [with_remedy - kept] if paired else [with_remedy, -kept]
        mean, half_width = _sum_of_means([*groups, -share * reference])
        return abs(mean) - half_width

    lost, lost_half_width = _sum_of_means([reference, -without])
    if not lost > lost_half_width:  # also where a single value has no interval
        return NOT_RESOLVABLE
    share = float((with_remedy.mean() - without.mean()) / lost)
    limits = [_limit(distance, share, side) for side in (-1, 1)]
    return Figure.of(share, *limits) if all(map(math.isfinite, limits)) else NOT_RESOLVABLE


def _sum_of_means(groups: Sequence[Floats]) -> tuple[float, float]:
    """The sum of the means of independent groups, and half its 95 % interval; NaN where a group is a single value."""
    return float(sum(group.mean() for group in groups)), reach_of_means(groups)


def _limit(distance: Callable[[float], float], share: float, side: int) -> float:
    """The nearest share on a side at which `distance` becomes zero; infinite where none is."""
    if not distance(share) < 0:  # all values of a group are equal: the share is known exactly
        return share
    inside, step = share, max(abs(share), 1.0) / 64
    for _ in range(DOUBLINGS):
        outside = inside + side * step
        if distance(outside) > 0:
            return float(scipy.optimize.brentq(distance, *sorted((inside, outside))))
        inside, step = outside, 2 * step
    return side * math.inf

"""How many machines or runs would decide on which side of a limit a figure lies."""

import math

import scipy

from dpscale.formulas.figure import INTERVAL

# Fewer have no interval.
FEWEST_UNITS = 3
# More than so many are no advice.
MOST_UNITS = 20


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

"""How many machines or runs would decide."""

import math

import scipy  # its distributions load when they are first used
from hypothesis import given
from hypothesis import strategies as st

from dpscale.formulas.statistics import FEWEST_UNITS, MOST_UNITS, units_to_decide

NUMBERS = st.floats(-3, 3)
SPREADS = st.floats(0.001, 2)
UNITS = st.integers(1, 30)


def reach(units: int, spread: float) -> float:
    return float(scipy.stats.t.ppf(0.975, units - 1)) * spread / math.sqrt(units)


@given(NUMBERS, NUMBERS, SPREADS, UNITS)
def test_it_is_the_smallest_number_whose_interval_is_on_one_side(
    value: float, limit: float, spread: float, units: int
) -> None:
    deciding, distance = units_to_decide(value, limit, spread, units), abs(value - limit)
    smaller = range(max(FEWEST_UNITS, units + 1), deciding or MOST_UNITS + 1)
    assert not any(reach(number, spread) < distance * (1 - 1e-9) for number in smaller)
    if deciding is not None:
        assert max(units, FEWEST_UNITS - 1) < deciding <= MOST_UNITS
        assert reach(deciding, spread) < distance * (1 + 1e-9)

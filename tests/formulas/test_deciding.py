"""How many machines or runs would decide."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dpscale.formulas.figure import estimate_of_blocks
from dpscale.formulas.statistics import FEWEST_UNITS, MOST_UNITS, units_to_decide
from rows import apart

NUMBERS = st.floats(-3, 3)
SPREADS = st.floats(0.001, 2)
UNITS = st.integers(1, 30)


def reach(units: int, spread: float) -> float:
    return float(stats.t.ppf(0.975, units - 1)) * spread / math.sqrt(units)


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


@pytest.mark.parametrize("limit", [1.6, 1.65, 1.72])
def test_so_many_units_with_this_value_and_spread_decide_and_one_less_does_not(limit: float) -> None:
    spread = 0.08
    units = units_to_decide(math.log(1.8), math.log(limit), spread, 2)
    assert units is not None and units > FEWEST_UNITS
    for number, is_decided in ((units, True), (units - 1, False)):
        drawn = np.linspace(-1, 1, number)
        logarithms = math.log(1.8) + spread * drawn / drawn.std(ddof=1)
        figure = estimate_of_blocks(apart(dict(enumerate(np.exp(logarithms).tolist()))))
        assert figure.is_above(limit) == is_decided

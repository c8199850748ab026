"""A ratio of two independent sets of blocks: by hand, turned around, and as sure as it says."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpscale.formulas.statistics import ratio_of_blocks

values = st.lists(st.floats(0.5, 2), min_size=3, max_size=6)


def test_by_hand() -> None:
    """Logarithms -1, 0, 1 and 2, 3, 4: both variances are 1, so Welch's degrees of freedom are 4."""
    found = ratio_of_blocks(np.exp([-1.0, 0.0, 1.0]).tolist(), np.exp([2.0, 3.0, 4.0]).tolist())
    # Tables of Student's t have 2.776 for them.
    reach = 2.776 * math.sqrt(1 / 3 + 1 / 3)
    assert found.value == pytest.approx(math.exp(-3))
    assert [math.log(found.low), math.log(found.high)] == pytest.approx([-3 - reach, -3 + reach], abs=1e-3)


@given(values, values)
def test_it_turns_around_with_its_sides(first: list[float], second: list[float]) -> None:
    there, back = ratio_of_blocks(first, second), ratio_of_blocks(second, first)
    assert [back.value, back.low, back.high] == pytest.approx([1 / there.value, 1 / there.high, 1 / there.low])
    assert there.low <= there.value * (1 + 1e-12)
    assert there.value <= there.high * (1 + 1e-12)


@pytest.mark.parametrize(("first", "second"), [(1, 3), (3, 1), (1, 1)])
def test_one_unit_has_a_ratio_and_no_interval(first: int, second: int) -> None:
    found = ratio_of_blocks([1.0, 1.1, 0.9][:first], [2.0, 2.1, 1.9][:second])
    assert found.value == pytest.approx(0.5, rel=0.1)
    assert math.isnan(found.low)
    assert math.isnan(found.high)

"""Ratios and differences of independent figures, from their intervals alone."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpscale.formulas.figure import Figure, less, multiplied, ratio

parts = st.floats(0, 0.9)
figures = st.builds(
    lambda value, below, above: Figure.of(value, value * (1 - below), value * (1 + above)),
    st.floats(0.01, 100), parts, parts,
)  # fmt: skip


def ends(figure: Figure) -> list[float]:
    return [figure.value, *figure.interval]


@given(figures, figures, st.floats(0.01, 100))
def test_they_turn_around_with_their_sides_and_a_ratio_has_no_unit(first: Figure, second: Figure, unit: float) -> None:
    value, low, high = ends(ratio(first, second))
    assert low <= value <= high
    assert ends(ratio(second, first)) == pytest.approx([1 / value, 1 / high, 1 / low])
    assert ends(ratio(multiplied(first, unit), multiplied(second, unit))) == pytest.approx([value, low, high])
    value, low, high = ends(less(first, second))
    assert low <= value <= high
    assert ends(less(second, first)) == pytest.approx([-value, -high, -low])


def test_of_symmetric_intervals_squares_add_up() -> None:
    """1.96 standard deviations to either side of normal variables, whose variances add."""
    assert ends(less(Figure.of(7, 4, 10), Figure.of(5, 1, 9))) == [2, -3, 7]


def test_without_a_limit_above_zero_a_ratio_has_no_interval() -> None:
    quotient = ratio(Figure.of(1, 0.5, 2), Figure.of(1, -0.1, 2))
    assert (quotient.value, quotient.has_interval) == (1, False)
    assert math.isnan(quotient.high)

"""Ratios and differences of independent figures, from their intervals alone."""

import math

import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st

from blocks import apart
from dpscale.formulas.figure import Figure, less, multiplied, ratio
from dpscale.formulas.statistics import estimate_of_blocks

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
    found = ratio(Figure.of(1, 0.5, 2), Figure.of(1, -0.1, 2))
    assert (found.value, found.has_interval) == (1, False)
    assert math.isnan(found.high)


@pytest.mark.parametrize("seed", range(2))
def test_the_interval_of_a_ratio_is_that_of_independent_draws(seed: int) -> None:
    """A second way to the same interval: draws from both distributions, divided, where files hold limits alone."""
    generator = np.random.default_rng(seed)
    first, second = (
        estimate_of_blocks(apart(dict(zip("abcdefgh", drawn, strict=True))))
        for mean in (2.0, 3.0)
        for drawn in (mean * generator.lognormal(0, 0.05, 8),)
    )
    drawn = [
        np.log(of.value)
        + math.log(of.high / of.value) / scipy.special.stdtrit(7, 0.975) * generator.standard_t(7, 20_000)
        for of in (first, second)
    ]
    low, high = np.exp(np.quantile(drawn[0] - drawn[1], (0.025, 0.975)))
    assert ratio(first, second).interval == pytest.approx((low, high), abs=0.15 * (high - low))

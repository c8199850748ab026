"""The formulas of docs/method.md: their properties, and those of figures and of rounded numbers.

tests/audit has what they give of the published studies.
"""

import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpscale.formulas import scaling
from dpscale.formulas.figure import Figure, less, multiplied, ratio
from dpscale.formulas.rounded import Rounded


@given(st.floats(1e-4, 10), st.floats(1e-4, 10), st.integers(2, 16), st.integers(1, 512), st.integers(1, 40))
def test_both_ways_to_weak_speedup_agree_where_all_steps_are_full(
    step_1: float, step_n: float, n: int, batch: int, steps_n: int
) -> None:
    """Epochs of full steps: T = steps * t, and N GPUs take N times fewer steps. N is not counted twice."""
    images = n * batch * steps_n
    epoch_1 = scaling.steps_per_epoch(images, 1, batch) * step_1
    epoch_n = scaling.steps_per_epoch(images, n, batch) * step_n
    assert scaling.speedup(epoch_1, epoch_n) == pytest.approx(scaling.speedup_from_steps(n, step_1, step_n))


@pytest.mark.parametrize(
    ("operation", "factor"), [("allreduce", 1.5), ("all_gather", 0.75), ("reduce_scatter", 0.75), ("broadcast", 1)]
)
def test_bus_bandwidth_has_nccl_tests_factors(operation: str, factor: float) -> None:
    assert scaling.bus_bandwidth_gb_s(operation, 4, 2_000_000_000, 1.0) == 2 * factor


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


values = st.floats(0.5, 1e4)
decimals = st.integers(0, 6)


def printed(value: float, places: int) -> Rounded:
    return Rounded.of(Decimal(f"{value:.{places}f}"))


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [("1.40", 1.395, 1.405), ("1.2E+2", 115, 125), ("-0.5", -0.55, -0.45)],
)
def test_a_printed_number_is_known_to_half_a_unit_of_its_last_digit(text: str, low: float, high: float) -> None:
    interval = Rounded.of(Decimal(text))
    assert (interval.low, interval.high) == pytest.approx((low, high))


@given(values, values, decimals, decimals)
def test_results_of_the_true_numbers_lie_in_the_results_of_the_rounded_ones(
    first: float, second: float, digits: int, more: int
) -> None:
    a, b = printed(first, digits), printed(second, more)
    assert (a + b).contains(first + second)
    assert (a - b).meets(Rounded(first - second, first - second - 1e-9, first - second + 1e-9))
    assert (a * -3.0).contains(first * -3.0)
    assert (a / 4).contains(first / 4)
    if b.low > 0:
        assert (a / b).contains(first / second)
        assert (7.0 / b).contains(7.0 / second)


def test_what_may_be_zero_does_not_divide() -> None:
    with pytest.raises(ZeroDivisionError):
        1.0 / (Rounded.of(Decimal("1.0")) - Rounded.of(Decimal("1.0")))

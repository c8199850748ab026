"""Intervals of rounded numbers: they hold what they must, whatever the numbers were before rounding."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpscale.formulas.rounded import Rounded

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

"""One way to write each number and each word."""

from dataclasses import replace
from math import nan

import pytest

from cases import cases
from dpscale.formulas.figure import Figure, Kind
from dpscale.present.text.numbers import at_least, ends_of, estimate, measured, plain, value_of
from dpscale.tables.column import MILLISECONDS, MULTIPLES, SECONDS


@pytest.mark.parametrize(("value", "shown"), cases(__file__, "plain"))
def test_a_number_has_four_digits(value: float | None, shown: str) -> None:
    assert plain(value) == shown


@pytest.mark.parametrize(("value", "low", "high", "shown"), cases(__file__, "estimates"))
def test_estimate_has_the_decimals_that_its_interval_allows(value: float, low: float, high: float, shown: str) -> None:
    assert estimate(Figure.of(value, low, high)) == shown


@pytest.mark.parametrize(("value", "low", "high", "shown"), cases(__file__, "multiples"))
def test_multiples(value: float, low: float, high: float, shown: str) -> None:
    assert estimate(Figure.of(value, low, high), MULTIPLES) == shown


def test_a_lower_bound_is_rounded_down() -> None:
    bounds = [9.745189664, 0.0239664, 45.736, 12_345.6, 9.75, nan]
    assert [at_least(bound) for bound in bounds] == ["9.74", "0.0239", "45.7", "12,345", "9.75", "–"]


@pytest.mark.parametrize(("kind", "named"), [("two runs", "2 runs"), ("two machines", "2 machines")])
def test_values_of_two_are_not_written_as_an_interval(kind: Kind, named: str) -> None:
    two = Figure(1.4478, 1.31, 1.6, kind)
    assert estimate(two, MULTIPLES, with_unit=True) == f"1.45× (1.31 to 1.60, {named})"
    assert estimate(two, SECONDS) == f"1.45 (1.31 to 1.60, {named})"
    assert (value_of(two, MULTIPLES), ends_of(two, MULTIPLES)) == ("1.45", "")
    assert ends_of(replace(two, kind="interval"), MULTIPLES) == "1.31, 1.60"


def test_numbers_with_their_units() -> None:
    assert estimate(Figure.of(0.0015, 0.0014, 0.0016), MILLISECONDS, with_unit=True) == "1.50 ms [1.40, 1.60]"
    assert estimate(Figure(3.92395, kind="one run"), MULTIPLES) == "3.92"
    assert (measured(0.3949, MULTIPLES), measured(None, MULTIPLES)) == ("0.39×", "–")

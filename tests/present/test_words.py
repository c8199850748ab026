"""One way to write each number and each word."""

from dataclasses import replace
from math import inf, nan

import pytest
from page_tables import GPU

from dpscale.formulas.figure import Figure, Kind
from dpscale.present.text.numbers import at_least, ends_of, estimate, measured, plain, value_of
from dpscale.tables.column import MFU, MILLISECONDS, MULTIPLES, SECONDS, THROUGHPUT


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (20.9, "20.90"), (91743.1, "91,743"), (0, "0"), (-0.015, "−0.01500"), (1.5e-9, "1.500e−09"), (inf, "–"),
        (None, "–"), (9.9996, "10.000"),
    ],
)  # fmt: skip
def test_a_number_has_four_digits(value: float | None, shown: str) -> None:
    assert plain(value) == shown


@pytest.mark.parametrize(
    ("value", "low", "high", "shown"),
    [
        (17.03, 16.18, 17.88, "17.0 [16.2, 17.9]"),
        (0.0045, -0.45, 0.45, "0.004 [−0.450, 0.450]"),
        (2.13, nan, nan, "2.130"),
        (2.13, 2.13, 2.13, "2.130 [2.130, 2.130]"),
        (nan, nan, nan, "–"),
        # A difference of nothing has the decimals of its interval; what is above zero is not shown as zero.
        (0.0, -0.012, 0.012, "0.000 [−0.012, 0.012]"),
        (3.1, 0.42, 11.0, "3.1 [0.4, 11.0]"),
        (3.1, -0.42, 11.0, "3 [0, 11]"),
    ],
)
def test_estimate_has_the_decimals_that_its_interval_allows(value: float, low: float, high: float, shown: str) -> None:
    assert estimate(Figure.of(value, low, high)) == shown


@pytest.mark.parametrize(
    ("figure", "shown"),
    [
        (Figure.of(3.92395, 3.92380, 3.92410), "3.92 [3.92, 3.92]"),
        (Figure(3.92395, kind="one run"), "3.92"),
        # What is not one is not shown as one.
        (Figure.of(1.16, 1.002, 1.35), "1.160 [1.002, 1.350]"),
        (Figure.of(1.16, 0.71, 0.9996), "1.1600 [0.7100, 0.9996]"),
        (Figure.of(1.16, 0.998, 1.35), "1.16 [1.00, 1.35]"),
    ],
)
def test_multiples(figure: Figure, shown: str) -> None:
    assert estimate(figure, MULTIPLES) == shown


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
    assert (measured(0.3949, MULTIPLES), measured(None, MULTIPLES)) == ("0.39×", "–")


def test_a_study_of_a_file_has_samples() -> None:
    of_file = replace(GPU, own_workload=True)
    headings = [terms.heading_of(THROUGHPUT) for terms in (GPU, of_file)]
    assert headings == ["Throughput, images/s", "Throughput, samples/s"]
    assert of_file.worded(MFU.definition).startswith("FLOP of a sample times samples/s")
    assert of_file.worded("Images") == "Samples"

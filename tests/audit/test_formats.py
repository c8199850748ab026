"""Numbers as people write them."""

from decimal import Decimal

import pytest

from dpscale.audit.formats import Style, is_missing, style_of

NEITHER, COMMA, POINT = Style(None), Style(decimal_comma=True), Style(decimal_comma=False)


@pytest.mark.parametrize(
    ("style", "cell", "number"),
    [
        (NEITHER, "1.40", "1.40"),
        (NEITHER, "1,234.5", "1234.5"),
        (NEITHER, "1\u202f234,5", "1234.5"),
        (NEITHER, "1'234'567", "1234567"),
        (NEITHER, "1,234,567", "1234567"),
        (COMMA, "1,234", "1.234"),
        (POINT, "1,234", "1234"),
        (NEITHER, "−0.5", "-0.5"),
        (NEITHER, "1.87x", "1.87"),
        (NEITHER, "87 %", "87"),
        (NEITHER, "4.3 GiB/s", "4.3"),
        (NEITHER, "1.8e-3", "0.0018"),
        (NEITHER, ".5", "0.5"),
        # With an interval, a deviation, or a footnote behind.
        (NEITHER, "1.38× [1.31, 1.45]", "1.38"),
        (NEITHER, "1.20 ± 0.10", "1.20"),
        (NEITHER, "3.87 (one run)", "3.87"),
    ],
)
def test_a_number_keeps_its_digits(style: Style, cell: str, number: str) -> None:
    assert style.number(cell).as_tuple() == Decimal(number).as_tuple()


@pytest.mark.parametrize("cell", ["1,234", "1.2.3", "12 5", "fast", "1/2", "±1", "0x10", "5 parsec"])
def test_what_is_no_number_or_may_be_two(cell: str) -> None:
    with pytest.raises(ValueError, match=r"not a number|may be"):
        NEITHER.number(cell)


@pytest.mark.parametrize(
    ("cells", "style"),
    [
        (["1,5", "2,25"], COMMA),
        (["1.5", "1,234"], POINT),
        (["1,234", "2,345"], NEITHER),
        (["12", "-"], NEITHER),
        (["1,5", "2.5"], NEITHER),
    ],
)
def test_how_a_table_writes_numbers(cells: list[str], style: Style) -> None:
    assert style_of(cells) == style


@pytest.mark.parametrize(
    "cell", ["", "-", "–", "n/a", " NaN ", "…", "≥ 13.2", ">= 13.2", "at least 4", "not resolvable", "one run"]
)
def test_missing(cell: str) -> None:
    assert is_missing(cell)

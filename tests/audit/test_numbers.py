"""Numbers as people write them."""

import pytest

from dpscale.audit.layouts import cells, is_missing


@pytest.mark.parametrize(
    ("texts", "read"),
    [
        ("1.40", "1.40"),
        ("1,234.5 | 1\u202f234,5 | 1'234'567 | 1,234,567", "1234.5 | 1234.5 | 1234567 | 1234567"),
        # Where another number of the column shows what a comma is.
        ("1,234 | 2,5", "1.234 | 2.5"),
        ("1,234 | 2.5", "1234 | 2.5"),
        ("−0.5 | .5 | 1.8e-3", "-0.5 | 0.5 | 0.0018"),
        ("1.87x | x1.82 | 87 % | 4.3 GiB/s | ~28k | 20.0 s.", "1.87 x | 1.82 | 87 % | 4.3 gib/s | 2.8E+4 | 20.0 s"),
        ("2:22:01 | 1:12 | 2m 10s | 1 h 2 min", "8521 s | 72 s | 130 s | 3720 s"),
        # With an interval, a deviation, or a footnote behind.
        ("1.38× [1.31, 1.45] | 1.20 ± 0.10 | 3.87 (one run) | 2.5†", "1.38 x | 1.20 | 3.87 | 2.5"),
        ("fast | 1/2 | ±1 | 0x10 | 2 GPUs | 2xA100 | 1.2-1.4 | inf", " | ".join(["none"] * 8)),
    ],
)
def test_a_number_keeps_its_digits_and_its_unit(texts: str, read: str) -> None:
    found = cells(texts.split(" | "))
    assert " | ".join(f"{cell.digits} {cell.unit}".strip() if cell else "none" for cell in found) == read


@pytest.mark.parametrize(
    "cell", ["", "-", "–", "n/a", " NaN ", "…", "≥ 13.2", ">= 13.2", "at least 4", "not resolvable", "one run", "OOM"]
)
def test_missing(cell: str) -> None:
    assert is_missing(cell)

"""Numbers of recorded studies in documents are made of the records, and made anew they are the same."""

import re
from pathlib import Path

import pytest

import made
import recorded_numbers


@pytest.mark.parametrize("name", recorded_numbers.DOCUMENTS)
def test_made_anew_a_document_is_the_same(root: Path, name: str) -> None:
    """Made anew by `make format`."""
    text = (root / name).read_text()
    assert "<!-- made: " in text
    assert recorded_numbers.with_made(text) == text


@pytest.mark.parametrize(
    ("name", "number"), [("README.md", r"(?<=\| 512 \| )\d\.\d\d"), ("docs/results.md", r"(?<= -->)86\.8")]
)
def test_a_number_that_was_changed_by_hand_is_put_right(root: Path, name: str, number: str) -> None:
    text = (root / name).read_text()
    changed = re.sub(number, "9.99", text, count=1)
    assert changed != text
    assert recorded_numbers.with_made(changed) == text


@pytest.mark.slow
def test_the_picture_of_readme_says_what_the_records_do(root: Path, tmp_path: Path) -> None:
    """Made anew by `make format`."""
    words = re.compile(r"<text.*?</text>", re.DOTALL)
    drawn = (root / "docs/efficiency.svg").read_text()
    assert words.findall(drawn) == words.findall(made.readme_chart(tmp_path)) != []

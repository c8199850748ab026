"""Numbers of recorded studies in documents are made of the records, and made anew they are the same."""

import re
from pathlib import Path

import pytest

import costs
import made
import recorded_numbers


@pytest.mark.parametrize("name", recorded_numbers.DOCUMENTS)
def test_made_anew_a_document_is_the_same(root: Path, name: str) -> None:
    """Made anew by `make format`."""
    text = (root / name).read_text()
    assert "<!-- made: " in text
    assert recorded_numbers.with_made(text) == text


def test_made_anew_the_costs_of_jobs_on_record_are_the_same() -> None:
    """Made anew by `make format`."""
    assert costs.costs_file() == costs.COSTS.read_text()


@pytest.mark.slow
def test_the_page_of_readme_and_its_chart_say_what_the_records_do(root: Path, tmp_path: Path) -> None:
    """Made anew by `make format`."""
    words = re.compile(r"<text.*?</text>", re.DOTALL)
    page, chart = made.example_page(tmp_path)
    assert words.findall((root / "docs/efficiency.svg").read_text()) == words.findall(chart) != []
    assert made.words_of(made.PAGE.read_text()) == made.words_of(page)
    assert words.findall(made.PAGE.read_text()) == words.findall(page)
    assert made.PAGE.stat().st_size <= 400_000

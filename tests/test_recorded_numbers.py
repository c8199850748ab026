"""Numbers of recorded studies in documents are made of the records, and made anew they are the same."""

import json
import re
from pathlib import Path

import pytest

import bench_numbers
import costs
import made
import recorded_numbers
from dpscale.tables.tables import Tables
from recorded import RECORDED, recorded_tables


@pytest.fixture(autouse=True)
def _tables_are_built_once(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For all tests that look at recorded studies, whichever process needs them first."""
    others = recorded_numbers.tables_of

    def tables_of(results: str) -> Tables:
        return recorded_tables(root, results) if results in RECORDED else others(results)

    monkeypatch.setattr(recorded_numbers, "tables_of", tables_of)


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


def test_steps_with_a_search_and_without_stand_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From what docs/upstream/cudnn_search_per_thread.py prints; a sentence where nothing was recorded."""
    monkeypatch.setattr(bench_numbers, "ROOT", tmp_path)
    assert "|" not in bench_numbers.search_per_thread()
    cases = [
        {"gpus": gpus, "batch_per_gpu": 128, "searches": searches, "step_ms": step_ms}
        for gpus, searches, step_ms in ((1, False, 11.4), (1, True, 11.2), (2, False, 53.8), (2, True, 1003.0))
    ]
    file = tmp_path / "results/recorded-search-per-thread/machine-1.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"torch": "2.11", "gpu": "H100", "cases": cases}))
    *_, alone, both = bench_numbers.search_per_thread().splitlines()
    assert alone == "| H100, torch 2.11 | 128 | one GPU | 11.4 | 11.2 |"
    assert both == "| H100, torch 2.11 | 128 | DataParallel on 2 GPUs | 53.8 | 1,003.0 |"


def test_recorded_studies_stay_small(root: Path) -> None:
    """What was made of them is not committed: .gitignore names these folders."""
    made_of_them = {"audit", "charts", "dataset", "logs", "tables"}
    files = [path for path in root.glob("results/recorded*/**/*") if path.is_file()]
    committed = [path for path in files if path.relative_to(root).parts[2] not in made_of_them]
    assert 50 < len(committed) <= 300
    assert sum(path.stat().st_size for path in committed) <= 6_000_000

"""Other people's figures on their page: every sentence, number and warning comes from the tables."""

import re
from pathlib import Path
from typing import Any

import pytest
from page_tables import audited, study, tables

from dpscale.present import page as study_page
from dpscale.present.published import Block, blocks
from dpscale.present.published_page import render
from dpscale.present.view import View

CELL: dict[str, Any] = {"study": "made-up", "batch_per_gpu": 32, "gpus": 2}
FINDING = {
    "study": "made-up", "title": "Made up", "quantity": "speedup", "verdict": "reproduced except",
    "sentence": "The speedup is this.",
}  # fmt: skip


def block(cells: list[dict[str, Any]], warnings: list[dict[str, Any]] | None = None) -> Block:
    (only,) = blocks(tables(audit=cells, audit_findings=[FINDING], audit_warnings=warnings or []))
    return only


def shown(view: View) -> list[dict[str, str]]:
    headings = [column.heading for column in view.columns]
    return [dict(zip(headings, row, strict=True)) for row in view.cells]


def test_published_and_corrected_stand_side_by_side() -> None:
    cell = {
        **CELL, "quantity": "speedup", "published": "1.40", "published_unit": "",
        "corrected": 0.70024, "corrected_low": 0.70001, "corrected_high": 0.70047, "unit": "",
    }  # fmt: skip
    (row,) = shown(block([cell]).view)
    assert row["Speedup, published, ×"] == "1.40"
    assert row["Speedup, ×"] == "0.7002 [0.7000, 0.7005]"


def test_bandwidth_is_headed_by_its_label() -> None:
    cell = {**CELL, "quantity": "bandwidth", "published": "2.577", "published_unit": "MB/s"}
    assert "Bandwidth, published, labelled MB/s" in shown(block([cell]).view)[0]


def test_what_cannot_be_recomputed_is_a_word_with_its_reason() -> None:
    cell = {**CELL, "quantity": "speedup", "published": "0.57", "reason": "T(N,b) was not printed"}
    study_block = block([cell, {**cell, "batch_per_gpu": 128}])
    assert {row["Speedup, ×"] for row in shown(study_block.view)} == {"not recomputable"}
    assert study_block.notes == ["Not recomputable, as T(N,b) was not printed: speedup (2 cells)."]


def test_strong_speedups_are_a_sentence_and_one_gpu_is_no_row() -> None:
    strong = {**CELL, "batch_per_gpu": None, "global_batch": 32, "quantity": "speedup_strong", "corrected": 0.99}
    cells = [
        {**CELL, "gpus": 1, "quantity": "epoch_s", "published": "38.0"},
        {**strong, "corrected_low": 0.98, "corrected_high": 1.0},
        {**CELL, "quantity": "speedup", "published": "1.4"},
    ]
    study_block = block(cells)
    assert [row["Batch per GPU"] for row in shown(study_block.view)] == ["32"]
    assert study_block.notes == ["Strong speedup at global batch 32: 0.990 [0.980, 1.000]× on 2 GPUs."]


def test_a_warning_that_many_cells_share_is_said_once() -> None:
    unit = {**CELL, "check": "unit is wrong", "quantity": "bandwidth", "detail": "is MB/s"}
    reported = {**CELL, "check": "reported as speedup", "quantity": "speedup", "detail": "1.40 is 0.700"}
    strong = {"study": "made-up", "global_batch": 60_000, "gpus": 2, "check": "too large", "detail": "no full step"}
    found = block([], [unit, {**unit, "gpus": 4}, reported, strong]).warnings
    assert [(warning.check, warning.details) for warning in found] == [
        ("Unit is wrong", "is MB/s (2 cells)"),
        ("Reported as speedup", "batch 32 on 2 GPUs: 1.40 is 0.700"),
        ("Too large", "global batch 60,000 on 2 GPUs: no full step"),
    ]


def test_without_published_studies_there_is_no_block() -> None:
    assert blocks(tables()) == []
    page = render(study(), tables(), "h200.html")
    assert "<article" not in page and "No published study was audited." in page


def test_the_page_of_the_study_keeps_a_line_with_the_link(root: Path) -> None:
    data = audited(root, tables())
    with_link, without = (study_page.render(study(), data, name) for name in ("h200-audit.html", ""))
    assert '<a href="h200-audit.html">Other people\'s figures</a>' in with_link
    assert "<article" not in with_link
    assert "Other people's figures" not in without and "No published study was audited." in without


@pytest.fixture(scope="module")
def page(root: Path) -> str:
    return render(study(), audited(root, tables()), "h200.html")


@pytest.mark.slow
def test_every_study_is_a_block_with_its_sentences(page: str) -> None:
    text = " ".join(re.sub(r"<[^>]+>", " ", page).split())
    assert page.count("<article") == 10
    assert "Other people&#39;s figures" in page or "Other people's figures" in page
    assert "Reproduced : The speedup is N * T(1,b) / T(N,b), not as defined here" in text
    assert "Not reproduced : No convention of the 96,800 tried gives the bandwidth." in text
    assert "27.9 against 26.9 s" in text
    assert "1.457 [1.457, 1.458]" in text


@pytest.mark.slow
def test_all_blocks_have_one_csv(page: str) -> None:
    """As a link, or by its place where it is too large for a page."""
    cell = {**CELL, "quantity": "speedup", "published": "1.4"}
    small = render(study(), tables(audit=[cell], audit_findings=[FINDING]), "h200.html")
    assert (small.count('download="audit.csv.zip"'), small.count("All studies are in")) == (1, 0)
    assert (page.count('download="audit.csv.zip"'), page.count("All studies are in")) == (0, 1)


def test_many_cells_of_a_warning_are_cut_with_a_count() -> None:
    warnings = [
        {**CELL, "batch_per_gpu": batch, "check": "is wrong", "quantity": "speedup", "detail": f"{batch} is 1"}
        for batch in range(1, 10)
    ]
    (many,) = block([], warnings).warnings
    assert many.details.endswith("batch 6 on 2 GPUs: 6 is 1; and 3 more cells")
    (few,) = block([], warnings[:6]).warnings
    assert "more cells" not in few.details


def test_the_worst_warning_stands_first_with_what_it_means() -> None:
    at = {**CELL, "quantity": "epoch_s", "detail": "so"}
    severities = ("look", "impossible", "wrong")
    warnings = [{**at, "check": f"check {n}", "severity": severity} for n, severity in enumerate(severities)]
    found = block([], warnings).warnings
    assert [warning.check for warning in found] == ["Impossible: check 1", "Wrong: check 2", "Look: check 0"]


def test_a_caution_names_what_follows_from_a_doubtful_time() -> None:
    known = {"corrected": 0.7, "corrected_low": 0.6, "corrected_high": 0.8}
    cell = {**CELL, "quantity": "speedup", "published": "1.4", **known}
    caution = "follows from T(1,b) of 9.9 s, which other figures contradict"
    assert block([{**cell, "caution": caution}]).notes == [f"Caution: speedup {caution}."]
    assert block([cell]).notes == []


def test_a_large_study_has_no_link_but_a_place_and_an_id_of_its_own() -> None:
    cells = [
        {**CELL, "study": "findings", "quantity": "speedup", "published": "1.4", "batch_per_gpu": n}
        for n in range(1, 600)
    ]
    page = render(study(), tables(audit=cells, audit_findings=[{**FINDING, "study": "findings"}]), "h200.html")
    assert "All studies are in <code>results/h200/tables/audit.csv</code>" in page
    assert 'href="None"' not in page
    assert page.count('id="published-findings"') == 1


@pytest.mark.slow
def test_published_figures_are_not_labelled_as_synthetic(root: Path) -> None:
    page = render(study(dataset={"source": "synthetic"}), audited(root, tables()), "h200.html")
    (shown,) = re.findall(r"<body>.*", page, re.S)
    assert "Synthetic" not in shown and "worker" not in shown


def test_text_from_files_is_escaped() -> None:
    evil = "<script>alert(1)</script>"
    finding = {**FINDING, "title": evil, "sentence": evil}
    warning = {**CELL, "check": evil, "quantity": "speedup", "detail": evil}
    cell = {**CELL, "quantity": "speedup", "published": evil, "reason": evil}
    page = render(study(), tables(audit=[cell], audit_findings=[finding], audit_warnings=[warning]), "h200.html")
    assert "<script" not in page

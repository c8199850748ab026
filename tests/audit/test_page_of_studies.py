"""Other people's figures on their page: every sentence, number and warning comes from the tables."""

import re
from typing import Any

import pytest

from dpscale.audit.page import AuditedStudy, render_studies, studies
from dpscale.audit.tables import rows
from dpscale.plan.study import Study
from dpscale.present.text.view import View
from dpscale.tables.published import AuditFindingsRow, AuditRow, AuditWarningsRow
from dpscale.tables.tables import Tables

CELL: dict[str, Any] = {
    "study": "made-up", "batch_per_gpu": 32, "gpus": 2, "quantity": "speedup", "published": "1.40",
    "corrected": 0.70024, "corrected_low": 0.70001, "corrected_high": 0.70047,
}  # fmt: skip
UNKNOWN = {**CELL, "corrected": None, "corrected_low": None, "corrected_high": None}
FINDING = {
    "study": "made-up", "title": "Made up", "quantity": "speedup", "verdict": "reproduced except",
    "sentence": "The speedup is this.",
}  # fmt: skip
WARNING = {**CELL, "check": "is wrong", "detail": "so"}


def tables(
    cells: list[dict[str, Any]], warnings: list[dict[str, Any]] | None = None, finding: dict[str, Any] = FINDING
) -> Tables:
    return Tables(
        audit=[AuditRow.read(cell) for cell in cells],
        audit_findings=[AuditFindingsRow.read(finding)],
        audit_warnings=[AuditWarningsRow.read(warning) for warning in warnings or []],
    )


def block(cells: list[dict[str, Any]], warnings: list[dict[str, Any]] | None = None) -> AuditedStudy:
    (only,) = studies(tables(cells, warnings))
    return only


def shown(view: View) -> list[dict[str, str]]:
    headings = [column.heading for column in view.columns]
    return [dict(zip(headings, row, strict=True)) for row in view.cells]


def rendered(data: Tables) -> str:
    return render_studies(Study({"study": "h200", "dataset": {"source": "synthetic"}}).values, data, "h200.html")


def test_published_and_corrected_stand_side_by_side() -> None:
    (row,) = shown(block([CELL]).view)
    assert row["Speedup, published, ×"] == "1.40"
    assert row["Speedup, ×"] == "0.7002 [0.7000, 0.7005]"


def test_bandwidth_is_headed_by_its_label() -> None:
    cell = {**UNKNOWN, "quantity": "bandwidth", "published": "2.577", "published_unit": "MB/s"}
    assert "Bandwidth, published, labelled MB/s" in shown(block([cell]).view)[0]


def test_what_cannot_be_recomputed_is_a_word_with_its_reason() -> None:
    cell = {**UNKNOWN, "reason": "T(N,b) was not printed"}
    found = block([cell, {**cell, "batch_per_gpu": 128}])
    assert {row["Speedup, ×"] for row in shown(found.view)} == {"not recomputable"}
    assert found.notes == ["Not recomputable, as T(N,b) was not printed: speedup (2 cells)."]


def test_strong_speedups_are_a_sentence_and_one_gpu_is_no_row() -> None:
    strong = {"batch_per_gpu": None, "global_batch": 32, "quantity": "speedup_strong", "published": ""}
    ends = {"corrected": 0.99, "corrected_low": 0.98, "corrected_high": 1.0}
    one_gpu = {**UNKNOWN, "gpus": 1, "quantity": "epoch_s", "published": "38.0"}
    found = block([one_gpu, {**CELL, **strong, **ends}, UNKNOWN])
    assert [row["Batch per GPU"] for row in shown(found.view)] == ["32"]
    assert found.notes == ["Strong speedup at global batch 32: 0.990 [0.980, 1.000]× on 2 GPUs."]


def test_a_warning_that_many_cells_share_is_said_once() -> None:
    unit = {**WARNING, "check": "unit is wrong", "quantity": "bandwidth", "detail": "is MB/s"}
    strong = {"study": "made-up", "global_batch": 60_000, "gpus": 2, "check": "too large", "detail": "no full step"}
    assert block([], [unit, {**unit, "gpus": 4}, {**WARNING, "detail": "1.40 is 0.700"}, strong]).warnings == [
        "Unit is wrong: is MB/s (2 cells)",
        "Is wrong: batch 32 on 2 GPUs: 1.40 is 0.700",
        "Too large: global batch 60,000 on 2 GPUs: no full step",
    ]


def test_many_cells_of_a_warning_are_cut_with_a_count() -> None:
    warnings = [{**WARNING, "batch_per_gpu": batch, "detail": f"{batch} is 1"} for batch in range(1, 10)]
    (many,) = block([], warnings).warnings
    assert many.endswith("batch 6 on 2 GPUs: 6 is 1; and 3 more cells")
    (few,) = block([], warnings[:6]).warnings
    assert "more cells" not in few


def test_the_worst_warning_stands_first_with_what_it_means() -> None:
    severities = ("look", "impossible", "wrong")
    warnings = [{**WARNING, "check": f"check {n}", "severity": severity} for n, severity in enumerate(severities)]
    found = [warning.partition(": batch")[0] for warning in block([], warnings).warnings]
    assert found == ["Impossible: check 1", "Wrong: check 2", "Look: check 0"]


def test_a_caution_names_what_follows_from_a_doubtful_time() -> None:
    caution = "follows from T(1,b) of 9.9 s, which other figures contradict"
    assert block([{**CELL, "caution": caution}]).notes == [f"Caution: speedup {caution}."]
    assert block([CELL]).notes == []


def test_without_published_studies_there_is_no_block() -> None:
    page = rendered(Tables())
    assert "<article" not in page and "No published study was audited." in page


@pytest.mark.slow
def test_every_study_is_a_block_with_its_sentences(audits: dict[str, dict[str, Any]]) -> None:
    page = rendered(Tables(**rows(audits.values())._asdict()))
    text = " ".join(re.sub(r"<[^>]+>", " ", page).split())
    assert page.count("<article") == 10
    assert "Reproduced : The speedup is N * T(1,b) / T(N,b), not as defined here" in text
    assert "Not reproduced : No convention of the 96,800 tried gives the bandwidth." in text
    assert "27.9 against 26.9 s" in text
    assert "1.457 [1.457, 1.458]" in text
    assert "Synthetic" not in text and "worker" not in text


def test_all_studies_have_one_csv_as_a_link_or_where_it_is_too_large_by_its_place() -> None:
    many = [{**CELL, "batch_per_gpu": n} for n in range(1, 600)]
    small, large = (rendered(tables(cells)) for cells in ([CELL], many))
    assert (small.count('download="audit.csv.zip"'), small.count("All studies are in")) == (1, 0)
    assert "download=" not in large and 'href="None"' not in large
    assert large.count("All studies are in <code>results/h200/tables/audit.csv</code>") == 1
    assert large.count('id="published-made-up"') == 1


def test_text_from_files_is_escaped() -> None:
    evil = "<script>alert(1)</script>"
    finding, warning = {**FINDING, "title": evil, "sentence": evil}, {**WARNING, "check": evil, "detail": evil}
    page = rendered(tables([{**UNKNOWN, "published": evil, "reason": evil}], [warning], finding))
    assert "<script" not in page

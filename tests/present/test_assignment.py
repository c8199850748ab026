"""The assignment's tables: what stands where, and that their copies hold the same cells."""

import re
from typing import Any

import pytest
from page_tables import absent_row, arm_row, around, empty, environment_row, h200, key, study, tables, times_row

from dpscale.present.assignment import Sheet, sheets
from dpscale.present.page import render
from dpscale.present.words import Terms

GPU = Terms(device="GPU", several_environments=False, synthetic=False)
EVIL = Sheet(
    "evil",
    r"100 % of $x_1$ & {y} # ~ ^ \input",
    "a | b\nc *d* `e` <b>",
    ["[x] | y", "a_b"],
    [["*3 & 4 \\", "−1.5 – × 10⁹"], ["[0.1, 0.2]", "<script>"]],
)


def by_id(**data: Any) -> dict[str, Sheet]:
    return {sheet.id: sheet for sheet in sheets(tables(**data) if data else h200(), GPU)}


def cells_of_markdown(text: str) -> list[list[str]]:
    """The cells of a Markdown table, as a reader of Markdown has them."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    return [[re.sub(r"\\([\\|*_`<>~])", r"\1", cell) for cell in row] for row in [rows[0], *rows[2:]]]


def rows_of_latex(text: str) -> list[list[str]]:
    body = text[text.index(r"\hline") : text.rindex(r"\hline")]
    return [re.split(r"(?<!\\)&", line) for line in body.splitlines() if line.endswith(r"\\")]


def test_every_strategy_has_its_tables() -> None:
    found = by_id()
    assert list(found) == [f"table-{number}-{strategy}" for strategy in ("dp", "ddp") for number in (1, 2, 3)]


def test_time_and_speedup_stand_side_by_side() -> None:
    sheet = by_id()["table-1-ddp"]
    assert sheet.columns == [
        "Batch per GPU", "1 GPU: time, s", "2 GPUs: time, s", "2 GPUs: speedup, ×", "4 GPUs: time, s",
        "4 GPUs: speedup, ×",
    ]  # fmt: skip
    rows = {row[0]: list(row[1:]) for row in sheet.rows}
    assert list(rows) == ["32", "128", "512", "2,048", "8,192", "32,768"]
    assert rows["32"][0].startswith("7.74") and rows["32"][4].startswith("3.07")
    assert rows["32,768"] == ["OOM", "capped", "capped", "capped", "capped"]
    assert "T(1,b) / T(N,b), ×, compute scope" in sheet.caption


def test_communication_and_bandwidth_have_a_word_where_there_is_no_number() -> None:
    found = by_id()
    assert found["table-2-ddp"].rows[1][1] == "1.435"
    assert "not resolvable" in {cell for row in found["table-3-ddp"].rows for cell in row}
    assert {cell for row in found["table-3-ddp"].rows for cell in row[2::2]} >= {"not measured", "not resolvable"}
    assert found["table-3-ddp"].rows[-1][1:] == ["not planned"] * 4


def test_large_batches_stand_below_the_baseline_and_without_those_with_remedies() -> None:
    ends = {**around("training_loss", 1.34), **around("training_accuracy", 0.5)}
    plain = arm_row("large", 0.50, **ends)
    baseline = arm_row("small", 0.71, strategy="single", gpus=1, batch_per_gpu=128, global_batch=128, **ends)
    gone = {**arm_row("gone", 0.1, global_batch=8192), "test_accuracy": None, "status": "diverged"}
    remedied = arm_row("warm", 0.7, remedies="warmup_epochs 1")
    found = by_id(training_summary=[plain, {**baseline, "is_baseline": True}, remedied, gone])
    (sheet,) = found.values()
    assert sheet.id == "large-batches-ddp"
    assert [row[0] for row in sheet.rows] == ["small", "large", "gone"]
    assert sheet.rows[0][1:] == [
        "128", "1", "5", "3", "1.340 [1.327, 1.353]", "50.0 [49.5, 50.5]", "71.0 [70.3, 71.7]",
    ]  # fmt: skip
    assert sheet.rows[2][-1] == "diverged"


def test_environments_have_tables_of_their_own() -> None:
    several = Terms(device="GPU", several_environments=True, synthetic=False)
    times = [
        times_row(2.0, strategy=strategy, gpus=gpus, batch=32, environment=letter)
        for letter in "AB"
        for strategy, gpus in (("single", 1), ("ddp", 2))
    ]
    data = tables(times=times, environments=[environment_row("A"), environment_row("B")])
    found = sheets(data, several)
    assert [sheet.id for sheet in found] == ["table-1-ddp-a", "table-1-ddp-b"]
    assert found[1].title == "Table 1: time and speedup, ddp in environment B"


def test_one_gpu_alone_has_none() -> None:
    assert sheets(empty(), GPU) == []
    shared: dict[str, Any] = {"gpus": 2, "batch": 32}
    alone = [times_row(2.0, strategy="single", gpus=1, batch=32), absent_row("failed", "why", strategy="ddp", **shared)]
    assert sheets(tables(times=alone), GPU) == []


def test_long_tables_are_cut_with_a_count() -> None:
    times = [
        times_row(2.0, strategy=strategy, gpus=gpus, batch=batch)
        for batch in range(1, 101)
        for strategy, gpus in [("single", 1), *(("ddp", gpus) for gpus in range(2, 20))]
    ]
    (sheet,) = sheets(tables(times=times), GPU)
    assert len(sheet.rows) == 24 and len(sheet.columns) == 1 + 6
    assert "The first of 100 batches and 19 numbers of GPUs" in sheet.caption


@pytest.mark.parametrize("sheet", [EVIL, *sheets(h200(), GPU)], ids=lambda sheet: sheet.id)
def test_markdown_holds_the_same_cells(sheet: Sheet) -> None:
    assert cells_of_markdown(sheet.markdown) == [list(sheet.columns), *map(list, sheet.rows)]
    assert len(sheet.markdown.splitlines()) == 2 + 2 + len(sheet.rows), "a line a row, below the caption"


@pytest.mark.parametrize("sheet", [EVIL, *sheets(h200(), GPU)], ids=lambda sheet: sheet.id)
def test_columns_of_latex_match(sheet: Sheet) -> None:
    (declared,) = re.findall(r"\\begin\{tabular\}\{([lr]+)\}", sheet.latex)
    rows = rows_of_latex(sheet.latex)
    assert len(rows) == 1 + len(sheet.rows)
    assert {len(row) for row in rows} == {len(declared)} == {len(sheet.columns)}


def test_latex_is_escaped() -> None:
    text = EVIL.latex
    assert r"100 \% of \$x\_1\$ \& \{y\} \# \textasciitilde{} \textasciicircum{} \textbackslash{}input" in text
    assert "\n{}*3 \\& 4 \\textbackslash{} & $-$1.5 -- $\\times$ 10$^9$ \\\\\n" in text
    assert "\n{}[0.1, 0.2] & \\textless{}script\\textgreater{} \\\\\n" in text


@pytest.mark.slow
def test_copies_are_text_in_the_page() -> None:
    page = render(study(), h200())
    assert page.count(", as Markdown</summary>") == page.count(", as LaTeX</summary>") == 6
    assert r"\begin{tabular}{lrrrrr}" in page


def test_utilisation_is_in_percent() -> None:
    place = key(strategy="ddp", gpus=2, batch=32)
    row = {**place, "status": "ok", **around("bandwidth_gb_s", 120.0), **around("utilisation", 0.5)}
    times = [times_row(2.0, strategy="single", gpus=1, batch=32), times_row(1.1, strategy="ddp", gpus=2, batch=32)]
    found = by_id(times=times, bandwidth=[row])
    assert found["table-3-ddp"].rows == [["32", "120.0 [118.8, 121.2]", "50.0 [49.5, 50.5]"]]


def test_a_table_stands_where_no_bandwidth_can_be_told() -> None:
    times = [times_row(2.0, strategy="single", gpus=1, batch=32), times_row(1.1, strategy="ddp", gpus=2, batch=32)]
    row = {**key(strategy="ddp", gpus=2, batch=32), "status": "not resolvable", "bandwidth_gb_s": None}
    assert by_id(times=times, bandwidth=[row])["table-3-ddp"].rows == [["32", "not resolvable", "not resolvable"]]
    assert "table-3-ddp" not in by_id(times=times, bandwidth=[{**row, "status": "not run"}])

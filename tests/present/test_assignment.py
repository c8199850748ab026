"""The assignment's tables as a page shows them: what stands where."""

from dataclasses import replace
from typing import Any

from page_tables import (
    GPU,
    SEVERAL,
    environment_row,
    h200,
    tables,
    times_row,
)

from dpscale.formulas.figure import Figure
from dpscale.present.handin_assignment import grids, sheets
from dpscale.present.handin_sentences import AssignmentRows
from dpscale.present.text.table import ShownTable


def by_id(**data: Any) -> dict[str, ShownTable]:
    return {sheet.name: sheet for sheet in sheets(AssignmentRows.of(tables(**data) if data else h200()), GPU)}


def rows_of(sheet: ShownTable, group: str) -> dict[str, list[str]]:
    """The rows of a group by what stands in their first cell."""
    return {row[0]: list(row[1:]) for row in sheet.groups[group]}


def test_all_strategies_stand_in_one_table_and_time_and_speedup_side_by_side() -> None:
    found = by_id()
    assert [list(sheet.groups) for sheet in found.values()] == [["dp", "ddp"]] * 3
    assert [column.heading for column in found["table-1"].columns] == [
        "Strategy", "Batch per GPU", "1 GPU: time, s", "2 GPUs: time, s", "2 GPUs: speedup, ×", "4 GPUs: time, s",
        "4 GPUs: speedup, ×",
    ]  # fmt: skip
    rows = rows_of(found["table-1"], "ddp")
    assert list(rows) == ["32", "128", "512", "2,048", "8,192", "32,768", "131,072"]
    assert rows["32"][0].startswith("8.338") and rows["32"][4].startswith("2.92")
    assert rows_of(found["table-1"], "dp")["32"][4].startswith("0.61 ")


def test_a_word_stands_where_there_is_no_number() -> None:
    found = by_id()
    assert rows_of(found["table-1"], "ddp")["32,768"] == ["OOM", *["larger than the dataset"] * 4]
    assert rows_of(found["table-2"], "ddp")["128"][0] == "1.437"
    bounded: dict[str, Any] = {
        "status": "not resolvable", "bandwidth_gb_s": Figure(), "bandwidth_gb_s_at_least": 5.57,
    }  # fmt: skip
    data = h200()
    data = replace(data, bandwidth=[replace(row, **bounded) for row in data.bandwidth])
    table = next(sheet for sheet in sheets(AssignmentRows.of(data), GPU) if sheet.name == "table-3")
    assert rows_of(table, "ddp")["128"][:2] == ["≥ 5.57", "not resolvable"]


def test_two_machines_stand_with_their_values_and_what_they_are() -> None:
    """Not in brackets: that would say a 95 % interval."""
    two = Figure(1.45, 1.31, 1.6, "two machines")
    data = replace(h200(), speedup=[replace(row, speedup=two) for row in h200().speedup])
    table = sheets(AssignmentRows.of(data), GPU)[0]
    assert rows_of(table, "ddp")["32"][2] == "1.45 (1.31 to 1.60)"
    assert table.caption.endswith(" In parentheses the values of 2 machines."), "so that rows are not too wide"
    one_each = sheets(AssignmentRows.of(tables(times=[times_row(2.0, strategy="ddp", gpus=2, batch=32)])), GPU)[0]
    assert "parentheses" not in one_each.caption


def test_notes_explain_the_words_that_stand_in_the_table_and_no_others() -> None:
    """The page's tables have no column for states; what is handed in has one."""
    run = {**times_row(2.0, strategy="ddp", gpus=2, batch=32), "rests_on": "one machine: epoch_s"}
    oom = {**times_row(2.0, strategy="ddp", gpus=2, batch=64), "epoch_s": None, "status": "oom"}
    alone = [times_row(3.0, strategy="single", gpus=1, batch=batch) for batch in (32, 64)]
    rows = AssignmentRows.of(tables(times=[run, oom, *alone]))
    (shown,), (grid,) = sheets(rows, GPU), grids(rows, GPU)
    assert [note.split(":")[0] for note in shown.notes] == ["OOM"]
    assert [note.split(":")[0] for note in grid.by_configuration(GPU).notes] == ["OOM", "one machine"]


def test_only_a_table_that_has_intervals_says_what_brackets_are() -> None:
    assert {"In brackets" in sheet.caption for sheet in by_id().values()} == {True}
    once = [{**times_row(2.0, strategy="ddp", gpus=2, batch=32), "rests_on": "two runs: epoch_s"}]
    assert "In brackets" not in by_id(times=once)["table-1"].caption


def test_environments_have_tables_of_their_own() -> None:
    times = [
        times_row(2.0, strategy=strategy, gpus=gpus, batch=32, environment=letter)
        for letter in "AB"
        for strategy, gpus in (("single", 1), ("ddp", 2))
    ]
    data = tables(times=times, environments=[environment_row("A"), environment_row("B")])
    found = sheets(AssignmentRows.of(data), SEVERAL)
    assert [sheet.name for sheet in found] == ["table-1-a", "table-1-b"]
    assert found[1].title == "Table 1: time and speedup in environment B"

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
from dpscale.present.handin_assignment import AssignmentRows, sheets
from dpscale.present.text.table import ShownTable


def rows_of(sheet: ShownTable, group: str) -> dict[str, list[str]]:
    """Return the rows of a group by what stands in their first cell."""
    return {row[0]: list(row[1:]) for row in sheet.groups[group]}


def test_all_strategies_stand_in_one_table_and_time_and_speedup_side_by_side() -> None:
    table_1, table_2, table_3 = sheets(AssignmentRows.of(h200()), GPU)
    assert [list(sheet.groups) for sheet in (table_1, table_2, table_3)] == [["dp", "ddp"]] * 3
    headings = [column.heading for column in table_1.columns]
    assert headings[2:5] == ["1 GPU: time, s", "2 GPUs: time, s", "2 GPUs: speedup, ×"]
    rows = rows_of(table_1, "ddp")
    assert rows["32"][0].startswith("8.338") and rows["32"][4].startswith("2.92")
    assert "32,768" not in rows
    assert "batch 32,768 (OOM, larger than the dataset)" in table_1.notes[0], "a note where there is no number"


def test_a_bandwidth_that_cannot_be_told_has_its_bound() -> None:
    bounded: dict[str, Any] = {
        "status": "not resolvable", "bandwidth_gb_s": Figure(), "bandwidth_gb_s_at_least": 5.57,
    }  # fmt: skip
    data = replace(h200(), bandwidth=[replace(row, **bounded) for row in h200().bandwidth])
    table_3 = sheets(AssignmentRows.of(data), GPU)[2]
    assert rows_of(table_3, "ddp")["128"][:2] == ["≥ 5.57", "not resolvable"]


def test_environments_have_tables_of_their_own() -> None:
    times = [
        times_row(2.0, strategy=strategy, gpus=gpus, batch=32, environment=letter)
        for letter in "AB"
        for strategy, gpus in (("single", 1), ("ddp", 2))
    ]
    data = tables(times=times, environments=[environment_row("A"), environment_row("B")])
    tables_of_both = sheets(AssignmentRows.of(data), SEVERAL)
    assert [sheet.name for sheet in tables_of_both] == ["table-1-a", "table-1-b"]
    assert tables_of_both[1].title == "Table 1: time and speedup in environment B"

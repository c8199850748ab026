"""The assignment's tables as a page shows them: what stands where."""

from typing import Any

from page_tables import (
    GPU,
    SEVERAL,
    environment_row,
    h200,
    tables,
    times_row,
)

from dpscale.present.handin.assignment import sheets
from dpscale.present.handin.rows import AssignmentRows
from dpscale.present.handin.sheet import Sheet


def by_id(**data: Any) -> dict[str, Sheet]:
    return {sheet.id: sheet for sheet in sheets(AssignmentRows.of(tables(**data) if data else h200()), GPU)}


def rows_of(sheet: Sheet, group: str) -> dict[str, list[str]]:
    """The rows of a group by what stands in their first cell."""
    return {row[0]: list(row[1:]) for row in sheet.groups[group]}


def test_all_strategies_stand_in_one_table_and_time_and_speedup_side_by_side() -> None:
    found = by_id()
    assert [list(sheet.groups) for sheet in found.values()] == [["dp", "ddp"]] * 3
    assert found["table-1"].columns == [
        "Batch per GPU", "1 GPU: time, s", "2 GPUs: time, s", "2 GPUs: speedup, ×", "4 GPUs: time, s",
        "4 GPUs: speedup, ×",
    ]  # fmt: skip
    rows = rows_of(found["table-1"], "ddp")
    assert list(rows) == ["32", "128", "512", "2,048", "8,192", "32,768", "131,072"]
    assert rows["32"][0].startswith("8.338") and rows["32"][4].startswith("2.92")
    assert rows_of(found["table-1"], "dp")["32"][4].startswith("0.606")


def test_a_word_stands_where_there_is_no_number() -> None:
    found = by_id()
    assert rows_of(found["table-1"], "ddp")["32,768"] == ["OOM", *["larger than the dataset"] * 4]
    assert rows_of(found["table-2"], "ddp")["128"][0] == "1.437"
    rows = rows_of(found["table-3"], "ddp")
    assert rows["128"][:2] == ["≥ 5.56", "not resolvable"]


def test_environments_have_tables_of_their_own() -> None:
    times = [
        times_row(2.0, strategy=strategy, gpus=gpus, batch=32, environment=letter)
        for letter in "AB"
        for strategy, gpus in (("single", 1), ("ddp", 2))
    ]
    data = tables(times=times, environments=[environment_row("A"), environment_row("B")])
    found = sheets(AssignmentRows.of(data), SEVERAL)
    assert [sheet.id for sheet in found] == ["table-1-a", "table-1-b"]
    assert found[1].title == "Table 1: time and speedup in environment B"

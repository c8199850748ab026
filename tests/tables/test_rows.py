"""Rows: what is read back of a file is what was written; and columns say what a reader needs."""

import csv
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cases import cases
from dpscale.errors import TableError
from dpscale.formulas.figure import estimate_of_blocks
from dpscale.tables.answer import AnswerRow, CausesRow
from dpscale.tables.row import csv_text, read_rows, written
from dpscale.tables.study import EnvironmentsRow
from dpscale.tables.tables import TABLES
from dpscale.tables.timing import SpeedupRow
from dpscale.terminal import with_names
from recorded import recorded_tables
from rows import apart, together

ROW = SpeedupRow(
    epoch_s=estimate_of_blocks(together({"a": 2.0, "b": 2.5})),
    baseline_epoch_s=estimate_of_blocks(together({"a": 4.0, "b": 4.5})),
    speedup=estimate_of_blocks(apart({"a": 1.5, "b": 1.7, "c": 1.8})),
    efficiency=estimate_of_blocks(together({"a": 0.7, "b": 0.8, "c": 0.9})),
    speedup_from_steps=estimate_of_blocks(apart({"a": 1.5, "b": 1.7})),
)


def _read_back(row: SpeedupRow) -> SpeedupRow:
    return SpeedupRow.read({name: "" if value is None else str(value) for name, value in row.flat().items()})


def test_a_file_says_what_every_figure_rests_on() -> None:
    assert ROW.flat()["rests_on"] == (
        "two runs: epoch_s, baseline_epoch_s; one machine: efficiency; two machines: speedup_from_steps"
    )
    back = _read_back(ROW)
    for name in ("epoch_s", "baseline_epoch_s", "speedup", "efficiency", "speedup_from_steps"):
        assert getattr(back, name) == getattr(ROW, name), name


@pytest.mark.parametrize("text", cases(__file__, "formulas"))
def test_no_text_is_a_formula_and_all_come_back(tmp_path: Path, text: str) -> None:
    file = tmp_path / "environments.csv"
    file.write_text(
        written(EnvironmentsRow, [EnvironmentsRow(environment="A", hosts=text, records=3)]), encoding="utf-8"
    )
    for table in (file.read_text(), csv_text([[text, -1.5, "-1.5"]])):
        entries = list(csv.reader(table.splitlines()))[-1]
        assert not any(re.match(r"[=+@\t]|-(?!1.5)", entry) for entry in entries)
    assert "\x1b" not in written(EnvironmentsRow, [EnvironmentsRow(hosts="\x1b[2J")])
    assert [(row.hosts, row.records) for row in read_rows(EnvironmentsRow, file)] == [(text, 3)]


def test_whole_numbers_stay_whole_beside_missing_ones() -> None:
    lines = csv.DictReader(
        written(EnvironmentsRow, [EnvironmentsRow(hosts="a", records=3), EnvironmentsRow(hosts="b")]).splitlines()
    )
    assert [line["records"] for line in lines] == ["3", ""]


def _with_entry(column: str, entry: str) -> Callable[[str], str]:
    """Return what gives the third row of a table's text another entry."""

    def change(text: str) -> str:
        head, *rows = csv.reader(text.splitlines())
        rows[1][head.index(column)] = entry
        return csv_text([head, *rows])

    return change


def test_a_row_of_a_cause_names_it(tmp_path: Path) -> None:
    """What a sentence looks up cannot be empty."""
    place: dict[str, Any] = {"strategy": "ddp", "gpus": 2, "batch_per_gpu": 32, "global_batch": 64, "scope": "compute"}
    file = tmp_path / "causes.csv"
    file.write_text(written(CausesRow, [CausesRow(**place, order=0, cause="")]))
    with pytest.raises(TableError, match="row 2: cause is empty"):
        read_rows(CausesRow, file)


NO_TABLES: dict[str, tuple[Callable[[str], str | bytes], str]] = {
    **{
        f"{column} {entry[:9]}": (_with_entry(column, entry), f", row 3: {column} is {' '.join(entry[:40].split())}")
        for column, entries in cases(__file__, "entries").items()
        for entry in entries
    },
    "no number of GPUs": (_with_entry("gpus", ""), ", row 3: gpus is empty"),
    "too many digits": (_with_entry("gpus", "9" * 5_000), f", row 3: gpus is {'9' * 40}"),
    "a long entry": (_with_entry("reason", "x" * 200_000), ", row 3: field larger than field limit"),
    "a row too long": (lambda text: f"{text}{text.splitlines()[1]},1\n", ", row 4: it has "),
    "a row too short": (lambda text: f"{text}ddp,2\n", ", row 4: it has 2 entries"),
    "cut in a row": (lambda text: text[:-3], ": is cut off"),
    "cut in the head": (lambda text: text[:30] + "\n", ": is cut off"),
    "empty": (lambda text: "", ": is cut off"),
    "UTF-16": (lambda text: text.encode("utf-16"), ": is not text in UTF-8"),
}


@pytest.mark.parametrize("name", NO_TABLES)
def test_a_table_that_is_not_as_it_was_written_is_named_with_its_row(tmp_path: Path, name: str) -> None:
    change, why = NO_TABLES[name]
    file = tmp_path / "speedup.csv"
    place: dict[str, Any] = {"strategy": "ddp", "gpus": 2, "batch_per_gpu": 32, "global_batch": 64, "scope": "compute"}
    content = change(written(SpeedupRow, [SpeedupRow(**place, speedup=ROW.speedup)] * 2))
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(TableError) as error:
        read_rows(SpeedupRow, file)
    message = str(error.value)
    assert message.startswith(f"{file}{why}") and message.endswith(". Make it again with: dpscale tables")


@pytest.mark.parametrize("column", ["worth", "unit"])
def test_a_verdict_is_one_of_its_words(column: str) -> None:
    with pytest.raises(TableError, match=f"^{column} is great$"):
        AnswerRow.read({column: "great"})


@pytest.mark.parametrize("study", ["recorded", "recorded-h200-4", "recorded-two-gpus"])
def test_a_table_of_a_study_can_be_read_back(root: Path, tmp_path: Path, study: str) -> None:
    """With intervals where there were some: a table without the column `rests_on` would make one of two values."""
    for name, rows in vars(recorded_tables(root, study)).items():
        file = tmp_path / f"{name}.csv"
        kind = TABLES[name]
        file.write_text(written(kind, rows), encoding="utf-8")
        figures = [column for column, described in kind.columns().items() if described.kind == "figure"]
        for row, back in zip(rows, read_rows(kind, file), strict=True):
            assert back.flat() == {
                column: with_names(entry) if isinstance(entry, str) else entry for column, entry in row.flat().items()
            }
            for column in figures:
                before, after = getattr(row, column), getattr(back, column)
                assert (after.is_of_two, after.has_interval) == (before.is_of_two, before.has_interval), (name, column)


def test_every_column_says_what_it_is() -> None:
    for table, kind in TABLES.items():
        for column in kind.columns().values():
            assert column.label and column.definition.endswith((".", "`.")), (table, column.name)
        assert len(set(kind.file_columns())) == len(kind.file_columns()), table


def test_a_table_has_a_caption_in_snakemakes_report(root: Path) -> None:
    assert {path.stem for path in (root / "workflow/report/tables").glob("*.rst")} == set(TABLES)

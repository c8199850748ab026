"""Rows: what is read back of a file is what was written."""

from pathlib import Path

import pytest

from dpscale.formulas.figure import Figure, estimate_of_blocks
from dpscale.tables.row import read_rows, written
from dpscale.tables.tables import TABLES
from dpscale.tables.timing import SpeedupRow
from dpscale.tables.training import TrainingSummaryRow
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


@pytest.mark.parametrize("study", ["recorded", "recorded-h200-4"])
def test_no_table_of_a_study_makes_an_interval_of_two_values(root: Path, study: str) -> None:
    """A table without the column `rests_on` would."""
    tables = recorded_tables(root, study)
    for name, kind in TABLES.items():
        figures = [column for column, described in kind.columns().items() if described.kind == "figure"]
        for row in getattr(tables, name):
            back = kind.read(row.flat())
            for column in figures:
                assert getattr(back, column).is_of_two == getattr(row, column).is_of_two, (name, column)
                assert getattr(back, column).has_interval == getattr(row, column).has_interval, (name, column)


@pytest.mark.parametrize("figure", [Figure(), Figure(2.0), Figure(2.0, kind="one run"), Figure.of(2.0, 1.0, 3.0)])
def test_a_figure_keeps_its_kind(figure: Figure) -> None:
    back = _read_back(SpeedupRow(speedup=figure)).speedup
    assert (back.kind, back.has_interval, back.is_known) == (figure.kind, figure.has_interval, figure.is_known)


@pytest.mark.parametrize("arm", ["128", "1e5", "007", "nan", "true"])
def test_a_name_like_a_number_stays_a_name(tmp_path: Path, arm: str) -> None:
    """Once, an arm named 128 was read back as 128.0 and matched nothing."""
    file = tmp_path / "training_summary.csv"
    file.write_text(written(TrainingSummaryRow, [TrainingSummaryRow(arm=arm)]), encoding="utf-8")
    assert read_rows(TrainingSummaryRow, file)[0].arm == arm

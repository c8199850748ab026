"""Quantities: one row each, with what a reader needs, and nothing of it stated anywhere else."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from dpscale.errors import DpscaleError
from dpscale.vocabulary import quantities
from dpscale.vocabulary.quantities import MILLISECONDS, PERCENT, TABLES, columns_of_view, quantity
from old_tables import COLUMNS, TEXT_COLUMNS

SECTIONS = {
    "Symbols", "Time", "Speedup", "Communication", "Bandwidth", "Utilisation and MFU", "Training", "Forecast",
    "Statistics", "Variants", "Limit of a GPU", "Frontier", "Advice", "Causes",
}  # fmt: skip
ROWS = [(table, column) for table, columns in TABLES.items() for column in columns]


def test_every_column_says_what_it_is_and_where_that_is_defined() -> None:
    for table, column in ROWS:
        described = column.quantity
        assert described.label and described.definition.endswith((".", "`.")), (table, described.column)
        assert described.section in SECTIONS, (table, described.column)


def test_no_table_has_a_column_twice() -> None:
    for table, columns in COLUMNS.items():
        assert len(set(columns)) == len(columns), table


def test_sections_stand_in_the_method(root: Path) -> None:
    headings = set(re.findall(r"^#+ (.*)$", (root / "docs/method.md").read_text(), re.MULTILINE))
    assert headings >= SECTIONS


def test_a_column_means_what_its_table_says() -> None:
    assert quantity("step_s").label == "Step time"
    assert quantity("step_s", "forecast").label == "Predicted step"
    assert quantity("compute_s", "steps").unit is MILLISECONDS
    assert quantity("compute_s", "communication").unit.shown == "s"
    assert quantity("speedup").heading == "Speedup, ×"


@pytest.mark.parametrize(("column", "table"), [("nonsense", ""), ("speedup", "rejected")])
def test_an_unknown_column_raises(column: str, table: str) -> None:
    with pytest.raises(DpscaleError, match=column):
        quantity(column, table)


def test_units_convert() -> None:
    assert MILLISECONDS.of(0.25) == 250
    assert PERCENT.of(0.125) == 12.5


def test_views_show_columns_of_their_table_alone() -> None:
    shown = [column.quantity.column for column in columns_of_view("held_out", "forecast")]
    assert shown[:3] == ["algorithm", "compute_s", "overhead_s"]
    assert "speedup" in [column.quantity.column for column in columns_of_view("forecast", "forecast")]


def test_columns_to_read_as_text_exist() -> None:
    assert set(TEXT_COLUMNS) <= {name for columns in COLUMNS.values() for name in columns}


def test_labels_of_estimates_stand_once_in_the_package(root: Path) -> None:
    """The place that has them is the only one."""
    labels = [quantity(estimate).label for estimate in quantities.ESTIMATES_OF_STEP]
    for path in (root / "workflow/dpscale").rglob("*.py"):
        if path.name != "quantities.py":
            assert not [label for label in labels if f'"{label}"' in path.read_text()], path


def test_a_table_has_a_caption_in_snakemakes_report(root: Path) -> None:
    captions = {path.stem for path in (root / "workflow/report/tables").glob("*.rst")}
    assert captions == set(COLUMNS)


@pytest.mark.processes
def test_names_of_tables_need_no_pandas() -> None:
    code = "import sys, dpscale.analyse.columns; sys.exit(any(name in sys.modules for name in ('pandas', 'numpy')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

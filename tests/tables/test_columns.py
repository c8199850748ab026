"""Columns: what a reader needs of each, and nothing of it stated anywhere else."""

import re
from pathlib import Path

import pytest

from dpscale.errors import DpscaleError
from dpscale.tables import quantities
from dpscale.tables.column import MILLISECONDS, PERCENT
from dpscale.tables.communication import CommunicationRow, StepsRow
from dpscale.tables.forecast import ForecastRow
from dpscale.tables.tables import TABLES
from dpscale.tables.timing import SpeedupRow, TimesRow

ROWS = [(table, column) for table, kind in TABLES.items() for column in kind.columns().values()]


def test_every_column_says_what_it_is() -> None:
    for table, column in ROWS:
        assert column.label and column.definition.endswith((".", "`.")), (table, column.name)


def test_no_file_has_a_column_twice() -> None:
    for table, kind in TABLES.items():
        assert len(set(kind.file_columns())) == len(kind.file_columns()), table


def test_sections_stand_in_the_method(root: Path) -> None:
    headings = set(re.findall(r"^#+ (.*)$", (root / "docs/method.md").read_text(), re.MULTILINE))
    assert headings >= {column.section for table, column in ROWS if not table.startswith("audit")}


def test_a_column_means_what_its_table_says() -> None:
    assert TimesRow.column("step_s").label == "Step time"
    assert ForecastRow.column("step_s").label == "Predicted step"
    assert StepsRow.column("compute_s").unit is MILLISECONDS
    assert CommunicationRow.column("compute_s").unit.shown == "s"
    assert SpeedupRow.column("speedup").heading == "Speedup, ×"


def test_an_unknown_column_raises() -> None:
    with pytest.raises(DpscaleError, match="nonsense"):
        TimesRow.column("nonsense")


def test_units_convert() -> None:
    assert MILLISECONDS.of(0.25) == 250
    assert PERCENT.of(0.125) == 12.5


def test_labels_of_estimates_stand_once_in_the_package(root: Path) -> None:
    """The place that has them is the only one."""
    estimates = (quantities.E1, quantities.E2, quantities.E3, quantities.E4, quantities.E5)
    for path in (root / "workflow/dpscale").rglob("*.py"):
        if path.name != "quantities.py":
            assert not [found for found in estimates if f'"{found.label}"' in path.read_text()], path


def test_a_table_has_a_caption_in_snakemakes_report(root: Path) -> None:
    captions = {path.stem for path in (root / "workflow/report/tables").glob("*.rst")}
    assert captions == set(TABLES)

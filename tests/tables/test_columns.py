"""Columns: each says what a reader needs, and nothing of it is stated anywhere else."""

import subprocess
import sys
from pathlib import Path

import pytest

from dpscale.tables.column import MILLISECONDS
from dpscale.tables.communication import CommunicationRow, StepsRow
from dpscale.tables.tables import TABLES
from dpscale.tables.timing import TimesRow


def test_every_column_says_what_it_is() -> None:
    for table, kind in TABLES.items():
        for column in kind.columns().values():
            assert column.label and column.definition.endswith((".", "`.")), (table, column.name)
        assert len(set(kind.file_columns())) == len(kind.file_columns()), table


def test_a_column_means_what_its_table_says() -> None:
    assert TimesRow.column("step_s").heading == "Step time, ms"
    assert StepsRow.column("compute_s").unit is MILLISECONDS
    assert CommunicationRow.column("compute_s").unit.shown == "s"


def test_a_table_has_a_caption_in_snakemakes_report(root: Path) -> None:
    assert {path.stem for path in (root / "workflow/report/tables").glob("*.rst")} == set(TABLES)


@pytest.mark.processes
def test_names_of_tables_need_no_pandas() -> None:
    code = "import sys, dpscale.tables.tables; sys.exit('pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

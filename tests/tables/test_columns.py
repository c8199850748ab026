"""Columns: each says what a reader needs, and nothing of it is stated anywhere else."""

from pathlib import Path

from dpscale.tables.tables import TABLES


def test_every_column_says_what_it_is() -> None:
    for table, kind in TABLES.items():
        for column in kind.columns().values():
            assert column.label and column.definition.endswith((".", "`.")), (table, column.name)
        assert len(set(kind.file_columns())) == len(kind.file_columns()), table


def test_a_table_has_a_caption_in_snakemakes_report(root: Path) -> None:
    assert {path.stem for path in (root / "workflow/report/tables").glob("*.rst")} == set(TABLES)

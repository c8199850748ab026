"""The tables of a study as the command writes them: all of them, with their columns, as they come back from files."""

import csv
import json
from pathlib import Path

from click.testing import CliRunner

from dpscale.analyse.tables import build_tables
from dpscale.cli import main
from dpscale.plan.plan import plan
from dpscale.plan.study import Study
from dpscale.records.collect import collect
from dpscale.tables.row import written
from dpscale.tables.tables import TABLES, Tables
from made_study import TIMED
from record_factory import timing_record, write

VALUES = {**TIMED, "strategies": ["single"], "gpus": [1], "strong_scaling_global_batch": []}


def through_the_command(tmp_path: Path) -> Tables:
    """The tables of records as `dpscale tables` writes them; memory ran out at the larger batch."""
    study = Study(VALUES)
    for cell in plan(study).timing:
        record = timing_record(cell, study.settings, [1.0, 1.1] if cell.configuration.batch_per_gpu == 32 else None)
        write(tmp_path, cell, record)
    (tmp_path / "study.json").write_text(json.dumps(VALUES))
    arguments = [f"{tmp_path}/study.json", "--results", str(tmp_path), "--out", str(tmp_path)]
    CliRunner().invoke(main, ["tables", *arguments], catch_exceptions=False, standalone_mode=False)
    return Tables.read(tmp_path)


def test_every_table_is_there_with_its_columns_and_comes_back_as_it_was(tmp_path: Path) -> None:
    back, study = through_the_command(tmp_path), Study(VALUES)
    built = build_tables(study, collect(tmp_path, plan(study).all_cells, study.settings))
    for name, kind in TABLES.items():
        text = (tmp_path / f"{name}.csv").read_text()
        assert text.splitlines()[0] == ",".join(kind.file_columns())
        assert text == written(kind, getattr(built, name)) == written(kind, getattr(back, name))


def test_whole_numbers_stay_whole_beside_missing_ones(tmp_path: Path) -> None:
    through_the_command(tmp_path)
    head, *lines = csv.reader((tmp_path / "times.csv").read_text().splitlines())
    assert [line[head.index("steps_per_epoch")] for line in lines] == ["1563", ""]

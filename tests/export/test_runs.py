"""Records and tables as plain runs: one per cell, with the numbers of the CSV files."""

from collections import Counter
from dataclasses import replace

import pandas as pd
import pytest

from dpscale.errors import ExportError
from dpscale.export.runs import TrackedRun
from dpscale.formulas.figure import Figure
from dpscale.plan.plan import plan
from dpscale.tables.tables import Tables
from exported_study import SHORT, Measured

CELL = "cells/ddp/gpus-2/batch-512/run-1"
# The tables that have figures of a cell, and their columns that are no figures.
TABLES_OF = {
    "timing": ("records", "runs", "times", "speedup", "communication", "bandwidth"),
    "variant": ("records", "runs", "variants"),
    "training": ("records", "training_summary"),
}
LABELS = ("path", "strategy", "gpus", "batch_per_gpu", "global_batch", "environment", "run", "arm", "seed", "variant")


@pytest.fixture(scope="module")
def tables(measured: Measured) -> Tables:
    return Tables.read(measured.results / "tables")


@pytest.fixture(scope="module")
def runs(measured: Measured) -> dict[str, TrackedRun]:
    return measured.runs


def in_csv_files(measured: Measured, run: TrackedRun) -> dict[str, float]:
    """Every number that the CSV tables have of a run."""
    numbers: dict[str, float] = {}
    values = {"variant": "", **run.config, "path": f"{run.key}.json"}
    for name in TABLES_OF[run.kind]:
        table = pd.read_csv(measured.results / f"tables/{name}.csv", dtype={"dataset_sha256": str})
        table = table.fillna({"variant": ""}) if "variant" in table else table
        labels = [label for label in LABELS if label in table and label in values]
        columns = table.select_dtypes("number").columns.difference(list(LABELS))
        for _, row in table[(table[labels] == pd.Series(values)[labels]).all(axis=1)].iterrows():
            place = "/".join([name, *(str(row[label]) for label in ("scope", "scaling") if label in row)])
            shown = row[columns.difference(list(ends_of_two(row.get("rests_on"))))].dropna()
            numbers |= {f"{place}/{column}": value for column, value in shown.items()}
    return numbers


def ends_of_two(rests_on: object) -> set[str]:
    """The columns of a row whose numbers are values of two servers or runs, and no interval."""
    groups = [group.split(": ") for group in str(rests_on).split("; ") if group.startswith("two ")]
    return {f"{name}_{end}" for _, names in groups for name in names.split(", ") for end in ("low", "high")}


def test_there_is_a_run_per_cell_and_one_of_the_study(measured: Measured, runs: dict[str, TrackedRun]) -> None:
    assert set(runs) == {cell.path.removesuffix(".json") for cell in plan(measured.study).all_cells} | {"study"}
    assert Counter(run.kind for run in runs.values()) == {"timing": 8, "variant": 1, "training": 3, "study": 1}
    assert len({run.id for run in runs.values()}) == len(runs)


def test_figures_are_all_the_numbers_of_the_csv_files(measured: Measured, runs: dict[str, TrackedRun]) -> None:
    for run in runs.values():
        assert run.kind == "study" or run.figures == in_csv_files(measured, run), run.key
    assert "times/compute/epoch_s" in runs[CELL].figures
    assert "times/compute/epoch_s_low" not in runs[CELL].figures, "two runs are no interval"


def test_figures_are_of_the_environment_of_the_run(
    measured: Measured, tables: Tables, runs: dict[str, TrackedRun]
) -> None:
    elsewhere = [replace(row, environment="B", epoch_s=Figure(99.0)) for row in tables.times]
    assert measured.runs_by(replace(tables, times=[*tables.times, *elsewhere])) == runs
    records = [replace(row, environment="B") for row in tables.records]
    moved = measured.runs_by(replace(tables, records=records, times=elsewhere))
    assert moved[CELL].figures["times/compute/epoch_s"] == 99.0


@pytest.mark.parametrize("is_there", [False, True])
def test_tables_of_other_records_are_refused(measured: Measured, tables: Tables, is_there: bool) -> None:
    path = f"{CELL}.json"
    records = [
        replace(row, started_at="2027-01-01T00:00:00+00:00") if row.path == path else row
        for row in tables.records
        if is_there or row.path != path
    ]
    with pytest.raises(ExportError, match=f"the tables are not of these records: {path} differs"):
        measured.runs_by(replace(tables, records=records))


def test_a_training_has_the_loss_of_every_step_and_the_figures_of_every_epoch_by_its_own_clock(
    measured: Measured, runs: dict[str, TrackedRun]
) -> None:
    record, run = measured.record(SHORT), runs[SHORT]
    curves = {curve.name: curve for curve in run.curves}
    loss, accuracy = curves["training/step_loss"], curves["training/test_accuracy"]
    assert [(point.number, point.value) for point in loss.points] == [*enumerate(record["step_loss"], 1)]
    assert [(point.number, point.value) for point in accuracy.points] == [(1, 0.5), (2, 0.6)]
    assert (loss.axis, accuracy.axis) == ("step", "epoch")
    epoch_s, steps = record["epochs"][0]["epoch_s"], record["epochs"][0]["steps"]
    ends = [point.clock_s for point in curves["training/epoch_s"].points]
    assert [end - run.started_s for end in ends] == pytest.approx([epoch_s, 2 * epoch_s])
    assert [loss.points[at].clock_s for at in (0, steps, -1)] == pytest.approx([ends[0], ends[1], ends[1]])


def test_values_that_are_not_finite_have_no_point_and_out_of_memory_no_epochs(runs: dict[str, TrackedRun]) -> None:
    curves = {curve.name: curve for curve in runs["training/wild/seed-1"].curves}
    assert len(curves["training/test_accuracy"].points) == 2
    assert len(curves["training/epoch_s"].points) == 3
    assert "training/validation_loss" not in curves
    run = runs["cells/single/gpus-1/batch-8192/run-1"]
    assert (run.config["status"], run.curves) == ("oom", ())


def test_the_config_holds_settings_hardware_and_software_and_nothing_private(runs: dict[str, TrackedRun]) -> None:
    config = runs["variants/half+graph/single/gpus-1/batch-512/run-1"].config
    assert (config["precision"], config["variant"], config["gpus"]) == ("bfloat16", "half+graph", 1)
    assert (config["device_model"], config["torch"]) == ("NVIDIA H200", "2.11.0")
    assert runs["study"].config["dataset.source"] == "synthetic"
    assert not {"host", "command", "path"} & set(config)
    assert "node1" not in config.values()


def test_an_id_stays_unless_the_cell_was_measured_again(
    measured: Measured, tables: Tables, runs: dict[str, TrackedRun]
) -> None:
    assert {key: run.id for key, run in measured.runs_by(tables).items()} == {key: run.id for key, run in runs.items()}
    run, study = runs[SHORT], runs["study"]
    assert replace(run, started_s=run.started_s + 1).id != run.id == replace(run, figures={}).id
    assert replace(study, started_s=study.started_s + 1).id == study.id

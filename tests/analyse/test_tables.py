"""From records to tables: every configuration has a row, and no figure stands where none can."""

import json
import math
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from dpscale.analyse.tables import build_tables, expected_cells
from dpscale.cli import main
from dpscale.plan.cells import Configuration, TimingCell
from dpscale.plan.plan import plan
from dpscale.plan.study import Study
from dpscale.present.study.page import render
from dpscale.present.summary import summary
from dpscale.records.collect import collect
from dpscale.tables.tables import TABLES
from old_tables import COLUMNS, read_table
from record_factory import older_timing_record, timing_record, watched, write

VALUES = {
    "study": "s",
    "gpus": [1, 2],
    "batch_per_gpu": [32, 128],
    "strong_scaling_global_batch": [128],
    "scopes": ["compute"],
    "runs": 2,
    "communication": {"runs": 0},
}
THREE_RUNS = {**VALUES, "runs": 3}
DDP = "ddp", 2, 32
# Epoch seconds of the first epoch, by configuration; the second epoch takes 1 % more, every further run 2 % more.
EPOCH_S = {
    ("single", 1, 32): 8.0,
    ("single", 1, 128): 4.0,
    ("dp", 2, 32): 20.0,
    ("dp", 2, 64): 8.0,
    ("dp", 2, 128): 4.1,
    ("ddp", 2, 32): 5.0,
    ("ddp", 2, 64): 2.5,
    ("ddp", 2, 128): 2.0,
}


def timing_cells(study: Study) -> tuple[TimingCell, ...]:
    """All cells of a study that times and does nothing else."""
    planned = plan(study.on_any_machine())
    assert planned.timing == expected_cells(study)
    return planned.timing


def measured(
    tmp_path: Path,
    values: dict[str, Any] = VALUES,
    skip: Collection[tuple[str, int, int]] = (),
    oom: Collection[tuple[str, int, int]] = (),
    changes: dict[tuple[str, int, int, int], dict[str, Any]] | None = None,
) -> Mapping[str, pd.DataFrame]:
    study = Study(values)
    for cell in timing_cells(study):
        place = (cell.configuration.strategy, cell.configuration.gpus, cell.configuration.batch_per_gpu)
        if place in skip:
            continue
        first = EPOCH_S[place] * (1 + 0.02 * (cell.run - 1))
        epochs = None if place in oom else [first, 1.01 * first]
        write(
            tmp_path,
            cell,
            {**timing_record(cell, study.settings, epochs), **(changes or {}).get((*place, cell.run), {})},
        )
    return build_tables(study, collect(tmp_path, expected_cells(study), study.settings))


def row(table: pd.DataFrame, strategy: str, gpus: int, batch: int, **where: str) -> pd.Series:
    wanted = {"strategy": strategy, "gpus": gpus, "batch_per_gpu": batch, **where}
    found = table[(table[list(wanted)] == pd.Series(wanted)).all(axis=1)]
    assert len(found) == 1, found
    return found.iloc[0]


def test_every_table_is_there_with_its_columns(tmp_path: Path) -> None:
    tables = measured(tmp_path)
    assert list(tables) == list(TABLES)
    for name, table in tables.items():
        assert list(table.columns) == COLUMNS[name]


def test_figures_follow_from_the_records(tmp_path: Path) -> None:
    tables = measured(tmp_path, THREE_RUNS)
    times = row(tables["times"], "ddp", 2, 32)
    assert (times["status"], times["runs"], times["n"]) == ("ok", 3, 6)
    assert times["epoch_s"] == pytest.approx(5.0 * 1.005 * (1.02 * 1.04) ** (1 / 3))
    assert times["first_timed_epoch_s"] == pytest.approx(5.0 * 1.02)
    reach = 4.30265 * np.std(np.log([1.0, 1.02, 1.04]), ddof=1) / math.sqrt(3)
    ends = [times["epoch_s"] * math.exp(sign * reach) for sign in (-1, 1)]
    assert [times["epoch_s_low"], times["epoch_s_high"]] == pytest.approx(ends)
    assert times["repeatability"] == pytest.approx(0.005 * math.sqrt(2) / 1.005)
    assert times["steps_per_epoch"] == 782
    speedup = row(tables["speedup"], "ddp", 2, 32)
    assert speedup["speedup"] == pytest.approx(8 / 5)
    assert speedup["efficiency"] == pytest.approx(0.8)
    assert speedup["speedup_from_steps"] == pytest.approx(8 / 5)
    communication = row(tables["communication"], "ddp", 2, 32)
    assert communication["communication_s"] == pytest.approx((5 - 4) * 1.005 * 1.02)
    assert communication["compute_s"] + communication["communication_s"] == pytest.approx(communication["epoch_s"])
    bandwidth = row(tables["bandwidth"], "ddp", 2, 32)
    assert bandwidth["bandwidth_gb_s"] == pytest.approx(44_695_848 * 782 / communication["communication_s"] / 1e9)


def test_strong_scaling_reads_the_same_points_at_a_fixed_global_batch(tmp_path: Path) -> None:
    table = measured(tmp_path)["speedup"]
    strong = row(table, "ddp", 2, 64, scaling="strong")
    assert strong["global_batch"] == 128
    assert strong["baseline_epoch_s"] == pytest.approx(4.0 * 1.005 * math.sqrt(1.02))
    assert strong["speedup"] == pytest.approx(4.0 / 2.5)
    assert pd.isna(strong["speedup_from_steps"])


def test_a_missing_baseline_is_not_replaced_by_another(tmp_path: Path) -> None:
    tables = measured(tmp_path, skip=[("single", 1, 32)])
    for name in ("speedup", "communication", "bandwidth"):
        found = row(tables[name], "ddp", 2, 32)
        assert found["status"] == "no baseline"
        assert "one GPU at batch 32: missing" in found["reason"]
    assert pd.isna(row(tables["speedup"], "ddp", 2, 32)["speedup"])
    assert row(tables["times"], "single", 1, 32)["status"] == "missing"


def test_out_of_memory_is_a_state_of_its_own(tmp_path: Path) -> None:
    tables = measured(tmp_path, oom=[("single", 1, 128), ("dp", 2, 32)])
    assert row(tables["times"], "dp", 2, 32)["status"] == "oom"
    assert row(tables["speedup"], "dp", 2, 32)["status"] == "oom"
    assert row(tables["speedup"], "ddp", 2, 128)["status"] == "no baseline"
    assert "oom" in row(tables["speedup"], "ddp", 2, 128)["reason"]


def test_one_run_out_of_memory_is_told_beside_the_figures(tmp_path: Path) -> None:
    study = Study(VALUES)
    for cell in timing_cells(study):
        write(tmp_path, cell, timing_record(cell, study.settings, None if cell.run == 2 else [1.0, 1.0]))
    times = build_tables(study, collect(tmp_path, expected_cells(study), study.settings))["times"]
    assert set(times["status"]) == {"ok"}
    assert set(times["reason"]) == {"out of memory in 1 of 2 runs"}


def test_a_bandwidth_that_cannot_be_told_is_neither_negative_nor_huge(tmp_path: Path) -> None:
    """Two GPUs take half as long as one: once a little more, once a little less."""
    study = Study(THREE_RUNS)
    for cell in timing_cells(study):
        configuration = cell.configuration
        off_s = 0.0 if configuration.strategy == "single" else (-0.01, 0.0, 0.02)[cell.run - 1]
        write(tmp_path, cell, timing_record(cell, study.settings, [4.0 / configuration.gpus + off_s]))
    bandwidth = row(build_tables(study, collect(tmp_path, expected_cells(study), study.settings))["bandwidth"], *DDP)
    assert bandwidth["status"] == "not resolvable"
    assert "not above zero" in bandwidth["reason"]
    assert pd.isna(bandwidth["bandwidth_gb_s"])
    assert bandwidth["communication_s"] == pytest.approx(0.01 / 3)
    bound = bandwidth["allreduce_bytes_per_epoch"] / bandwidth["communication_s_high"] / 1e9
    assert bandwidth["bandwidth_gb_s_at_least"] == pytest.approx(bound)


def test_a_communication_time_below_zero_bounds_no_bandwidth(tmp_path: Path) -> None:
    study = Study(THREE_RUNS)
    for cell in timing_cells(study):
        configuration = cell.configuration
        off_s = 0.0 if configuration.strategy == "single" else -0.1 - 0.001 * cell.run
        write(tmp_path, cell, timing_record(cell, study.settings, [4.0 / configuration.gpus + off_s]))
    bandwidth = row(build_tables(study, collect(tmp_path, expected_cells(study), study.settings))["bandwidth"], *DDP)
    assert "is below zero" in bandwidth["reason"]
    assert pd.isna(bandwidth["bandwidth_gb_s_at_least"])


def test_what_is_not_run_keeps_its_row_and_reason(tmp_path: Path) -> None:
    values = {**VALUES, "gpus": [1, 2, 4], "gpus_available": 2, "strong_scaling_global_batch": []}
    study = Study(values)
    times = build_tables(study, collect(tmp_path, expected_cells(study), study.settings))["times"]
    assert row(times, "ddp", 4, 32)["status"] == "not run"
    assert row(times, "ddp", 4, 32)["reason"] == "needs 4 GPUs, 2 here"
    assert row(times, "ddp", 2, 32)["status"] == "missing"


def test_records_from_a_machine_with_more_gpus_still_count_here(tmp_path: Path) -> None:
    measured(tmp_path)
    study = Study({**VALUES, "gpus_available": 1})
    times = build_tables(study, collect(tmp_path, expected_cells(study), study.settings))["times"]
    assert row(times, "ddp", 2, 32)["status"] == "ok"


def test_environments_are_never_mixed(tmp_path: Path) -> None:
    """A second GPU model for one run: its own rows, its own baseline or none."""
    other = timing_record(timing_cells(Study(VALUES))[0], Study(VALUES).settings, [1.0])["hardware"]
    changes = {("ddp", 2, 32, 2): {"hardware": {**other, "device_model": "Other GPU"}}}
    tables = measured(tmp_path, changes=changes)
    assert list(tables["environments"]["environment"]) == ["A", "B"]
    first = row(tables["speedup"], "ddp", 2, 32, environment="A")
    second = row(tables["speedup"], "ddp", 2, 32, environment="B")
    assert (first["status"], first["n"]) == ("ok", 2)
    assert second["status"] == "no baseline"
    assert "not measured in environment B" in second["reason"]


def test_rejected_records_are_listed_and_their_rows_say_why(tmp_path: Path) -> None:
    measured(tmp_path)
    damaged = tmp_path / "cells/ddp/gpus-2/batch-32/run-1.json"
    damaged.write_text("{")
    study = Study(VALUES)
    tables = build_tables(study, collect(tmp_path, expected_cells(study), study.settings))
    assert "is damaged" in tables["rejected"].iloc[0]["reason"]
    assert row(tables["times"], "ddp", 2, 32)["runs"] == 1
    for run in (1, 2):
        (tmp_path / f"cells/ddp/gpus-2/batch-32/run-{run}.json").write_text("{")
    tables = build_tables(study, collect(tmp_path, expected_cells(study), study.settings))
    assert "record not used" in row(tables["times"], "ddp", 2, 32)["reason"]


def test_a_scope_that_was_finished_before_memory_ran_out_counts(tmp_path: Path) -> None:
    study = Study({**VALUES, "scopes": ["compute", "end_to_end"]})
    for cell in timing_cells(study):
        whole = timing_record(cell, study.settings, [1.0, 1.1])
        oom = timing_record(cell, study.settings, None)
        write(tmp_path, cell, {**oom, "scopes": {"compute": whole["scopes"]["compute"]}})
    tables = build_tables(study, collect(tmp_path, expected_cells(study), study.settings))
    assert row(tables["times"], "ddp", 2, 32, scope="compute")["status"] == "ok"
    assert row(tables["times"], "ddp", 2, 32, scope="end_to_end")["status"] == "oom"
    assert row(tables["bandwidth"], "ddp", 2, 32)["parameters"] == 11_173_962


def test_the_bandwidths_interval_is_that_of_the_communication_time(tmp_path: Path) -> None:
    found = row(measured(tmp_path, THREE_RUNS)["bandwidth"], *DDP)
    for bound, opposite in (("low", "high"), ("high", "low")):
        expected = found["allreduce_bytes_per_epoch"] / found[f"communication_s_{opposite}"] / 1e9
        assert found[f"bandwidth_gb_s_{bound}"] == pytest.approx(expected)


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{"gpus_available": 1}, {"gpus_available": 0}, {"scopes": ["end_to_end"]}])
def test_the_summary_of_a_machine_that_can_run_little(tmp_path: Path, changes: dict[str, Any]) -> None:
    """Through the CSV files: a column without any entry must not turn into one of numbers."""
    study = Study({**VALUES, "strong_scaling_global_batch": [], **changes})
    for cell in plan(study).timing:
        write(tmp_path, cell, timing_record(cell, study.settings, [1.0, 1.1]))
    tables = build_tables(study, collect(tmp_path, expected_cells(study), study.settings))
    for name, table in tables.items():
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    back = {name: read_table(tmp_path / f"{name}.csv") for name in TABLES}
    lines = summary(back).splitlines()
    assert sum(line.startswith(("single", "dp", "ddp")) for line in lines) == 6
    assert "<html" in render(study.values, back)


@pytest.mark.slow
@pytest.mark.parametrize("host", ["null", "007", "1e3", "a,b", 'say "a"', "a\tb\nc", "\u05d0\u05d1"])
def test_names_come_back_from_the_csv_as_they_were(tmp_path: Path, host: str) -> None:
    back = through_the_command(tmp_path, host)
    assert set(back["records"]["host"]) == {host}
    assert len(back["environments"]) == 1


@pytest.mark.slow
def test_a_carriage_return_ends_no_row(tmp_path: Path) -> None:
    assert set(through_the_command(tmp_path, "a\rb")["records"]["host"]) == {"a\nb"}


@pytest.mark.slow
@pytest.mark.parametrize("character", ["\x00", "\x1b", "\u202e", "\u2066", "\u200f", "\ufffe"])
def test_a_control_character_is_named(tmp_path: Path, character: str) -> None:
    named = f"a[U+{ord(character):04X}]b"
    assert set(through_the_command(tmp_path, f"a{character}b")["records"]["host"]) == {named}


def through_the_command(tmp_path: Path, host: str) -> Mapping[str, pd.DataFrame]:
    """The tables of two records measured on `host` that name it, as `dpscale tables` writes them."""
    values = {**VALUES, "strategies": ["single"], "gpus": [1], "batch_per_gpu": [32], "strong_scaling_global_batch": []}
    study = Study(values)
    for cell in timing_cells(study):
        record = timing_record(cell, study.settings, [1.0, 1.1])
        record["hardware"]["host"] = host
        write(tmp_path, cell, record)
    (tmp_path / "study.json").write_text(json.dumps(values))
    arguments = ["--study", f"{tmp_path}/study.json", "--results", str(tmp_path), "--out", str(tmp_path)]
    CliRunner().invoke(main, ["tables", *arguments], catch_exceptions=False, standalone_mode=False)
    return {name: read_table(tmp_path / f"{name}.csv") for name in ("records", "environments")}


def test_whole_numbers_stay_whole_in_the_csv(tmp_path: Path) -> None:
    tables = measured(tmp_path, oom=[("dp", 2, 32)])
    lines = tables["times"].to_csv(index=False).splitlines()
    steps = lines[0].split(",").index("steps_per_epoch")
    assert {line.split(",")[steps] for line in lines[1:]} == {"", "782", "391", "196", "1563"}


def test_cells_that_failed_are_told_from_those_never_tried(tmp_path: Path) -> None:
    log = tmp_path / "logs/cells/ddp/gpus-2/batch-32/run-2.log"
    log.parent.mkdir(parents=True)
    log.write_text("12:00:00 warm-up epoch 1\nError: stopped after 5 s\n")
    tables = measured(tmp_path, skip=[("ddp", 2, 32), ("dp", 2, 32)])
    missing = tables["missing"].set_index("path")
    assert len(missing) == 4
    failed = missing.loc["cells/ddp/gpus-2/batch-32/run-2.json"]
    assert (failed["status"], failed["reason"]) == ("failed", "Error: stopped after 5 s")
    assert failed["log"] == f"{log}:\n12:00:00 warm-up epoch 1\nError: stopped after 5 s"
    assert sorted(missing["status"]) == ["failed", "missing", "missing", "missing"]
    times = tables["times"]
    assert row(times, "ddp", 2, 32)["status"] == "failed"
    assert row(times, "ddp", 2, 32)["reason"] == "Error: stopped after 5 s"
    assert (row(times, "dp", 2, 32)["status"], row(times, "dp", 2, 32)["reason"]) == ("missing", "no record yet")


def test_a_configuration_of_which_one_run_failed_keeps_the_other(tmp_path: Path) -> None:
    study = Study(VALUES)
    measured(tmp_path)
    failed = next(cell for cell in plan(study).timing if cell.configuration.strategy == "ddp" and cell.run == 2)
    (tmp_path / failed.path).unlink()
    log = (tmp_path / "logs" / failed.path).with_suffix(".log")
    log.parent.mkdir(parents=True)
    log.write_text("Error: stopped by SIGTERM\n")
    tables = build_tables(study, collect(tmp_path, expected_cells(study), study.settings))
    found = row(tables["times"], "ddp", 2, failed.configuration.batch_per_gpu)
    assert (found["status"], found["runs"], found["reason"]) == ("ok", 1, "run 2 failed")
    assert list(tables["missing"]["path"]) == [failed.path]


def test_a_complete_study_misses_nothing(tmp_path: Path) -> None:
    assert measured(tmp_path)["missing"].empty


def with_seen(record: dict[str, Any], **seen: Any) -> dict[str, Any]:
    """The record's scopes as if this was seen during their last epoch."""
    scopes = json.loads(json.dumps(record["scopes"]))
    for scope in scopes.values():
        scope["watched"][-1] |= seen
    return {"scopes": scopes}


def record_of(tables: Mapping[str, pd.DataFrame]) -> pd.Series:
    records = tables["records"]
    return records[(records["strategy"] == "ddp") & (records["batch_per_gpu"] == 32) & (records["run"] == 1)].iloc[0]


def seen(tmp_path: Path, **what: Any) -> pd.Series:
    """The row of a ddp record during whose last timed epoch this was seen."""
    study = Study(VALUES)
    cell = next(cell for cell in timing_cells(study) if cell.configuration == Configuration(*DDP))
    record = timing_record(cell, study.settings, [5.0, 5.05])
    return record_of(measured(tmp_path, changes={(*DDP, 1): with_seen(record, **what)}))


def test_what_was_seen_during_the_clock_stands_in_the_table_of_records(tmp_path: Path) -> None:
    gpus = [
        {**watched(1)["gpus"][0], "clock_event_reasons": reasons, "slowed_s": {"power": seconds, "thermal": 0.0}}
        for reasons, seconds in (([], 0.25), (["software power cap"], 1.5))
    ]
    host = {"busy_cores": 4.0, "stolen_cores": 0.4, "load_1min": 3.0}
    row = seen(tmp_path, gpus=gpus, host=host, other_processes=2)
    assert (row["slowed_s"], row["slowed_by"], row["throttle_reasons"]) == (1.5, "power", "software power cap")
    assert row["other_processes"] == 2
    assert row["stolen_share"] == pytest.approx(0.4 / 8)


def test_a_quiet_clock_and_one_that_nobody_watched_are_told_apart(tmp_path: Path) -> None:
    row = seen(tmp_path / "quiet")
    assert (row["slowed_s"], row["stolen_share"], row["other_processes"]) == (0, 0, 0)
    assert pd.isna(row["slowed_by"])
    unknown = {"clock_event_reasons": None, "slowed_s": None}
    row = seen(tmp_path / "blind", gpus=[{**watched(1)["gpus"][0], **unknown}] * 2, host=None)
    assert row["slowed_s"] == 0, "the first epoch was watched"


@pytest.mark.parametrize(("made", "told"), [(timing_record, None), (older_timing_record, "software power cap")])
def test_clocks_held_down_after_the_clock_speak_only_for_epochs_that_nobody_watched(
    tmp_path: Path, made: Callable[..., dict[str, Any]], told: str | None
) -> None:
    study = Study(VALUES)
    cell = next(cell for cell in timing_cells(study) if cell.configuration == Configuration(*DDP))
    record = made(cell, study.settings, [5.0, 5.05])
    record["sensors"]["after"] = [
        {**reading, "throttle_reasons": ["software power cap"]} for reading in record["sensors"]["before"]
    ]
    write(tmp_path, cell, record)
    row = record_of(build_tables(study, collect(tmp_path, expected_cells(study), study.settings)))
    assert (None if pd.isna(row["throttle_reasons"]) else row["throttle_reasons"]) == told


@pytest.mark.parametrize(("strategy", "processes"), [("single", 3), ("dp", 3), ("ddp", 6)])
def test_loader_processes_of_older_records_follow_from_their_settings(
    tmp_path: Path, strategy: str, processes: int
) -> None:
    values = {**VALUES, "scopes": ["compute", "end_to_end"], "runs": 1, "dataset": {"loader_workers": 3}}
    study = Study(values)
    for cell in timing_cells(study):
        write(tmp_path, cell, older_timing_record(cell, study.settings, [5.0, 5.05]))
    times = build_tables(study, collect(tmp_path, expected_cells(study), study.settings))["times"]
    rows = times[(times["strategy"] == strategy) & (times["batch_per_gpu"] == 32)].set_index("scope")
    assert rows.loc["end_to_end", "loader_processes"] == processes
    assert rows.loc["compute", "loader_processes"] == 0


def test_full_steps_decide_which_epochs_are_headlines(tmp_path: Path) -> None:
    tables = measured(tmp_path, {**VALUES, "dataset": {"images": 1280}})
    for name in ("times", "speedup", "communication", "bandwidth"):
        rows = tables[name][(tables[name]["strategy"] == "ddp") & (tables[name]["batch_per_gpu"].isin([32, 128]))]
        found = {row["batch_per_gpu"]: (row["full_steps_per_epoch"], row["is_headline"]) for _, row in rows.iterrows()}
        assert found == {32: (20, True), 128: (5, False)}, name

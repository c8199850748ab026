"""Blocks: what is set against what, and what happens where there is nothing to set it against."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from dpscale.analyse.tables import build_tables, expected_cells
from dpscale.plan.cells import AnyCell, TimingCell
from dpscale.plan.study import Study
from dpscale.present.study.page import render
from dpscale.records.collect import Collected, collect
from old_tables import read_table
from record_factory import Around, network_facts, older_timing_record, on_gpus, timing_record, write

VALUES: dict[str, Any] = {
    "study": "s", "strategies": ["single", "ddp"], "gpus": [1, 2], "batch_per_gpu": [64],
    "strong_scaling_global_batch": [128], "scopes": ["compute"], "runs": 3, "communication": {"runs": 0},
}  # fmt: skip
STUDY = Study(VALUES)
DDP_S, ALONE_S = 1.1, 2.0
Records = dict[TimingCell, dict[str, Any]]


def cells(study: Study = STUDY) -> list[TimingCell]:
    return [cell for cell in expected_cells(study) if isinstance(cell, TimingCell)]


def measured(
    alone: Mapping[int, Mapping[int, Around]] | None = None, study: Study = STUDY, with_single: bool = True
) -> Records:
    """Every run on GPUs of its own, 1 % slower than the one before; the runs of ddp with these baselines by batch."""
    records: Records = {}
    for cell in cells(study):
        configuration, factor = cell.configuration, 1 + 0.01 * cell.run
        if configuration.strategy == "single":
            if with_single:
                record = timing_record(cell, study.settings, [ALONE_S * factor] * 2)
                records[cell] = on_gpus(record, f"GPU-{cell.run}a")
            continue
        own = (alone or {}).get(cell.run)
        record = timing_record(cell, study.settings, [DDP_S * factor] * 2, own)
        records[cell] = on_gpus(record, f"GPU-{cell.run}a", f"GPU-{cell.run}b")
    return records


def tables_of(records: Records, study: Study = STUDY) -> Mapping[str, pd.DataFrame]:
    every: dict[AnyCell, Any] = {cell: record for cell, record in records.items()}  # noqa: C416  a wider type of key
    return build_tables(study, Collected(every, {}, {}, network_facts(study.settings)))


def weak(tables: Mapping[str, pd.DataFrame], name: str = "speedup", **where: Any) -> dict[str, Any]:
    table = tables[name]
    wanted = {"strategy": "ddp", "batch_per_gpu": 64, **({"scaling": "weak"} if "scaling" in table else {}), **where}
    (found,) = table[(table[list(wanted)] == pd.Series(wanted)).all(axis=1)].to_dict("records")
    return {str(key): value for key, value in found.items()}


def around(before_s: float, after_s: float) -> Around:
    return [before_s] * 2, [after_s] * 2


def in_jobs(drift: float = 0.0, batch: int = 64) -> dict[int, dict[int, Around]]:
    """A baseline of its own for every run, after by `drift` longer than before."""
    return {
        run: {batch: around(*(ALONE_S * (1 + 0.01 * run) * (1 + sign * drift / 2) for sign in (-1, 1)))}
        for run in (1, 2, 3)
    }


def test_a_run_with_its_own_baseline_is_a_block_by_itself() -> None:
    tables = tables_of(measured(in_jobs(drift=0.01), with_single=False))
    row = weak(tables)
    assert (row["status"], row["blocks"], row["runs_without_baseline"], row["drifted"]) == ("ok", 3, 0, 0)
    assert row["speedup"] == pytest.approx(ALONE_S / DDP_S)
    assert row["drift"] == pytest.approx(0.01)
    assert row["baseline_n"] == 3 * 4
    blocks = tables["blocks"][tables["blocks"]["scaling"] == "weak"]
    assert blocks["block"].tolist() == ["run 1", "run 2", "run 3"]
    assert set(blocks["baseline"]) == {"in job"}
    assert blocks["before_epoch_s"].tolist() == pytest.approx([ALONE_S * (1 + 0.01 * n) * 0.995 for n in (1, 2, 3)])


def test_its_own_baseline_goes_before_a_cell_on_the_same_gpu() -> None:
    records = measured(in_jobs())
    for cell, record in records.items():
        if cell.configuration.strategy == "single":
            record["scopes"]["compute"]["epoch_s"] = [9.0, 9.0]
    assert weak(tables_of(records))["speedup"] == pytest.approx(ALONE_S / DDP_S)


def test_a_strong_series_has_its_baseline_at_the_global_batch() -> None:
    own = {run: {**in_jobs()[run], 128: around(1.8, 1.8)} for run in (1, 2, 3)}
    row = weak(tables_of(measured(own)), scaling="strong")
    assert (row["status"], row["blocks"]) == ("ok", 3)
    assert row["baseline_epoch_s"] == pytest.approx(1.8)


def test_a_global_batch_that_no_gpu_holds_has_that_state() -> None:
    own = {run: {**in_jobs()[run], 128: None} for run in (1, 2, 3)}
    row = weak(tables_of(measured(own)), scaling="strong")
    assert row["status"] == "no baseline"
    assert "run 2: one GPU at batch 128 ran out of memory in its job" in row["reason"]
    assert pd.isna(row["speedup"])


def test_drift_of_every_run_is_said_and_nothing_is_left_out() -> None:
    tables = tables_of(measured(in_jobs(drift=0.05)))
    row = weak(tables)
    assert (row["status"], row["blocks"], row["drifted"]) == ("ok", 3, 3)
    assert row["speedup"] == pytest.approx(ALONE_S / DDP_S), "the mean of before and after"
    assert "one GPU alone drifted in run 1 by +5.0 %, run 2 by +5.0 %, run 3 by +5.0 %" in row["reason"]
    drifted = tables["counts"].set_index("what").loc["a baseline drifted"]
    assert (drifted["number"], drifted["of"]) == (3, 3)


@pytest.mark.parametrize("older", [False, True])
def test_runs_without_a_baseline_of_their_own_are_set_against_the_cell_on_their_gpu(older: bool) -> None:
    records = measured()
    if older:
        for cell, record in records.items():
            epoch_s = record["scopes"]["compute"]["epoch_s"]
            records[cell] = {**older_timing_record(cell, STUDY.settings, epoch_s), "hardware": record["hardware"]}
    tables = tables_of(records)
    row = weak(tables)
    assert (row["blocks"], row["speedup"]) == (3, pytest.approx(ALONE_S / DDP_S))
    assert row["speedup_low"] == pytest.approx(row["speedup_high"]), "servers drop out"
    assert pd.isna(row["drift"])
    assert set(tables["blocks"]["baseline"].dropna()) == {"own cells"}


def test_a_run_whose_gpu_has_no_baseline_is_left_out_and_counted() -> None:
    records = measured()
    for cell in list(records):
        if cell.configuration.strategy == "single" and cell.run == 2:
            records[cell] = on_gpus(records[cell], "GPU-elsewhere")
    tables = tables_of(records)
    row = weak(tables)
    assert (row["status"], row["blocks"], row["runs_without_baseline"]) == ("ok", 2, 1)
    assert "run 2 left out: one GPU at batch 64 was measured on no GPU that it used" in row["reason"]
    assert weak(tables, "times")["runs"] == 3, "its time counts"
    left_out = weak(tables, "blocks", status="no baseline")
    assert (left_out["block"], left_out["reason"]) == (
        "run 2",
        "one GPU at batch 64 was measured on no GPU that it used",
    )


def test_where_no_run_shares_a_gpu_nothing_is_borrowed() -> None:
    records = measured()
    for cell in list(records):
        if cell.configuration.strategy == "single":
            records[cell] = on_gpus(records[cell], f"GPU-elsewhere-{cell.run}")
    tables = tables_of(records)
    for name in ("speedup", "communication", "bandwidth"):
        row = weak(tables, name)
        assert (row["status"], row["blocks"], row["runs_without_baseline"]) == ("no baseline", 0, 3)
        assert "run 3: one GPU at batch 64 was measured on no GPU that it used" in row["reason"]
    assert pd.isna(weak(tables)["speedup"])
    assert pd.isna(weak(tables, "communication")["communication_s"])


def test_runs_that_share_a_baseline_are_one_block() -> None:
    """They are not independent: two runs on one server, and one GPU alone was timed there once."""
    records = {
        cell: on_gpus(record, *[f"GPU-1{letter}" for letter in "ab"[: cell.configuration.gpus]])
        for cell, record in measured().items()
        if cell.configuration.strategy == "ddp" or cell.run == 1
    }
    row = weak(tables_of(records))
    assert (row["blocks"], row["runs_without_baseline"]) == (1, 0)
    assert row["baseline_epoch_s"] == pytest.approx(ALONE_S * 1.01)
    assert row["epoch_s"] == pytest.approx(DDP_S * 1.02)
    assert pd.isna(row["speedup_low"])


def test_on_a_cpu_runs_of_one_host_are_paired() -> None:
    study = Study({**VALUES, "device": "cpu", "strategies": ["single", "ddp"]})
    records: Records = {}
    for cell in cells(study):
        seconds = (ALONE_S if cell.configuration.strategy == "single" else DDP_S) * (1 + 0.01 * cell.run)
        records[cell] = on_gpus(timing_record(cell, study.settings, [seconds] * 2), host=f"laptop-{cell.run}")
    assert weak(tables_of(records, study))["blocks"] == 3


@pytest.mark.parametrize(("runs", "spread"), [(1, "none"), (2, "range"), (3, "interval")])
def test_one_run_two_runs_and_more(runs: int, spread: str) -> None:
    study = Study({**VALUES, "runs": runs})
    tables = tables_of(measured(in_jobs(), study), study)
    for name, figure in (("times", "epoch_s"), ("speedup", "speedup"), ("communication", "communication_s")):
        row = weak(tables, name)
        assert row["status"] == "ok"
        is_range = figure in str(row["ranges"]).split("; ")
        assert is_range is (spread == "range")
        assert pd.isna(row[f"{figure}_low"]) is (spread == "none")
    bandwidth = weak(tables, "bandwidth")
    assert bandwidth["status"] == ("ok" if spread == "interval" else "not resolvable")
    words = {"none": "one block", "range": "two blocks, 0.101 and 0.102 s", "interval": ""}
    assert words[spread] in (bandwidth["reason"] or "")
    assert pd.isna(bandwidth["bandwidth_gb_s_at_least"]), "two values bound nothing, and one does not either"
    claims = tables["counts"].set_index("what")
    assert claims.loc["bandwidth is not resolvable", "of"] == (1 if spread == "interval" else 0)


@pytest.mark.slow
@pytest.mark.parametrize(("runs", "words"), [(1, "[no interval: one run]"), (2, "[range of two runs: ")])
def test_the_page_says_what_stands_in_brackets(tmp_path: Path, runs: int, words: str) -> None:
    study = Study({**VALUES, "runs": runs})
    for cell, record in measured(in_jobs(), study).items():
        write(tmp_path, cell, record)
    found = build_tables(study, collect(tmp_path, expected_cells(study), study.settings))
    for name, table in found.items():
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    assert words in render(study.values, {name: read_table(tmp_path / f"{name}.csv") for name in found})


def test_records_of_two_versions_are_never_set_against_each_other() -> None:
    """One GPU was measured in version 1, ddp without a baseline in version 2."""
    records = measured()
    for cell, record in records.items():
        if cell.configuration.strategy == "single":
            older = older_timing_record(cell, STUDY.settings, [ALONE_S])
            records[cell] = {**older, "hardware": record["hardware"]}
    row = weak(tables_of(records))
    assert row["status"] == "no baseline"
    assert "was not measured in environment" in row["reason"]


def test_records_of_two_environments_are_never_set_against_each_other() -> None:
    records = measured()
    for cell, record in records.items():
        if cell.configuration.strategy == "single":
            record["software"]["nccl"] = "2.30.0"
    tables = tables_of(records)
    assert len(tables["environments"]) == 2
    assert weak(tables)["status"] == "no baseline"


def test_an_outlier_is_named_and_stays_in() -> None:
    study = Study({**VALUES, "runs": 6})
    records = measured(study=study)
    for cell, record in records.items():
        if cell.configuration.strategy == "ddp" and cell.run == 6:
            record["scopes"]["compute"]["epoch_s"] = [2.5, 2.5]
    tables = tables_of(records, study)
    times = weak(tables, "times")
    assert times["outliers"] == "run 6 (+1.2e+02 %)"
    assert times["runs"] == 6
    assert times["epoch_s_high"] > 1.5
    runs = tables["runs"][tables["runs"]["strategy"] == "ddp"]
    assert runs["is_outlier"].tolist() == [False] * 5 + [True]
    assert runs["server"].tolist() == [1, 2, 3, 4, 5, 6]

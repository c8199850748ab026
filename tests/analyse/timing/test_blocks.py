"""Blocks: what is set against what, and what happens where there is nothing to set it against."""

import math
from collections.abc import Mapping
from math import isnan
from typing import Any

import pytest

from dpscale.analyse.tables import build_tables
from dpscale.plan.cells import AnyCell, TimingCell
from dpscale.plan.plan import expected_cells
from dpscale.plan.study import Study
from dpscale.tables.tables import Tables
from dpscale.tables.timing import SpeedupRow
from record_factory import Around, collected_of, network_facts, older_timing_record, on_gpus, timing_record
from rows import one, picked

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


def tables_of(records: Records, study: Study = STUDY) -> Tables:
    every: dict[AnyCell, Any] = {cell: record for cell, record in records.items()}  # noqa: C416  a wider type of key
    return build_tables(study, collected_of(every, network_facts(study.settings)))


DDP = {"strategy": "ddp", "batch_per_gpu": 64}


def speedup(tables: Tables, scaling: str = "weak") -> SpeedupRow:
    return one(tables.speedup, scaling=scaling, **DDP)


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
    row = speedup(tables)
    assert (row.status, row.blocks, row.drifted) == ("ok", 3, 0)
    before_and_after = math.sqrt((1 - 0.005) * (1 + 0.005))
    assert row.speedup.value == pytest.approx(ALONE_S * before_and_after / DDP_S), "their geometric mean"
    assert row.drift == pytest.approx(0.01)
    blocks = picked(tables.blocks, scaling="weak")
    assert [(block.block, block.baseline) for block in blocks] == [(f"run {run}", "same run") for run in (1, 2, 3)]
    assert [block.drift for block in blocks] == pytest.approx([0.01] * 3)


def test_all_jobs_of_a_block_that_timed_one_gpu_are_its_baseline_and_each_counts_once() -> None:
    """A job of one GPU, and those of two strategies; one timed three epochs, the others two."""
    study = Study({**VALUES, "strategies": ["single", "dp", "ddp"], "runs": 1})
    records: Records = {}
    for cell in cells(study):
        alone = {"dp": {64: around(2.2, 2.2)}, "ddp": {64: around(2.4, 2.4)}}.get(cell.configuration.strategy)
        epoch_s = [DDP_S] * 2 if alone else [1.8] * 3
        records[cell] = on_gpus(timing_record(cell, study.settings, epoch_s, alone), *GPUS[: cell.configuration.gpus])
    tables = tables_of(records, study)
    expected_s = (1.8 * 2.2 * 2.4) ** (1 / 3)
    for block in picked(tables.blocks, scaling="weak"):
        assert block.baseline_epoch_s == pytest.approx(expected_s)
    for row in picked(tables.speedup, scaling="weak"):
        assert (row.blocks, row.other_runs) == (1, False)
        assert row.speedup.value == pytest.approx(expected_s / DDP_S)
    assert one(tables.times, strategy="single", batch_per_gpu=64).epoch_s.value == pytest.approx(expected_s)


GPUS = ("GPU-a", "GPU-b")


def test_a_strong_series_has_its_baseline_at_the_global_batch_in_the_block() -> None:
    """Three jobs of a run timed one GPU at the global batch: ddp at 64 and at 128, and one of one GPU."""
    study = Study({**VALUES, "batch_per_gpu": [64, 128]})
    own = {run: {**in_jobs()[run], 128: around(1.8, 1.8)} for run in (1, 2, 3)}
    row = speedup(tables_of(measured(own, study), study), "strong")
    assert (row.status, row.blocks) == ("ok", 3)
    slower = [1 + 0.01 * run for run in (1, 2, 3)]
    expected = [(1.8 * 1.8 * ALONE_S * factor) ** (1 / 3) / (DDP_S * factor) for factor in slower]
    assert list(row.speedup.blocks.values()) == pytest.approx(expected)
    assert row.epoch_s.value * row.speedup.value == pytest.approx(row.baseline_epoch_s.value)


def test_drift_of_every_run_is_said_and_nothing_is_left_out() -> None:
    tables = tables_of(measured(in_jobs(drift=0.05)))
    row = speedup(tables)
    assert (row.status, row.blocks, row.drifted) == ("ok", 3, 3)
    assert "one device alone drifted in run 1 by +5.0 %, run 2 by +5.0 %, run 3 by +5.0 %" in row.reason
    drifted = one(tables.counts, claim="a baseline drifted")
    assert (drifted.number, drifted.asked) == (3, 3)


@pytest.mark.parametrize("older", [False, True])
def test_runs_without_a_baseline_of_their_own_are_set_against_the_cell_on_their_gpu(older: bool) -> None:
    records = measured()
    if older:
        for cell, record in records.items():
            epoch_s = record["scopes"]["compute"]["epoch_s"]
            records[cell] = {**older_timing_record(cell, STUDY.settings, epoch_s), "hardware": record["hardware"]}
    tables = tables_of(records)
    row = speedup(tables)
    assert row.blocks == 3
    assert row.speedup.value == pytest.approx(ALONE_S / DDP_S)
    assert row.speedup.low == pytest.approx(row.speedup.high), "servers drop out"
    assert isnan(row.drift)
    assert {block.baseline for block in picked(tables.blocks, status="ok")} == {"same run"}


def test_epochs_of_version_1_are_without_the_barrier_that_was_in_their_clock() -> None:
    """Every process's own clock stopped before it: 0.1 s of each epoch was waiting for the others."""
    records = measured()
    for cell, record in records.items():
        older = older_timing_record(cell, STUDY.settings, record["scopes"]["compute"]["epoch_s"])
        scope = older["scopes"]["compute"]
        scope["rank_epoch_s"] = [[seconds - 0.1, seconds - 0.2] for seconds in scope["epoch_s"]]
        records[cell] = {**older, "hardware": record["hardware"]}
    tables = tables_of(records)
    for run in picked(tables.runs, **DDP):
        assert run.epoch_s == pytest.approx(DDP_S * (1 + 0.01 * run.run) - 0.1)
    times = one(tables.times, **DDP)
    assert times.first_timed_epoch_s == pytest.approx(DDP_S * 1.02 - 0.1)
    assert times.epoch_s.high < DDP_S


ELSEWHERE = "one device alone at batch 64 was not measured on its server"


def with_single_elsewhere(*runs: int) -> Tables:
    records = measured()
    for cell, record in records.items():
        if cell.configuration.strategy == "single" and cell.run in runs:
            records[cell] = on_gpus(record, f"GPU-elsewhere-{cell.run}")
    return tables_of(records)


def test_a_run_whose_gpu_has_no_baseline_is_left_out_and_named() -> None:
    tables = with_single_elsewhere(2)
    row = speedup(tables)
    assert (row.status, row.blocks) == ("ok", 2)
    assert f"run 2 left out: {ELSEWHERE}" in row.reason
    assert one(tables.times, **DDP).runs == 3, "its time counts"
    left_out = one(tables.blocks, status="no baseline", scaling="weak", **DDP)
    assert (left_out.block, left_out.reason) == ("run 2", ELSEWHERE)


def test_a_mark_says_that_the_printed_times_are_of_other_runs() -> None:
    """One GPU was timed in three runs, and one of them was on a server without ddp; so ddp has two blocks."""
    everywhere, elsewhere = speedup(tables_of(measured())), with_single_elsewhere(2)
    assert (everywhere.blocks, everywhere.other_runs) == (3, False)
    row, times = speedup(elsewhere), one(elsewhere.times, **DDP)
    assert (row.blocks, row.other_runs) == (2, True)
    assert row.speedup.value == pytest.approx(row.baseline_epoch_s.value / row.epoch_s.value, rel=1e-12)
    assert times.epoch_s.value == pytest.approx(DDP_S * (1.01 * 1.02 * 1.03) ** (1 / 3)), "all of its runs"
    alone, together = (one(elsewhere.answer, gpus=gpus) for gpus in (1, 2))
    assert together.other_runs and together.epoch_s == times.epoch_s, "the answer has the times of the table"
    assert alone.epoch_s == one(elsewhere.times, strategy="single", batch_per_gpu=64).epoch_s
    communication = one(elsewhere.communication, **DDP)
    assert communication.other_runs and one(elsewhere.bandwidth, **DDP).other_runs
    assert communication.compute_s == pytest.approx(row.baseline_epoch_s.value / 2)
    assert communication.compute_s + communication.communication_s.value == pytest.approx(communication.epoch_s)


def test_runs_that_share_a_baseline_are_one_block() -> None:
    """They are not independent: three runs on one server, and one GPU alone was timed there once."""
    records = {
        cell: on_gpus(record, *[f"GPU-1{letter}" for letter in "ab"[: cell.configuration.gpus]])
        for cell, record in measured().items()
        if cell.configuration.strategy == "ddp" or cell.run == 1
    }
    row = speedup(tables_of(records))
    assert (row.blocks, row.speedup.kind) == (1, "one run")
    assert row.baseline_epoch_s.value == pytest.approx(ALONE_S * 1.01)
    assert row.epoch_s.value == pytest.approx(DDP_S * (1.01 * 1.02 * 1.03) ** (1 / 3))
    assert row.other_runs is False, "one server: the quotient of the printed times is the speedup"


@pytest.mark.parametrize(
    ("runs", "kind", "reason"),
    [(1, "one run", "no interval: one run"), (2, "two machines", "no interval: 2 machines"), (3, "interval", "")],
)
def test_one_run_two_runs_and_more(runs: int, kind: str, reason: str) -> None:
    study = Study({**VALUES, "runs": runs})
    tables = tables_of(measured(in_jobs(), study), study)
    times, communication = one(tables.times, **DDP), one(tables.communication, **DDP)
    assert {times.status, speedup(tables).status, communication.status} == {"ok"}
    assert {times.epoch_s.kind, speedup(tables).speedup.kind, communication.communication_s.kind} == {kind}
    bandwidth = one(tables.bandwidth, **DDP)
    assert bandwidth.status == ("ok" if kind == "interval" else "not resolvable")
    assert reason in bandwidth.reason
    assert isnan(bandwidth.bandwidth_gb_s_at_least), "one value bounds nothing, nor do two"
    assert one(tables.counts, claim="communication takes time").asked == (kind == "interval")

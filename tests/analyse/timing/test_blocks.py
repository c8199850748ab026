"""Blocks: what is set against what, and what happens where there is nothing to set it against.

`test_recomputed` has their figures, of recorded studies.
"""

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
from made_study import THREE_RUNS
from record_factory import Around, collected_of, network_facts, on_server, timing_record
from rows import one

VALUES = {
    **THREE_RUNS, "strategies": ["single", "ddp"], "batch_per_gpu": [64], "strong_scaling_global_batch": [],
}  # fmt: skip
STUDY = Study(VALUES)
DDP_S, ALONE_S = 1.1, 2.0
Records = dict[AnyCell, dict[str, Any]]


def measured(baselines: Mapping[int, Around] | None = None, study: Study = STUDY, with_single: bool = True) -> Records:
    """Return every run on GPUs of its own, 1 % slower than the one before; runs of ddp have these baselines, if any."""
    records: Records = {}
    for cell in expected_cells(study):
        assert isinstance(cell, TimingCell)
        run, is_single = cell.run, cell.configuration.strategy == "single"
        if is_single and not with_single:
            continue
        epoch_s = (ALONE_S if is_single else DDP_S) * (1 + 0.01 * run)
        own_baseline = {64: baselines[run]} if baselines and not is_single else None
        record = timing_record(cell, study.settings, [epoch_s] * 2, own_baseline)
        records[cell] = on_server(record, run)
    return records


def tables_of(records: Records, study: Study = STUDY) -> Tables:
    return build_tables(study, collected_of(records, network_facts(study.settings)))


DDP = {"strategy": "ddp", "batch_per_gpu": 64}


def speedup(tables: Tables) -> SpeedupRow:
    return one(tables.speedup, **DDP)


def in_jobs(drift: float = 0.0) -> dict[int, Around]:
    """Return a baseline for every run, after it by `drift` longer than before."""
    baselines: dict[int, Around] = {}
    for run in (1, 2, 3):
        before_s, after_s = (ALONE_S * (1 + 0.01 * run) * (1 + sign * drift / 2) for sign in (-1, 1))
        baselines[run] = ([before_s] * 2, [after_s] * 2)
    return baselines


def test_a_run_with_its_own_baseline_is_a_block_by_itself() -> None:
    tables = tables_of(measured(in_jobs(drift=0.05), with_single=False))
    row = speedup(tables)
    assert (row.status, row.blocks) == ("ok", 3)
    before_and_after = math.sqrt((1 - 0.025) * (1 + 0.025))
    assert row.speedup.value == pytest.approx(ALONE_S * before_and_after / DDP_S), "their geometric mean"
    assert [block.block for block in tables.blocks] == ["run 1", "run 2", "run 3"]
    assert [block.drift for block in tables.blocks] == pytest.approx([0.05] * 3, rel=0.1)
    drifted = one(tables.counts, claim="a baseline drifted")
    assert (drifted.number, drifted.asked) == (3, 3), "and nothing is left out"


def test_a_run_whose_gpu_has_no_baseline_is_left_out_and_the_figures_have_a_mark() -> None:
    """One GPU was timed in three runs, and one of them was on a server without ddp; so ddp has two blocks."""
    records = measured()
    assert not speedup(tables_of(records)).other_runs
    for cell, record in records.items():
        if (record["cell"]["gpus"], record["cell"]["run"]) == (1, 2):
            records[cell] = on_server(record, "elsewhere")
    tables = tables_of(records)
    row, times = speedup(tables), one(tables.times, **DDP)
    assert (row.status, row.blocks, row.other_runs) == ("ok", 2, True)
    assert "run 2 left out: one device alone at batch 64 was not measured on its server" in row.reason
    assert [block.block for block in tables.blocks] == ["run 1", "run 3"]
    assert row.speedup.value == pytest.approx(row.baseline_epoch_s.value / row.epoch_s.value, rel=1e-12)
    assert times.epoch_s.value == pytest.approx(DDP_S * (1.01 * 1.02 * 1.03) ** (1 / 3)), "all of its runs"
    communication = one(tables.communication, **DDP)
    assert communication.other_runs and one(tables.bandwidth, **DDP).other_runs
    assert communication.compute_s == pytest.approx(row.baseline_epoch_s.value / 2)


def test_a_run_without_a_baseline_takes_the_nearest_on_its_server() -> None:
    """Runs an hour apart. Two that share one are not independent: they are one block."""
    kept: Records = {}
    for cell, record in measured().items():
        run = record["cell"]["run"]
        if cell.gpus == 2 or run < 3:
            record |= dict.fromkeys(("started_at", "finished_at"), f"2026-01-01T0{run}:00:00+00:00")
            kept[cell] = on_server(record, 1)
    assert [*speedup(tables_of(kept)).speedup.blocks.values()] == pytest.approx(
        [ALONE_S / DDP_S, ALONE_S * 1.02 / (DDP_S * math.sqrt(1.02 * 1.03))]
    )


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

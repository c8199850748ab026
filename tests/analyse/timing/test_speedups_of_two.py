"""Speedups of two servers: which of them borrow the spread of other configurations, and from which.

`test_recomputed` has those of recorded studies, tests/formulas/test_two_servers.py the cases in which nothing is lent.
"""

from typing import Any

import numpy as np
import pytest

from dpscale.analyse.tables import build_tables
from dpscale.formulas.figure import UNEVEN
from dpscale.plan.cells import AnyCell, TimingCell
from dpscale.plan.plan import expected_cells
from dpscale.plan.study import Study
from dpscale.tables.tables import Tables
from dpscale.tables.timing import SpeedupRow
from record_factory import collected_of, network_facts, on_gpus, timing_record
from rows import one, picked

VALUES: dict[str, Any] = {
    "study": "s", "strategies": ["single", "dp", "ddp"], "gpus": [1, 2], "batch_per_gpu": [32, 128, 4096],
    "strong_scaling_global_batch": [128], "scopes": ["compute", "end_to_end"], "runs": 2, "communication": {"runs": 0},
}  # fmt: skip
STUDY = Study(VALUES)
DDP: dict[str, Any] = {"strategy": "ddp", "batch_per_gpu": 32, "scope": "compute", "scaling": "weak"}
# The weak configurations on two GPUs with ten full steps, dp and ddp at 32 and 128, less one; in both scopes.
OTHERS = 2 * (2 * 2 - 1)


def tables_of() -> Tables:
    """Return the tables of two servers, which differ by another share in every configuration. All steps are uneven."""
    records: dict[AnyCell, Any] = {}
    for number, cell in enumerate(expected_cells(STUDY)):
        assert isinstance(cell, TimingCell)
        seconds = 2.0 * (1 + 0.01 * number if cell.run == 2 and cell.gpus > 1 else 1)
        record = timing_record(cell, STUDY.settings, [seconds] * 2)
        for scope in record["scopes"].values():
            middle_s = scope["step_s_median"][0]
            scope["step_s_quartiles"] = [[middle_s * (1 - UNEVEN), middle_s * (1 + UNEVEN)]] * 2
        records[cell] = on_gpus(record, *[f"GPU-{cell.run}-{gpu}" for gpu in range(cell.gpus)])
    return build_tables(STUDY, collected_of(records, network_facts(STUDY.settings)))


def spread(row: SpeedupRow) -> float:
    """Return the variance of its two logarithms."""
    return float(np.var(np.log(list(row.speedup.blocks.values())), ddof=1))


def test_a_weak_speedup_of_uneven_steps_borrows_from_both_scopes() -> None:
    tables = tables_of()
    row = one(tables.speedup, **DDP)
    weak = [other for other in picked(tables.speedup, scaling="weak") if other.is_headline]
    others = [other for other in weak if (other.strategy, other.batch_per_gpu) != ("ddp", 32)]
    assert (row.servers, row.borrowed_from, len(others)) == (2, OTHERS, OTHERS)
    reach = 4.302653 * np.sqrt((spread(row) + np.mean([spread(other) for other in others])) / 2 / 2)
    assert row.speedup.interval == pytest.approx(row.speedup.value * np.exp([-reach, reach]), rel=1e-5)
    assert row.efficiency.interval == pytest.approx([end / 2 for end in row.speedup.interval])
    assert row.speedup_from_steps.kind == "interval"
    assert row.baseline_epoch_s.kind == row.epoch_s.kind == "two machines", "times borrow nothing"
    communication = one(tables.communication, strategy="ddp", batch_per_gpu=32)
    alone_s = row.baseline_epoch_s.value
    assert communication.communication_s.interval == pytest.approx(
        [alone_s * (1 / end - 1 / 2) for end in reversed(row.speedup.interval)]
    )


def test_a_strong_speedup_borrows_nothing_and_few_steps_lend_nothing() -> None:
    tables = tables_of()
    for row in picked(tables.speedup, scaling="strong"):
        assert (row.speedup.kind, row.borrowed_from) == ("two machines", 0)
    few = picked(tables.speedup, scaling="weak", batch_per_gpu=4096)
    assert {row.is_headline for row in few} == {False}
    assert {row.borrowed_from for row in few} == {2 * 2 * 2}, "both strategies at two batches, in two scopes"

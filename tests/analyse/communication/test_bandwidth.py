"""Bandwidth: of the bytes that a strategy sends, inferred, and beside the one measured alone."""

from dataclasses import replace
from math import isnan
from pathlib import Path
from typing import Any

import pytest

from dpscale.analyse.tables import build_tables
from dpscale.errors import StrategyError
from dpscale.plan.cells import TimingCell
from dpscale.plan.study import Study
from dpscale.strategies import known
from dpscale.strategies.strategy import NetworkSize
from dpscale.tables.communication import BandwidthRow
from made_study import DDP, THREE_RUNS, collected, h200_tables, measured, study
from record_factory import timing_record
from rows import one

STUDY = study()
GRADIENT_BYTES = 44_695_848
DDP_4 = {"strategy": "ddp", "gpus": 4, "batch_per_gpu": 512}


def test_a_bandwidth_stands_beside_the_one_measured_alone() -> None:
    row = one(h200_tables().bandwidth, **DDP_4)
    ring_bytes = 1.5 * GRADIENT_BYTES
    assert row.bus_bandwidth_gb_s.value == pytest.approx(ring_bytes / (6 * 1e-5 + ring_bytes / 250e9) / 1e9)
    assert row.utilisation.value == pytest.approx(row.bandwidth_gb_s.value / row.bus_bandwidth_gb_s.value)
    assert row.utilisation.low < row.utilisation.value < row.utilisation.high


def off(tmp_path: Path, *off_s: float) -> BandwidthRow:
    """Two GPUs take half as long as one, but for so many seconds in every run."""
    settings = Study(THREE_RUNS).settings

    def change(cell: TimingCell, _: dict[str, Any]) -> dict[str, Any]:
        longer_s = off_s[cell.run - 1] if cell.gpus > 1 else 0.0
        return timing_record(cell, settings, [4.0 / cell.gpus + longer_s])

    return one(measured(tmp_path, THREE_RUNS, change=change).bandwidth, **DDP)


def test_a_bandwidth_that_cannot_be_told_is_neither_negative_nor_huge(tmp_path: Path) -> None:
    row = off(tmp_path, -0.01, 0.0, 0.02)
    assert (row.status, row.bandwidth_gb_s.is_known) == ("not resolvable", False)
    assert "not above zero" in row.reason
    bytes_per_epoch = row.allreduce_bytes_per_step * (row.steps_per_epoch or 0)
    assert row.bandwidth_gb_s_at_least == pytest.approx(bytes_per_epoch / row.communication_s.high / 1e9)
    below_zero = off(tmp_path, -0.101, -0.102, -0.103)
    assert "not above zero" in below_zero.reason
    assert isnan(below_zero.bandwidth_gb_s_at_least), "it bounds nothing"


def test_gradients_that_are_sent_in_half_the_bytes_are_counted_so() -> None:
    """Once, a study of bfloat16 gradients had twice the bandwidth that its links carried."""
    facts = NetworkSize(parameters=100, gradient_bytes=400)
    sent = {dtype: known.strategy("ddp").sent_bytes(2, facts, dtype) for dtype in ("float32", "bfloat16")}
    assert sent == {"float32": 400, "bfloat16": 200}
    assert known.strategy("dp").sent_bytes(2, facts, "bfloat16") == 400


def test_a_strategy_that_states_no_bytes_has_no_bandwidth(monkeypatch: pytest.MonkeyPatch) -> None:
    made_up = replace(known.STRATEGIES["ddp"], bytes_sent=None)
    monkeypatch.setattr(known, "STRATEGIES", {**known.STRATEGIES, "ddp": made_up})
    with pytest.raises(StrategyError, match="has no bytes"):
        build_tables(STUDY, collected(STUDY))

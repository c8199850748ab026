"""Bandwidth: of the bytes that a strategy sends, inferred, by the profiler, and beside the one measured alone."""

from collections.abc import Callable
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
from dpscale.strategies.strategy import Message, NetworkFacts, NetworkSize
from dpscale.tables.communication import BandwidthRow
from made_study import COMMUNICATION_S, DDP, THREE_RUNS, collected, h200_tables, measured, study
from record_factory import timing_record
from rows import one

STUDY = study()
GRADIENT_BYTES = 44_695_848
DDP_4 = {"strategy": "ddp", "gpus": 4, "batch_per_gpu": 512}


def test_bandwidth_three_ways() -> None:
    row = one(h200_tables().bandwidth, **DDP_4)
    ring_bytes = 1.5 * GRADIENT_BYTES
    assert row.bus_bandwidth_gb_s.value == pytest.approx(ring_bytes / (6 * 1e-5 + ring_bytes / 250e9) / 1e9)
    assert row.profiler_bandwidth_gb_s.value == pytest.approx(ring_bytes / (0.9 * COMMUNICATION_S["ddp"]) / 1e9)
    assert row.utilisation.value == pytest.approx(row.bandwidth_gb_s.value / row.bus_bandwidth_gb_s.value)
    assert row.utilisation.low < row.utilisation.value < row.utilisation.high
    assert isnan(row.root_link_bytes_per_step)


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


def sharded(monkeypatch: pytest.MonkeyPatch, bytes_sent: Callable[[int, NetworkSize], float] | None) -> BandwidthRow:
    """A strategy gathers weights for the forward and the backward pass, and reduces gradients to shards."""

    def messages(network: NetworkFacts) -> list[Message]:
        return [(operation, network.gradient_bytes) for operation in ("all_gather", "all_gather", "reduce_scatter")]

    names = dict.fromkeys(("all_gather", "reduce_scatter"), "shard")
    made_up = replace(known.STRATEGIES["ddp"], messages_of_step=messages, message_names=names, bytes_sent=bytes_sent)
    monkeypatch.setattr(known, "STRATEGIES", {**known.STRATEGIES, "ddp": made_up})
    return one(build_tables(STUDY, collected(STUDY)).bandwidth, **DDP_4)


def test_the_bandwidth_of_a_strategy_is_of_its_own_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three times (N-1)/N of the weights, where the allreduce of a ring sends twice as much."""
    row = sharded(monkeypatch, lambda gpus, network: 3 * (gpus - 1) / gpus * network.gradient_bytes)
    assert row.allreduce_bytes_per_step == 2.25 * GRADIENT_BYTES
    per_epoch_gb = 2.25 * GRADIENT_BYTES * -(-50_000 // 2048) / 1e9
    assert row.bandwidth_gb_s.value == pytest.approx(per_epoch_gb / row.communication_s.value)


def test_a_strategy_that_states_no_bytes_has_no_bandwidth(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StrategyError, match="has no bytes"):
        sharded(monkeypatch, None)

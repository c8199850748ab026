"""Communication estimated in four ways, from records whose communication is known exactly; and the bandwidth that is
inferred from it, beside the one measured alone."""

from dataclasses import replace
from math import isnan, nan
from pathlib import Path
from typing import Any

import pytest

from dpscale.analyse.tables import build_tables
from dpscale.errors import StrategyError
from dpscale.plan.cells import CommunicationCell, Configuration, TimingCell
from dpscale.plan.study import Study
from dpscale.schemas.settings import WholeStepSettings
from dpscale.strategies import known
from dpscale.strategies.strategy import NetworkSize
from dpscale.tables.communication import BandwidthRow
from dpscale.tables.tables import Tables
from made_study import (
    COMMUNICATION_S,
    DDP,
    EXPOSED_S,
    THREE_RUNS,
    collected,
    h200_tables,
    measured,
    records_of,
    step_s,
    study,
)
from record_factory import collected_of, network_facts, timing_record, typed_facts
from rows import one

STUDY = study()
GRADIENT_BYTES = 44_695_848
# Copies and collectives of dp: latencies, and bytes of weights, gradients and buffers.
DP_COLLECTIVES_S = (7 + 5) * 1e-5 + (2 * GRADIENT_BYTES + 38_560) / 250e9
DDP_4 = {"strategy": "ddp", "gpus": 4, "batch_per_gpu": 512}
DP_4 = {**DDP_4, "strategy": "dp"}


@pytest.fixture(scope="module")
def tables() -> Tables:
    return h200_tables()


@pytest.mark.parametrize(("strategy", "gpus", "batch"), [("ddp", 4, 512), ("dp", 2, 32)])
def test_each_estimate_finds_what_it_is_defined_to_contain(
    tables: Tables, strategy: str, gpus: int, batch: int
) -> None:
    row = one(tables.communication, strategy=strategy, gpus=gpus, batch_per_gpu=batch)
    subtraction_s = step_s(strategy, gpus, batch) - step_s("single", 1, batch)
    expected = {
        "communication_step_s": subtraction_s,
        "profiler_step_s": COMMUNICATION_S[strategy],
        "profiler_exposed_step_s": EXPOSED_S[strategy],
        "slower_computing_step_s": 0.05 * step_s(strategy, gpus, batch),
    }
    of_ddp = {
        "profiler_least_step_s": 0.9 * COMMUNICATION_S["ddp"],
        "ablation_step_s": EXPOSED_S["ddp"],
    }
    expected |= of_ddp if strategy == "ddp" else dict.fromkeys(of_ddp, nan)
    assert {name: getattr(row, name).value for name in expected} == pytest.approx(expected, nan_ok=True)
    for figure in (row.profiler_step_s, row.isolated_step_s):
        assert figure.low <= figure.value <= figure.high
    assert row.compute_s + row.communication_s.value == pytest.approx(row.epoch_s)


def test_the_isolated_floor_of_ddp_is_its_three_buckets_and_its_buffers(tables: Tables) -> None:
    """2 (N-1) latencies and 2 (N-1)/N of the bytes, each; and one latency and the bytes of the broadcast."""
    buckets_s = 3 * 6 * 1e-5 + 1.5 * GRADIENT_BYTES / 250e9
    floor = one(tables.communication, **DDP_4).isolated_step_s
    assert floor.value == pytest.approx(buckets_s + 1e-5 + 38_560 / 250e9)


@pytest.mark.parametrize("sample_bytes", [(12_288, 40), (1000, 24)], ids=["built in", "of a file"])
def test_dataparallel_also_moves_images_from_and_to_its_first_gpu(
    sample_bytes: tuple[int, int],
) -> None:
    sent, returned = sample_bytes
    facts = typed_facts(STUDY.settings, input_bytes_per_image=sent, output_bytes_per_image=returned)
    tables = build_tables(STUDY, replace(collected(STUDY), network=facts))
    images_bytes = 3 * 512 * (sent + returned)
    floor = one(tables.communication, **DP_4).isolated_step_s
    assert floor.value == pytest.approx(DP_COLLECTIVES_S + images_bytes * 1e-3 / 2**28)


def test_mfu_is_work_over_peak(tables: Tables) -> None:
    row = one(tables.times, **DDP_4)
    assert row.mfu.value == pytest.approx(3_328_997_376 * 50_000 / 0.591 / (4 * 494.5e12), rel=1e-6)
    assert row.mfu.low < row.mfu.value < row.mfu.high


def test_a_profiler_that_changes_the_step_gives_no_exposed_communication() -> None:
    records = records_of(STUDY)
    for cell, record in records.items():
        if isinstance(cell, CommunicationCell) and cell.configuration == Configuration("ddp", 4, 512):
            for block in record["profile"]["blocks"]:
                block["step_s"] = 1.06 * max(record["steps"]["variants"]["training"]["step_s"])
    changed = build_tables(STUDY, collected_of(records, network_facts(STUDY.settings)))
    row = one(changed.communication, **DDP_4)
    assert row.profiler == "distorts"
    assert not row.profiler_exposed_step_s.is_known and not row.slower_computing_step_s.is_known


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
    settings = {dtype: WholeStepSettings(ddp_gradient_dtype=dtype) for dtype in ("float32", "bfloat16")}
    sent = {dtype: known.strategy("ddp").sent_bytes(2, facts, settings[dtype]) for dtype in settings}
    assert sent == {"float32": 400, "bfloat16": 200}
    assert known.strategy("dp").sent_bytes(2, facts, settings["bfloat16"]) == 400


def test_a_strategy_that_states_no_bytes_has_no_bandwidth(monkeypatch: pytest.MonkeyPatch) -> None:
    made_up = replace(known.STRATEGIES["ddp"], bytes_sent=None)
    monkeypatch.setattr(known, "STRATEGIES", {**known.STRATEGIES, "ddp": made_up})
    with pytest.raises(StrategyError, match="has no bytes"):
        build_tables(STUDY, collected(STUDY))

"""Communication estimated in four ways, from records whose communication is known exactly."""

from dataclasses import replace
from math import nan

import pytest

from dpscale.analyse.tables import build_tables
from dpscale.plan.cells import CommunicationCell, Configuration
from dpscale.tables.tables import Tables
from made_study import COMMUNICATION_S, EXPOSED_S, collected, h200_tables, records_of, step_s, study
from record_factory import collected_of, network_facts, typed_facts
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
    assert (row.profiler, row.profiler_exposed_step_s.is_known) == ("distorts", False)

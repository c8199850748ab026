"""networks.csv and roofline.csv: other networks beside the study's own, and the work of a step beside what the chip can
do, from records whose times are known."""

from typing import Any

import pytest

from dpscale.analyse.tables import build_tables
from dpscale.plan.cells import AnyCell, StepCell, VariantCell
from dpscale.plan.study import Study
from dpscale.records.files import JsonRecord
from dpscale.tables.tables import Tables
from made_study import records_of
from record_factory import collected_of, network_facts

STUDY = Study({
    "study": "s", "gpus": [1, 2], "strategies": ["single", "ddp"], "batch_per_gpu": [32, 128], "scopes": ["compute"],
    "baseline": "own_cells", "communication": {"runs": 0}, "dataset": {"images": 640},
    "variants": {
        "half": {"precision": "bfloat16", "batch_per_gpu": [32]}, "wide": {"width": 128, "batch_per_gpu": [32]},
    },
})  # fmt: skip
# Epoch seconds of one GPU and of two.
EPOCHS_S = {"base": (8.0, 4.8), "half": (2.0, 1.5), "wide": (24.0, 12.5)}
# H200 gives 494.5 TFLOP/s in TF32 and 989.5 in bfloat16 at 4,800 GB/s: the ridges are at 103 and 206 FLOP per byte.
FLOP = 4e13


def name_of(cell: StepCell) -> str:
    return cell.variant if isinstance(cell, VariantCell) else "base"


def of_network(cell: StepCell, record: JsonRecord) -> JsonRecord:
    parameters = 4_000 if name_of(cell) == "wide" else 1_000
    parts = ("weights_bytes", "gradients_bytes", "optimiser_bytes", "saved_bytes")
    work = {"flop": int(FLOP), "moved_bytes": int(FLOP / 200)} if cell.gpus == 1 else None
    memory = {**dict.fromkeys(parts, 4 * parameters), "allocated": None, "work": work}
    size = {"parameters": parameters, "gradient_bytes": 4 * parameters}
    return {**record, "network": size, "memory": [memory] * cell.gpus}


@pytest.fixture(scope="module")
def tables() -> Tables:
    def epoch_s(cell: Any) -> list[float]:
        return [EPOCHS_S[name_of(cell)][cell.gpus - 1]]

    records: dict[AnyCell, JsonRecord] = records_of(STUDY, of_network, epoch_s)
    return build_tables(STUDY, collected_of(records, network_facts(STUDY.settings)))


def test_every_network_is_compared_with_itself_on_one_gpu(tables: Tables) -> None:
    base, wide = tables.networks
    assert [(row.variant, row.strategy, row.gpus, row.batch_per_gpu) for row in (base, wide)] == [
        ("base", "ddp", 2, 32), ("wide", "ddp", 2, 32),
    ]  # fmt: skip
    assert (base.speedup.value, wide.speedup.value) == pytest.approx((8 / 4.8, 24 / 12.5))
    # 20 steps of one GPU, 10 of two.
    assert wide.communication_step_s.value == pytest.approx(12.5 / 10 - 24 / 20)
    assert (wide.parameters, wide.gradient_bytes, wide.peak_memory_bytes) == (4_000, 16_000, 1e9)


def test_a_network_is_not_among_the_ways_to_use_a_gpu(tables: Tables) -> None:
    assert {row.variant for row in tables.variants} == {"base", "half"}
    assert {row.variant for row in tables.runs} == {"", "half", "wide"}


def test_memory_is_expected_of_the_network_alone_whose_facts_are_there(tables: Tables) -> None:
    known = {row.variant for row in tables.memory if row.expected_bytes > 0}
    assert known == {"base", "half"} and "wide" in {row.variant for row in tables.memory}


def test_a_step_is_beside_the_roof_of_its_precision_at_its_intensity(tables: Tables) -> None:
    rows = {(row.variant, row.batch_per_gpu): row for row in tables.roofline}
    assert {variant for variant, _ in rows} == {"base", "half", "wide"}
    base, half = rows["base", 32], rows["half", 32]
    assert base.intensity == half.intensity == 200
    # Beyond the ridge of TF32, and before that of bfloat16.
    assert (base.roof_flop_per_s, half.roof_flop_per_s) == (494.5e12, 200 * 4.8e12)
    assert base.flop_per_s.value == pytest.approx(FLOP / (8 / 20))
    assert half.roof_share.value == pytest.approx(FLOP / (2 / 20) / (200 * 4.8e12))


def test_a_device_without_a_data_sheet_has_no_roof() -> None:
    def elsewhere(cell: StepCell, record: JsonRecord) -> JsonRecord:
        return {**of_network(cell, record), "hardware": {**record["hardware"], "device_model": "of a CPU"}}

    rows = build_tables(STUDY, collected_of(records_of(STUDY, elsewhere, lambda _: [1.0]))).roofline
    assert {row.roof_share.is_known for row in rows} == {False}

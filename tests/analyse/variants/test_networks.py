"""networks.csv: other networks beside the study's own, from records whose times are known."""

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


def name_of(cell: StepCell) -> str:
    return cell.variant if isinstance(cell, VariantCell) else "base"


def of_network(cell: StepCell, record: JsonRecord) -> JsonRecord:
    parameters = 4_000 if name_of(cell) == "wide" else 1_000
    parts = ("weights_bytes", "gradients_bytes", "optimiser_bytes", "saved_bytes")
    memory = {**dict.fromkeys(parts, 4 * parameters), "allocated": None}
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

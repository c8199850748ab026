"""A study with variants as one server with two H200s may measure it: records with times near those that were seen."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from dpscale.plan.cells import AnyCell, StepCell, TimingCell, VariantCell
from dpscale.plan.plan import plan
from dpscale.plan.study import Study
from dpscale.records.collect import Collected
from record_factory import network_facts, on_chip, on_gpus, timing_record

BATCHES = (32, 128, 512, 2048)
BF16 = {"precision": "bfloat16", "memory_format": "channels_last"}
VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "channels_last_bf16": BF16,
    "compile": {**BF16, "compile": "default"},
    "cuda_graph": {**BF16, "compile": "default", "cuda_graph": True},
    "images_on_device": {**BF16, "compile": "default", "cuda_graph": True, "images_on": "device"},
}
# Milliseconds of a step on one and on two GPUs, by batch.
STEP_MS: Mapping[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "base": ((7.66, 7.35, 22.95, 86.8), (12.0, 12.2, 24.1, 88.4)),
    "channels_last_bf16": ((7.42, 9.45, 8.89, 28.8), (12.4, 12.6, 13.0, 30.1)),
    "compile": ((4.51, 4.62, 6.42, 21.9), (8.02, 8.11, 8.33, 23.2)),
    "cuda_graph": ((1.34, 2.36, 5.87, 21.3), (3.23, 3.51, 6.93, 22.3)),
    "images_on_device": ((1.31, 2.33, 5.82, 21.1), (3.11, 3.42, 6.81, 22.1)),
}
# What runs differ by, alike in cells of one server, and what a cell adds to that.
OF_RUN = {1: 0.99, 2: 1.0, 3: 1.01}
OF_CELL = (1.001, 0.999, 1.0005, 0.9995, 1.0)
PREPARATION_S = {"compile": 24.0, "cuda_graph": 27.5, "images_on_device": 28.1}
PRODUCT = {"bfloat16": 775e12, "float32": 370e12}
COPY = 4.0e12
TRAFFIC_ELEMENTS = 6_800_000


def study(**changes: Any) -> Study:
    """Single and ddp on one and two GPUs, three runs, at the batches above."""
    values = {
        "study": "variants", "gpus": [1, 2], "strategies": ["single", "ddp"], "batch_per_gpu": list(BATCHES),
        "scopes": ["compute"], "baseline": "own_cells", "runs": 3, "communication": {"runs": 0},
        "variants": {name: dict(own) for name, own in VARIANTS.items()},
    }  # fmt: skip
    return Study({**values, **changes})


def step_s(variant: str, gpus: int, batch: int, run: int) -> float:
    place = run * (1 + list(STEP_MS).index(variant)) + gpus
    return STEP_MS[variant][gpus - 1][BATCHES.index(batch)] * 1e-3 * OF_RUN[run] * OF_CELL[place % len(OF_CELL)]


def record(cell: StepCell, under: Study) -> dict[str, Any]:
    """What a cell writes, on the server of its run."""
    name = cell.variant if isinstance(cell, VariantCell) else "base"
    settings = cell.settings if isinstance(cell, VariantCell) else under.settings
    batch = cell.configuration.batch_per_gpu
    seconds = step_s(name, cell.gpus, batch, cell.run)
    epoch_s = seconds * settings.epoch_images / cell.configuration.global_batch
    assert isinstance(cell, TimingCell | VariantCell)
    found = timing_record(cell, settings, [epoch_s, epoch_s * 1.001])
    # Power grows with what a step does.
    for scope in found["scopes"].values():
        scope["energy_j"] = [cell.gpus * (250 + 400 * min(1.0, batch / 512)) * epoch for epoch in scope["epoch_s"]]
    found = on_gpus(found, *(f"GPU-{cell.run}-{number}" for number in range(cell.gpus)), host=f"node{cell.run}")
    found = on_chip(found, PRODUCT[settings.precision] * OF_RUN[cell.run], COPY)
    found["preparation_s"] = PREPARATION_S[name] * OF_RUN[cell.run] if name in PREPARATION_S else None
    return found


def records(under: Study) -> Iterator[tuple[AnyCell, dict[str, Any]]]:
    for cell in (*plan(under).timing, *plan(under).variants):
        yield cell, record(cell, under)


@cache
def collected(under: Study | None = None) -> Collected:
    """All of them, and the facts of the network with its memory traffic."""
    measured = under or study()
    facts = {**network_facts(measured.settings), "traffic_elements_per_image": TRAFFIC_ELEMENTS}
    return Collected(dict(records(measured)), {}, {}, network=facts)

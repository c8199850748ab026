"""fsdp on real GPUs: it trains as ddp does, sends what its formula says, and takes less memory."""

from pathlib import Path

import pytest
import torch

from dpscale.measure.launch.workers import Workers
from dpscale.measure.workload.networks import build_network
from dpscale.schemas.settings import StepSettings
from dpscale.strategies.fsdp import STRATEGY
from dpscale.strategies.fsdp.in_torch import unit_bytes
from on_gpus import measured
from record_factory import typed_facts
from stub_cell import helpers_for_workers

pytestmark = pytest.mark.gpu(2)
IMAGES = 4096
BATCH = 32


def test_it_trains_as_ddp_does_and_sends_what_the_formula_says(tmp_path: Path) -> None:
    """Both add in another order, and on a GPU in another one in every run: weights run apart, and rounding grows."""
    gpus = torch.cuda.device_count()
    settings = StepSettings(
        precision="float32-strict", learning_rate=1e-4, dataset_source="synthetic", epoch_images=1024
    )
    job = {"configuration": ["fsdp", gpus, BATCH], "settings": settings.to_json(), "seed": 1, "dataset": str(tmp_path)}
    with helpers_for_workers(), Workers("sharded_worker", {**job, "timeout_s": 300}, gpus, gpus) as started:
        outcome = started.outcome(300, end_with_parent=False)
    losses = outcome["losses"]
    for a, b in zip(losses["fsdp"], losses["ddp"], strict=True):
        print(f"fsdp {a:.6f}, ddp {b:.6f}: {a / b - 1:+.1e}")
    assert losses["fsdp"] == pytest.approx(losses["ddp"], rel=1e-3)
    sizes = unit_bytes(build_network("cifar_resnet18", 64))
    messages = STRATEGY.messages_of_step(typed_facts(settings, fsdp_unit_bytes=sizes))
    print("sent", outcome["sent"], "formula", messages)
    assert sorted(map(tuple, outcome["sent"])) == sorted(messages)


def test_it_takes_less_memory_than_ddp(tmp_path: Path, dataset: Path) -> None:
    """Weights, gradients and momenta of this network are most of it."""
    peaks = {}
    more = "--timed-epochs 2 --width 256 --scopes compute --baseline own_cells"
    for strategy in ("ddp", "fsdp"):
        record = measured("time", dataset, tmp_path / f"{strategy}.json", strategy, torch.cuda.device_count(), 8, more)
        peaks[strategy] = max(record["scopes"]["compute"]["peak_memory_bytes"])
    print({strategy: round(peak / 1e9, 2) for strategy, peak in peaks.items()}, "GB")
    assert peaks["fsdp"] < 0.8 * peaks["ddp"]

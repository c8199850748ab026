"""Settings that use a GPU better, on real GPUs: the same mathematics, and whole cells."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from dpscale.measure.worker.step_worker import STEPS_BEFORE, CapturedStep
from dpscale.measure.workload.batches import Step
from dpscale.measure.workload.images import classification_loss
from dpscale.measure.workload.networks import CifarResNet18, in_precision
from dpscale.measure.workload.update import training_step
from on_gpus import measured

IMAGES = 4096
BATCH = 64
BFLOAT16 = "--precision bfloat16 --memory-format channels_last"
COMPILED = f"{BFLOAT16} --compile default"
GRAPH = f"{COMPILED} --cuda-graph True"
VARIANTS = {
    "bfloat16": BFLOAT16,
    "compiled": COMPILED,
    "graph": GRAPH,
    "on device": f"{GRAPH} --images-on device --fused-optimiser True",
}


def gpu() -> torch.device:
    return torch.device("cuda", 0)


def network_and_batch(precision: str, dtype: torch.dtype = torch.float32) -> tuple[nn.Module, Tensor, Tensor]:
    torch.manual_seed(0)
    network = in_precision(CifarResNet18(64), precision, "cuda").to(gpu(), dtype)
    images = torch.randn(BATCH, 3, 32, 32, dtype=torch.float64).to(gpu(), dtype)
    return network, images, torch.randint(0, 10, (BATCH,)).to(gpu())


def trainer() -> tuple[nn.Module, Step]:
    network = network_and_batch("float32-strict", torch.float64)[0]
    optimiser = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)
    return network, training_step(network, optimiser, classification_loss, gpu(), torch.contiguous_format)


def weights(network: nn.Module) -> Tensor:
    return torch.cat([p.detach().flatten() for p in network.parameters()])


@pytest.mark.gpu
def test_a_captured_step_trains_as_the_step_does() -> None:
    """After as many steps the weights are the same, also where one batch is smaller and runs without the graph."""
    _, images, labels = network_and_batch("float32-strict", torch.float64)
    sizes = [BATCH, BATCH, BATCH // 2, BATCH]
    network, step = trainer()
    before = weights(network)
    for _ in range(STEPS_BEFORE):
        step((images, labels))
    for size in sizes:
        step((images.flip(0)[:size], labels.flip(0)[:size]))
    captured_network, eager = trainer()
    captured = CapturedStep(eager, (images, labels), gpu(), torch.cuda.Stream(gpu()))
    for size in sizes:
        captured((images.flip(0)[:size], labels.flip(0)[:size]))
    torch.cuda.synchronize()
    moved = (weights(network) - before).norm()
    assert (weights(captured_network) - weights(network)).norm() < 1e-6 * moved


@pytest.mark.gpu
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("strategy", ["single", pytest.param("ddp", marks=pytest.mark.gpu(2))])
def test_a_cell_of_every_variant(tmp_path: Path, dataset: Path, strategy: str, variant: str) -> None:
    gpus = 1 if strategy == "single" else torch.cuda.device_count()
    more = f"--timed-epochs 2 --variant this {VARIANTS[variant]}"
    record = measured("time", dataset, tmp_path / "record.json", strategy, gpus, 96, more)
    assert (record["status"], record["cell"]["variant"]) == ("ok", "this")
    assert (record["preparation_s"] is None) == (variant == "bfloat16")
    assert record["chip"]["matrix_flop_per_s"] > 1e12
    loads = record["scopes"]["end_to_end"]["loader_processes"]
    assert loads == (0 if variant == "on device" else 2 * gpus)

"""Settings that use a GPU better, on real GPUs: the same mathematics, and whole cells."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from test_gpu_cells import dataset, time_cell
from torch import Tensor, nn
from torch.nn import functional

from dpscale.measure.model.resnet import build_network
from dpscale.measure.worker.captured_step import STEPS_BEFORE, CapturedStep
from dpscale.measure.worker.epoch_timer import Step, training_step

__all__ = ["dataset"]

BATCH = 64
# Relative error of a gradient, ||g - reference|| / ||reference||, by precision: in every layer bfloat16 rounds at
# 2**-9, and TF32 at 2**-11.
TOLERANCE = {"float32-strict": 1e-4, "float32": 2e-2, "bfloat16": 6e-2}
FAST = ["--precision", "bfloat16", "--memory-format", "channels_last", "--compile", "default", "--cuda-graph", "True"]
VARIANTS = {
    "bfloat16": FAST[:4],
    "compiled": FAST[:6],
    "graph": FAST,
    "on device": [*FAST, "--images-on", "device", "--fused-optimiser", "True"],
}


def gpu() -> torch.device:
    return torch.device("cuda", 0)


def network_and_batch(precision: str, dtype: torch.dtype = torch.float32) -> tuple[nn.Module, Tensor, Tensor]:
    torch.manual_seed(0)
    network = build_network("cifar_resnet18", 64, precision).to(gpu(), dtype)
    images = torch.randn(BATCH, 3, 32, 32, dtype=torch.float64).to(gpu(), dtype)
    return network, images, torch.randint(0, 10, (BATCH,)).to(gpu())


def gradient(network: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    functional.cross_entropy(network(images), labels).backward()
    return torch.cat([p.grad.flatten() for p in network.parameters() if p.grad is not None]).double()


@pytest.mark.gpu
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("precision", TOLERANCE)
def test_gradients_are_those_of_float64(
    precision: str, layout: torch.memory_format, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", precision != "float32-strict")
    expected = gradient(*network_and_batch("float32-strict", torch.float64))
    network, images, labels = network_and_batch(precision)
    network = network.to(memory_format=layout)
    if compiled:
        network.compile(dynamic=False)
    error = (gradient(network, images.contiguous(memory_format=layout), labels) - expected).norm() / expected.norm()
    print(f"{precision} {layout} compiled={compiled}: {float(error):.2e}")
    assert error < TOLERANCE[precision]


def trainer() -> tuple[nn.Module, Step]:
    network = network_and_batch("float32-strict")[0]
    optimiser = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)
    return network, training_step(network, optimiser, gpu(), torch.contiguous_format)


def weights(network: nn.Module) -> Tensor:
    return torch.cat([p.detach().flatten() for p in network.parameters()]).double()


@pytest.mark.gpu
def test_a_captured_step_trains_as_the_step_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """After as many steps the weights are the same, also where one batch is smaller and runs without the graph."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    _, images, labels = network_and_batch("float32-strict")
    sizes = [BATCH, BATCH, BATCH // 2, BATCH]
    network, step = trainer()
    before = weights(network)
    for _ in range(STEPS_BEFORE):
        step(images, labels)
    for size in sizes:
        step(images.flip(0)[:size], labels.flip(0)[:size])
    captured_network, eager = trainer()
    captured = CapturedStep(eager, images, labels, gpu(), torch.cuda.Stream(gpu()))
    for size in sizes:
        captured(images.flip(0)[:size], labels.flip(0)[:size])
    torch.cuda.synchronize()
    moved = (weights(network) - before).norm()
    assert (weights(captured_network) - weights(network)).norm() < 0.02 * moved


@pytest.mark.gpu
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("strategy", ["single", pytest.param("ddp", marks=pytest.mark.gpu(2))])
def test_a_cell_of_every_variant(tmp_path: Path, dataset: Path, strategy: str, variant: str) -> None:
    gpus = 1 if strategy == "single" else torch.cuda.device_count()
    out = tmp_path / "record.json"
    done = time_cell(dataset, out, strategy, gpus, 96, "--variant", "this", *VARIANTS[variant])
    assert done.returncode == 0, done.stderr
    record: dict[str, Any] = json.loads(out.read_text())
    assert (record["status"], record["cell"]["variant"]) == ("ok", "this")
    assert (record["preparation_s"] is None) == (variant == "bfloat16")
    assert record["chip"]["matrix_flop_per_s"] > 1e12
    if strategy == "single":
        seen = record["profile"]
        assert 0 < seen["busy_s"] <= 1.02 * seen["step_s"]
        assert sum(kernel["total_s"] for kernel in seen["kernels"]) >= 0.99 * seen["busy_s"]
    loads = record["scopes"]["end_to_end"]["loader_processes"]
    assert loads == (0 if variant == "on device" else 2 * gpus)
    step_s = {scope: result["step_s_quantiles"]["median"] for scope, result in record["scopes"].items()}
    alone = [
        half["step_s_median"][0]
        for baseline in record["alone"] or ()
        for half in baseline["scopes"]["compute"].values()
    ]
    print(strategy, variant, record["preparation_s"], step_s, alone, record["chip"])


@pytest.mark.gpu(2)
def test_dataparallel_is_refused_what_needs_a_process_per_gpu(tmp_path: Path, dataset: Path) -> None:
    done = time_cell(dataset, tmp_path / "record.json", "dp", 2, 32, "--cuda-graph", "True")
    assert done.returncode != 0
    assert "cuda_graph does not go with DataParallel" in done.stderr

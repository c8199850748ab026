"""The same mathematics on GPUs: dp and ddp compute the gradients that the plain module computes on the whole batch.

On a CPU: test_steps_of_strategies.py.
"""

from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.multiprocessing.spawn import start_processes
from torch.nn import functional

import warm  # noqa: F401  what it is forked from has loaded torch
from dpscale.measure.workload.networks import CifarResNet18
from dpscale.schemas.settings import TimingSettings, WholeStepSettings
from dpscale.strategies.in_torch import parallelise
from dpscale.strategies.units import compile_by_unit, units

BATCH = 8
# Relative error of a gradient, ||g - reference|| / ||reference||. TF32 convolutions round at about 3e-4 a product.
TOLERANCE = {torch.float64: 1e-10, torch.float32: 2e-2}
# Ways to exchange the same gradients. Rounded to bfloat16, each is at most 2**-8 of itself off before the sum.
EXCHANGES: Mapping[str, tuple[dict[str, Any], float]] = {
    "small buckets": ({"ddp_bucket_mb": 0.05}, 1e-10),
    "views": ({"ddp_gradient_as_bucket_view": True, "ddp_broadcast_buffers": False}, 1e-10),
    "bfloat16": ({"ddp_gradient_dtype": "bfloat16"}, 2.0**-7),
}


def settings(**exchange: Any) -> WholeStepSettings:
    return WholeStepSettings(dataset_source="synthetic", epoch_images=BATCH, **exchange)


def network_and_batch(dtype: torch.dtype, device: torch.device) -> tuple[nn.Module, Tensor, Tensor]:
    torch.manual_seed(0)
    network = CifarResNet18(8).to(device=device, dtype=dtype)
    network.eval()  # batch-norm frozen: its batch statistics differ between shards by design
    images = torch.randn(BATCH, 3, 32, 32, dtype=torch.float64).to(device=device, dtype=dtype)
    labels = torch.randint(0, 10, (BATCH,)).to(device)
    return network, images, labels


def gradient(network: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    functional.cross_entropy(network(images), labels).backward()
    return torch.cat([p.grad.flatten() for p in network.parameters() if p.grad is not None]).double().cpu()


@cache
def reference() -> Tensor:
    return gradient(*network_and_batch(torch.float64, torch.device("cpu")))


def relative_error(gradient: Tensor) -> float:
    expected = reference()
    return float((gradient - expected).norm() / expected.norm())


def relative_errors(folder: Path, name: object, ranks: int) -> list[float]:
    """The error of the gradient that every rank saved under `name`."""
    return [relative_error(torch.load(folder / f"{name}-{rank}", weights_only=True)) for rank in range(ranks)]


def ddp_rank(rank: int, workers: int, folder: str) -> None:
    device = torch.device("cuda", rank)
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", init_method=f"file://{folder}/meet", rank=rank, world_size=workers)
    cases: dict[Any, tuple[torch.dtype, dict[str, Any]]] = {dtype: (dtype, {}) for dtype in TOLERANCE}
    cases |= {name: (torch.float64, exchange) for name, (exchange, _) in EXCHANGES.items()}
    for name, (dtype, exchange) in cases.items():
        network, images, labels = network_and_batch(dtype, device)
        parallel = parallelise(network, "ddp", [device], settings(**exchange))
        torch.save(gradient(parallel, images[rank::workers], labels[rank::workers]), f"{folder}/{name}-{rank}")
    dist.destroy_process_group()


@pytest.mark.gpu
def test_ddp_computes_the_gradient_of_single(tmp_path: Path) -> None:
    workers = torch.cuda.device_count()
    start_processes(ddp_rank, (workers, str(tmp_path)), nprocs=workers, start_method="forkserver")
    for dtype, tolerance in TOLERANCE.items():
        assert max(relative_errors(tmp_path, dtype, workers)) < tolerance
    for name, (_, tolerance) in EXCHANGES.items():
        errors = relative_errors(tmp_path, name, workers)
        assert max(errors) < tolerance
        # What is exchanged in bfloat16 is rounded to it.
        assert (name == "bfloat16") == (min(errors) > 1e-4)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_dp_computes_the_gradient_of_single(dtype: torch.dtype) -> None:
    devices = [torch.device("cuda", index) for index in range(torch.cuda.device_count())]
    network, images, labels = network_and_batch(dtype, devices[0])
    assert relative_error(gradient(parallelise(network, "dp", devices, settings()), images, labels)) < TOLERANCE[dtype]


@pytest.mark.slow
def test_what_is_compiled_by_unit_computes_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    graphs: list[Any] = []

    def keep(graph: Any, _: list[Tensor]) -> Any:
        graphs.append(graph)
        return graph

    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=keep))
    network, images, labels = network_and_batch(torch.float64, torch.device("cpu"))
    compile_by_unit(network)
    assert relative_error(gradient(network, images, labels)) < 1e-10
    assert len(graphs) == len(units(network)) + 2  # what is before them, and behind them


def copying_rank(number: int, ranks: int, folder: str) -> None:
    device = torch.device("cuda", number % torch.cuda.device_count())
    torch.cuda.set_device(device)
    dist.init_process_group("cpu:gloo,cuda:gloo", init_method=f"file://{folder}/meet", rank=number, world_size=ranks)
    network, images, labels = network_and_batch(torch.float64, device)
    settings = TimingSettings(
        dataset_source="synthetic", epoch_images=BATCH, ddp_reducer="copies", ddp_broadcast_buffers=False
    )
    parallel = parallelise(network, "ddp", [device], settings)
    for step in range(3):
        network.zero_grad(set_to_none=True)
        torch.save(gradient(parallel, images[number::ranks], labels[number::ranks]), f"{folder}/{number}-{step}")
    dist.barrier()


@pytest.mark.gpu(2)
@pytest.mark.parametrize("ranks", [2, 4])
def test_copies_give_every_rank_the_average(ranks: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the last bit the same one. Four ranks share two GPUs where there are no more: torch has to be told."""
    monkeypatch.setenv("TORCH_SYMM_MEM_ALLOW_OVERLAPPING_DEVICES", "1")
    reference()
    start_processes(copying_rank, (ranks, str(tmp_path)), nprocs=ranks, start_method="spawn")
    for step in range(3):
        averages = [torch.load(tmp_path / f"{number}-{step}", weights_only=True) for number in range(ranks)]
        print(f"{ranks} ranks, step {step + 1}: relative error {relative_error(averages[0]):.1e}")
        assert relative_error(averages[0]) < 1e-10
        assert all(torch.equal(averages[0], average) for average in averages)

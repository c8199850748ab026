"""Every strategy and every setting of a step trains as the plain network does on the whole batch: in float64, with 2
and with 4 ranks; and it sends the bytes that its formula says."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.multiprocessing.spawn import start_processes
from torch.optim import SGD, AdamW, Optimizer

import warm  # noqa: F401  what it is forked from has loaded torch
from dpscale.measure.workload.images import classification_loss
from dpscale.measure.workload.networks import CifarResNet18
from dpscale.measure.workload.update import Update, training_step
from dpscale.schemas.settings import WholeStepSettings
from dpscale.strategies.in_torch import parallelise
from dpscale.strategies.known import strategy
from dpscale.strategies.strategy import NetworkSize
from dpscale.strategies.units import checkpoint_by_unit
from sharded_worker import Sent

BATCH = 16
STEPS = 3
# The strategy, settings of the step, and the optimiser.
CASES: Mapping[str, tuple[str, dict[str, Any], str]] = {
    "naive": ("ddp-naive", {}, "sgd"),
    "flat": ("ddp-flat", {}, "sgd"),
    "zero1": ("zero1", {}, "sgd"),
    "zero1-adamw": ("zero1", {}, "adamw"),
    "fsdp": ("fsdp", {}, "sgd"),
    "fsdp-grad-op": ("fsdp", {"fsdp_reshard_after_forward": False}, "sgd"),
    "fsdp-hybrid": ("fsdp", {"fsdp_replicas": 2}, "sgd"),
    "ddp-accumulate": ("ddp", {"accumulate": 4}, "sgd"),
    "naive-accumulate": ("ddp-naive", {"accumulate": 4}, "sgd"),
    "flat-accumulate": ("ddp-flat", {"accumulate": 2}, "sgd"),
    "zero1-accumulate": ("zero1", {"accumulate": 4}, "adamw"),
    "fsdp-accumulate": ("fsdp", {"accumulate": 4}, "sgd"),
    "ddp-checkpoint": ("ddp", {"checkpoint_activations": "blocks"}, "sgd"),
    "fsdp-checkpoint": ("fsdp", {"checkpoint_activations": "blocks"}, "sgd"),
}


def settings_of(**step: Any) -> WholeStepSettings:
    return WholeStepSettings(device="cpu", dataset_source="synthetic", epoch_images=BATCH, **step)


def network_of(settings: WholeStepSettings, dtype: torch.dtype = torch.float64) -> nn.Module:
    torch.manual_seed(0)
    network = CifarResNet18(4).to(dtype)
    network.eval()  # batch-norm frozen: its statistics differ between shards, by design
    if settings.checkpoint_activations == "blocks":
        checkpoint_by_unit(network)
    return network


def batches() -> list[tuple[Tensor, Tensor]]:
    random = torch.Generator().manual_seed(1)
    return [
        (
            torch.randn(BATCH, 3, 32, 32, dtype=torch.float64, generator=random),
            torch.randint(10, (BATCH,), generator=random),
        )
        for _ in range(STEPS)
    ]


def optimiser_of(network: nn.Module, kind: str) -> Optimizer:
    plain: Optimizer = (
        AdamW(network.parameters(), lr=1e-3)
        if kind == "adamw"
        else SGD(network.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4)
    )
    distribute: Callable[[Optimizer], Optimizer] = getattr(network, "distributed_optimiser", lambda plain: plain)
    return distribute(plain)


def trained(
    network: nn.Module, kind: str, settings: WholeStepSettings, share: slice, seen: AbstractContextManager[Any]
) -> Tensor:
    """The weights after the steps; the last one is made within `seen`."""
    optimiser = optimiser_of(network, kind)
    update = Update(network, optimiser, settings)
    step = training_step(network, optimiser, classification_loss, torch.device("cpu"), torch.contiguous_format, update)
    for number, (images, labels) in enumerate(batches()):
        with seen if number == STEPS - 1 else nullcontext():
            step((images[share], labels[share]))
    weights = (weight.detach() for weight in network.parameters())
    return torch.cat([(w.full_tensor() if isinstance(w, DTensor) else w).flatten() for w in weights])


@cache
def reference(kind: str) -> Tensor:
    settings = settings_of()
    return trained(network_of(settings), kind, settings, slice(None), nullcontext())


def rank_of(rank: int, ranks: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=ranks)
    for name, (strategy_name, step, kind) in CASES.items():
        settings = settings_of(**step)
        network = parallelise(network_of(settings), strategy_name, [], settings)
        seen = Sent()
        weights = trained(network, kind, settings, slice(rank, None, ranks), seen)
        torch.save({"weights": weights, "sent": seen.messages}, f"{folder}/{name}-{rank}")
    dist.destroy_process_group()


@pytest.fixture(scope="module", params=[2, 4])
def ranks(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[int, Path]:
    """So many ranks, and the folder with what each of them had after the steps of every case."""
    folder = tmp_path_factory.mktemp(f"ranks-{request.param}")
    start_processes(rank_of, (request.param, str(folder)), nprocs=request.param, start_method="forkserver")
    return request.param, folder


def outcomes(ranks: tuple[int, Path], name: str) -> list[dict[str, Any]]:
    number, folder = ranks
    return [torch.load(folder / f"{name}-{rank}", weights_only=True) for rank in range(number)]


@pytest.mark.processes
@pytest.mark.parametrize("name", CASES)
def test_it_trains_as_the_plain_network(ranks: tuple[int, Path], name: str) -> None:
    expected = reference(CASES[name][2])
    start = torch.cat([weight.flatten() for weight in network_of(settings_of()).parameters()]).detach()
    for outcome in outcomes(ranks, name):
        error = (outcome["weights"] - expected).norm() / (expected - start).norm()
        assert error < 1e-9, f"{error:.1e} of the way"


@pytest.mark.processes
@pytest.mark.parametrize("name", CASES)
def test_it_sends_the_bytes_of_its_formula_once(ranks: tuple[int, Path], name: str) -> None:
    """Also where gradients of several micro-batches add up. Summed over the ranks: zero1's ranks have unlike shares."""
    number, _ = ranks
    gradient_bytes = sum(weight.nbytes for weight in network_of(settings_of()).parameters())
    facts = NetworkSize(0, gradient_bytes)
    strategy_name, step, _ = CASES[name]
    expected = number * strategy(strategy_name).sent_bytes(number, facts, settings_of(**step))
    sent = sum(sent_bytes(number, *message) for outcome in outcomes(ranks, name) for message in outcome["sent"])
    assert sent == pytest.approx(expected, rel=0.02)


def sent_bytes(ranks: int, operation: str, size: int, members: int) -> float:
    """What a rank sends on average for a collective of `members`, as a ring does."""
    ring = (members - 1) / members * size
    return {"allreduce": 2 * ring, "broadcast": ring}.get(operation, ring)

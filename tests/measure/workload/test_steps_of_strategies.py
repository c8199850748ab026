"""Every strategy and every setting of a step trains as the plain network does on the whole batch: in float64, with 4
ranks, of which 2 may share a replica; and it sends the bytes that its formula says."""

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
from torch.utils._python_dispatch import TorchDispatchMode

import warm  # noqa: F401  what it is forked from has loaded torch
from dpscale.measure.workload.images import classification_loss
from dpscale.measure.workload.networks import CifarResNet18
from dpscale.measure.workload.update import Update, training_step
from dpscale.schemas.settings import WholeStepSettings
from dpscale.strategies.fsdp.in_torch import unit_bytes
from dpscale.strategies.in_torch import parallelise
from dpscale.strategies.known import strategy
from dpscale.strategies.strategy import NetworkSize
from dpscale.strategies.units import checkpoint_by_unit
from record_factory import typed_facts

BATCH = 16
STEPS = 3
RANKS = 4
# The name here, the argument that is the whole message, and that of the group, by torch's own operation.
COLLECTIVES = {
    "c10d::_allgather_base_": ("all_gather", 0, 2),
    "c10d::_reduce_scatter_base_": ("reduce_scatter", 1, 2),
    "c10d::allreduce_": ("allreduce", 0, 1),
    "c10d::broadcast_": ("broadcast", 0, 1),
}
# The strategy, settings of the step, and the optimiser.
CASES: Mapping[str, tuple[str, dict[str, Any], str]] = {
    "naive": ("ddp-naive", {}, "sgd"),
    "flat": ("ddp-flat", {}, "sgd"),
    "zero1": ("zero1", {}, "sgd"),
    "zero1-adamw": ("zero1", {}, "adamw"),
    "fsdp": ("fsdp", {}, "sgd"),
    "fsdp-grad-op": ("fsdp", {"fsdp_reshard_after_forward": False}, "sgd"),
    "fsdp-hybrid": ("fsdp", {"fsdp_replicas": 2}, "sgd"),
    "ddp-buckets": ("ddp", {"ddp_bucket_mb": 0.05}, "sgd"),
    "ddp-views": ("ddp", {"ddp_gradient_as_bucket_view": True, "ddp_broadcast_buffers": False}, "sgd"),
    "ddp-bfloat16": ("ddp", {"ddp_gradient_dtype": "bfloat16"}, "sgd"),
    "ddp-accumulate": ("ddp", {"accumulate": 4}, "sgd"),
    "naive-accumulate": ("ddp-naive", {"accumulate": 4}, "sgd"),
    "flat-accumulate": ("ddp-flat", {"accumulate": 2}, "sgd"),
    "zero1-accumulate": ("zero1", {"accumulate": 4}, "adamw"),
    "fsdp-accumulate": ("fsdp", {"accumulate": 4}, "sgd"),
    "ddp-checkpoint": ("ddp", {"checkpoint_activations": "blocks"}, "sgd"),
    "fsdp-checkpoint": ("fsdp", {"checkpoint_activations": "blocks"}, "sgd"),
}

# How far from the plain network's weights; gradients rounded to bfloat16 are at most 2**-8 of themselves off before the
# sum.
TOLERANCE = {"ddp-bfloat16": 2.0**-7}


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


class Sent(TorchDispatchMode):
    """Collectives as torch dispatches them: operation, bytes of the whole message, and the ranks that take part."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.messages: list[tuple[str, int, int]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func._schema.name in COLLECTIVES:
            operation, place, group = COLLECTIVES[func._schema.name]
            sent = args[place] if isinstance(args[place], list) else [args[place]]
            members = dist.ProcessGroup.unbox(args[group]).size()
            self.messages.append((operation, sum(tensor.nbytes for tensor in sent), members))
        return func(*args, **(kwargs or {}))


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


def rank_of(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=RANKS)
    for name, (strategy_name, step, kind) in CASES.items():
        settings = settings_of(**step)
        network = parallelise(network_of(settings), strategy_name, [], settings)
        seen = Sent()
        weights = trained(network, kind, settings, slice(rank, None, RANKS), seen)
        torch.save({"weights": weights, "sent": seen.messages}, f"{folder}/{name}-{rank}")
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with what each rank had after the steps of every case."""
    folder = tmp_path_factory.mktemp("ranks")
    start_processes(rank_of, (str(folder),), nprocs=RANKS, start_method="forkserver")
    return folder


def outcomes(folder: Path, name: str) -> list[dict[str, Any]]:
    return [torch.load(folder / f"{name}-{rank}", weights_only=True) for rank in range(RANKS)]


@pytest.mark.processes
@pytest.mark.parametrize("name", CASES)
def test_it_trains_as_the_plain_network(folder: Path, name: str) -> None:
    expected = reference(CASES[name][2])
    start = torch.cat([weight.flatten() for weight in network_of(settings_of()).parameters()]).detach()
    for outcome in outcomes(folder, name):
        error = (outcome["weights"] - expected).norm() / (expected - start).norm()
        assert error < TOLERANCE.get(name, 1e-9), f"{error:.1e} of the way"
        assert (name in TOLERANCE) == (error > 1e-4)


@pytest.mark.processes
@pytest.mark.parametrize("name", sorted(CASES.keys() - TOLERANCE.keys()))
def test_it_sends_the_bytes_of_its_formula_once(folder: Path, name: str) -> None:
    """Also where gradients of several micro-batches add up. Summed over the ranks: zero1's ranks have unlike shares."""
    gradient_bytes = sum(weight.nbytes for weight in network_of(settings_of()).parameters())
    facts = NetworkSize(0, gradient_bytes)
    strategy_name, step, _ = CASES[name]
    expected = RANKS * strategy(strategy_name).sent_bytes(RANKS, facts, settings_of(**step))
    sent = sum(sent_bytes(*message) for outcome in outcomes(folder, name) for message in outcome["sent"])
    assert sent == pytest.approx(expected, rel=0.02)


def sent_bytes(operation: str, size: int, members: int) -> float:
    """What a rank sends on average for a collective of `members`, as a ring does."""
    ring = (members - 1) / members * size
    return {"allreduce": 2 * ring, "broadcast": ring}.get(operation, ring)


@pytest.mark.processes
def test_fsdp_sends_the_messages_of_its_formula(folder: Path) -> None:
    """Each with its padding, which the formula leaves out."""
    facts = typed_facts(settings_of(), fsdp_unit_bytes=unit_bytes(network_of(settings_of())))
    operations, sizes = zip(*sorted(strategy("fsdp").messages_of_step(facts)), strict=True)
    for outcome in outcomes(folder, "fsdp"):
        sent_operations, sent_sizes, _ = zip(*sorted(outcome["sent"]), strict=True)
        assert sent_operations == operations
        assert sent_sizes == pytest.approx(sizes, rel=0.2)

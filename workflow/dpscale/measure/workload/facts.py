"""Facts of a network that need no clock: sizes, FLOPs, and the messages of its training."""

import tempfile
import traceback
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from msgspec import to_builtins
from torch import nn
from torch._utils import _take_tensors
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.parallel import DistributedDataParallel
from torch.utils.flop_counter import FlopCounterMode

from dpscale.measure.ranks import meet
from dpscale.measure.workload import workload_of
from dpscale.measure.workload.batches import Batch, Workload, size_bytes
from dpscale.measure.workload.from_file import fault_of
from dpscale.measure.workload.loading import first_batch
from dpscale.measure.workload.networks import network_size
from dpscale.plan.study import of_its_file
from dpscale.records.files import write_record
from dpscale.schemas.settings import NetworkSettings
from dpscale.strategies.fsdp.in_torch import unit_bytes
from dpscale.strategies.strategy import Bucket, FlopPerImage, NetworkFacts

# DataParallel copies and adds up tensors in chunks of at most this (torch.nn.parallel.comm, buffer_size).
CHUNK_BYTES = 10 * 2**20
# Layers whose work torch's counter does not see.
UNCOUNTED = (nn.RNNBase,)


def describe_network(settings: NetworkSettings, out: Path) -> NetworkFacts:
    """Write the facts of the network that need no measurement: parameters, FLOPs per image, and the bytes of every
    message of DataParallel, DDP and FSDP. Raises WorkloadError where the workload's file cannot be used as it is, and
    RecordError where the facts cannot be written."""
    settings = of_its_file(settings)
    workload = workload_of(settings, out.parent)
    try:
        facts = facts_of(workload)
    except Exception as error:
        fault = fault_of(error, workload.path, workload.network)
        if fault is None:
            raise
        traceback.print_exc()
        raise fault from error
    record = {"kind": "network", "settings": settings.to_json(), **to_builtins(facts)}
    write_record("network", out, record)
    return facts


def facts_of(workload: Workload) -> NetworkFacts:
    """Return what can be said of a workload's network without a clock."""
    torch.manual_seed(0)
    network = workload.network()
    # Made up, or the first samples of the workload's dataset.
    batch = (
        workload.made_up(ExampleStep.samples, torch.device("cpu"))
        if workload.made_up
        else first_batch(workload.dataset(), ExampleStep.samples, workload.collate)
    )
    step = ExampleStep(network, workload.loss, batch)
    weights, buffers = [*network.parameters()], [*network.buffers()]
    size = network_size(network)
    input_bytes, output_bytes = bytes_per_image(step)
    return NetworkFacts(
        parameters=size["parameters"],
        gradient_bytes=size["gradient_bytes"],
        tensors=len(weights),
        buffer_bytes=size_bytes(buffers),
        flop_per_image=flop_per_image(step),
        input_bytes_per_image=input_bytes,
        output_bytes_per_image=output_bytes,
        dp_broadcast_bytes=[*_chunks(weights), *_chunks(buffers)],
        dp_reduce_bytes=_chunks(weights),
        ddp_broadcast_bytes=_broadcasts(buffers),
        ddp_buckets=ddp_buckets(step),
        fsdp_unit_bytes=unit_bytes(network),
    )


@dataclass(frozen=True)
class ExampleStep:
    """A network with its loss, and a batch to call both with. It has two samples: some layers refuse one."""

    network: nn.Module
    loss: Callable[[nn.Module, Batch], torch.Tensor]
    batch: Batch
    samples: int = 2

    def forward(self, network: nn.Module | None = None) -> torch.Tensor:
        """Return the loss of the network itself, or of `network`, which wraps it."""
        return self.loss(self.network if network is None else network, self.batch)


def flop_per_image(step: ExampleStep) -> FlopPerImage | None:
    """Return the floating point operations of one sample, forward, and forward and backward, by torch's counter. None
    where it cannot count them.

    It counts two for a multiplication with its addition, in convolutions and matrix products alone. Attention is
    counted as its two matrix products, with what a causal mask leaves out.
    """
    if any(isinstance(module, UNCOUNTED) for module in step.network.modules()):
        return None
    counts = []
    for backward in (False, True):
        with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
            loss = step.forward()
            if backward:
                loss.backward()
        counts.append(counter.get_total_flops() // step.samples)
    step.network.zero_grad()
    return FlopPerImage(*counts) if counts[0] else None


def bytes_per_image(step: ExampleStep) -> tuple[int, int]:
    """Return the bytes per sample of the network's inputs and outputs: what DataParallel moves."""
    moved = {"input": 0, "output": 0}

    def count(_: nn.Module, inputs: Any, named: Any, outputs: Any) -> None:
        moved["input"] += size_bytes((inputs, named))
        moved["output"] += size_bytes(outputs)

    hook = step.network.register_forward_hook(count, with_kwargs=True)
    step.forward()
    hook.remove()
    return moved["input"] // step.samples, moved["output"] // step.samples


def ddp_buckets(step: ExampleStep) -> list[Bucket]:
    """Return DDP's buckets in the order in which they are reduced: bytes, and the share of the backward pass's work
    that is done when the last gradient of each is there.

    Asked from DDP itself, which builds them anew after the first step, in the order the gradients came in.
    """
    with tempfile.TemporaryDirectory(prefix="dpscale-") as folder:
        meet(Path(folder), rank=0, workers=1, timeout_s=60, on_gpu=False)
        try:
            parallel: Any = DistributedDataParallel(step.network)
            for _ in range(2):
                step.forward(parallel).backward()
            step.forward(parallel)
            logged = parallel._get_ddp_logging_data()
        finally:
            dist.destroy_process_group()
    sizes = [int(size) for size in logged["rebuilt_bucket_sizes"].split(",")]
    members = [
        [int(index) for index in group.split()] for group in logged["rebuilt_per_bucket_param_indices"].split(",")
    ]
    done, work = _backward_work(step)
    total = done + sum(work)
    buckets = []
    for size, indices in zip(sizes, members, strict=True):
        done += sum(work[index] for index in indices)
        buckets.append(Bucket(size, done / total))
    return buckets


def _backward_work(step: ExampleStep) -> tuple[float, list[float]]:
    """Return the work of the backward pass before any gradient is whole, and the work that comes with each parameter's
    gradient, in the order of `parameters()`.

    A layer's gradients of weights and of inputs come together, and cost about twice its forward pass. Where a weight is
    used by a second, later layer, as by the output of a language model, that layer's work is done first, and the
    gradient is whole last. Where no work is counted, a parameter's elements stand for it.
    """
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        step.forward()
    of_module: dict[str, int] = defaultdict(int)
    for name, counts in counter.get_flop_counts().items():
        of_module[name.partition(".")[2]] = sum(counts.values())

    def work_with(name: str) -> float:
        # Only weights stand for work; biases and normalisation come with none that the counter counts.
        return float(of_module[name.rpartition(".")[0]]) if name.endswith("weight") else 0.0

    once = dict(step.network.named_parameters())
    again = [name for name, _ in step.network.named_parameters(remove_duplicate=False) if name not in once]
    trained = {name: parameter for name, parameter in once.items() if parameter.requires_grad}
    work = [work_with(name) for name in trained]
    if not any(work):
        return 0.0, [float(parameter.numel()) for parameter in trained.values()]
    return sum(map(work_with, again)), work


def _chunks(tensors: Sequence[torch.Tensor]) -> list[int]:
    """Return the bytes of the pieces that DataParallel moves these tensors in."""
    return [size_bytes(chunk) for chunk in _take_tensors(tensors, CHUNK_BYTES)]


def _broadcasts(tensors: Sequence[torch.Tensor]) -> list[int]:
    """Return the bytes of the pieces that DDP broadcasts these tensors in, before every forward pass: one for each type
    of number, as long as they are smaller than DDP's limit of 250 MiB."""
    sizes: dict[torch.dtype, int] = defaultdict(int)
    for tensor in tensors:
        sizes[tensor.dtype] += tensor.nbytes
    return list(sizes.values())

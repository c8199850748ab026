"""Facts of a network that need no clock: sizes, FLOPs, and the messages of its training."""

import traceback
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
from dpscale.measure.workload.work import is_counted
from dpscale.plan.study import of_its_file
from dpscale.records.files import write_record
from dpscale.records.temporary import TemporaryFolder
from dpscale.schemas.settings import NetworkSettings
from dpscale.strategies.ddp.in_torch import bucket_bytes
from dpscale.strategies.fsdp.in_torch import unit_bytes
from dpscale.strategies.strategy import Bucket, FlopPerImage, NetworkFacts

# DataParallel copies and adds up tensors in chunks of at most this (torch.nn.parallel.comm, buffer_size). DDP
# broadcasts buffers, before every forward pass, in chunks of at most that (broadcast_bucket_size).
DP_CHUNK_BYTES, DDP_CHUNK_BYTES = 10 * 2**20, 250 * 2**20


def describe_network(settings: NetworkSettings, out: Path) -> NetworkFacts:
    """Write the facts of the network that need no measurement: parameters, FLOPs per image, and the bytes of every
    message of DataParallel, DDP and FSDP. Raises WorkloadError where the workload's file cannot be used as it is, and
    RecordError where the facts cannot be written."""
    settings = of_its_file(settings)
    workload = workload_of(settings, out.parent)
    try:
        facts = facts_of(workload)
    except Exception as error:
        fault = fault_of(error, workload.path)
        if fault is None:
            raise
        traceback.print_exc()
        raise fault from error
    write_record("network", out, {"kind": "network", "settings": settings.to_json(), **to_builtins(facts)})
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
    input_bytes, output_bytes = bytes_per_image(step)
    return NetworkFacts(
        **network_size(network),
        tensors=len(weights),
        buffer_bytes=size_bytes(buffers),
        flop_per_image=flop_per_image(step),
        input_bytes_per_image=input_bytes,
        output_bytes_per_image=output_bytes,
        dp_broadcast_bytes=[*_chunks(weights, DP_CHUNK_BYTES), *_chunks(buffers, DP_CHUNK_BYTES)],
        dp_reduce_bytes=_chunks(weights, DP_CHUNK_BYTES),
        ddp_broadcast_bytes=_chunks(buffers, DDP_CHUNK_BYTES),
        ddp_buckets=ddp_buckets(step),
        fsdp_unit_bytes=unit_bytes(network),
        weight_bytes=[weight.nbytes for weight in weights if weight.requires_grad],
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
    if not is_counted(step.network):
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
    """Return DDP's buckets in the order in which they are reduced.

    Asked from DDP itself, which builds them anew after the first step, in the order the gradients came in.
    """
    with TemporaryFolder() as folder:
        meet(Path(folder), rank=0, workers=1, timeout_s=60, on_gpu=False)
        try:
            parallel = DistributedDataParallel(step.network)
            for _ in range(2):
                step.forward(parallel).backward()
            step.forward(parallel)
            return [Bucket(size) for size in bucket_bytes(parallel)]
        finally:
            dist.destroy_process_group()


def _chunks(tensors: Sequence[torch.Tensor], limit_bytes: int) -> list[int]:
    """Return the bytes of the pieces that torch moves these tensors in: at most `limit_bytes` of one type of number."""
    return [size_bytes(chunk) for chunk in _take_tensors(tensors, limit_bytes)]

"""Facts of a network that need no clock: sizes, FLOPs, and the messages of its training."""

import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch._utils import _take_tensors
from torch.nn.parallel import DistributedDataParallel
from torch.utils.flop_counter import FlopCounterMode

from dpscale.measure.model.resnet import build_network, network_size
from dpscale.measure.ranks import meet
from dpscale.records.files import Record, write_record
from dpscale.schemas.settings import NetworkSettings

# DataParallel copies and adds up tensors in chunks of at most this (torch.nn.parallel.comm, buffer_size).
CHUNK_BYTES = 10 * 2**20
IMAGE = (3, 32, 32)


def describe_network(settings: NetworkSettings, out: Path) -> Record:
    """Write the facts of the network that need no measurement: parameters, FLOPs per image, and the bytes of every
    message of DataParallel and of DDP. Raises RecordError where it cannot be written."""
    network = build_network(settings.network, settings.width, "float32")
    forward, both = flop_per_image(network)
    facts = {
        "kind": "network",
        "settings": settings.to_json(),
        **network_size(network),
        "tensors": sum(1 for _ in network.parameters()),
        "buffer_bytes": sum(buffer.numel() * buffer.element_size() for buffer in network.buffers()),
        "flop_per_image": {"forward": forward, "forward_backward": both},
        "traffic_elements_per_image": traffic_elements_per_image(network),
        "dp_broadcast_bytes": [*_chunks(list(network.parameters())), *_chunks(list(network.buffers()))],
        "dp_reduce_bytes": _chunks(list(network.parameters())),
        "ddp_broadcast_bytes": _of_types(list(network.buffers())),
        "ddp_buckets": ddp_buckets(network),
    }
    write_record("network", out, facts)
    return facts


def flop_per_image(network: nn.Module) -> tuple[int, int]:
    """Floating point operations of one image, forward, and forward and backward, by torch's counter.

    It counts two for a multiplication with its addition, in convolutions and matrix products alone.
    """
    counts = []
    for backward in (False, True):
        with FlopCounterMode(display=False) as counter:
            logits = network(torch.zeros(2, *IMAGE))
            if backward:
                logits.sum().backward()
        counts.append(counter.get_total_flops() // 2)
    return counts[0], counts[1]


def traffic_elements_per_image(network: nn.Module) -> int:
    """Elements that a training step reads or writes per image when it goes layer by layer.

    Activation functions and additions are done where a layer beside them reads or writes anyway, and cost nothing.

    A convolution or linear layer with input x and output y reads x and writes y; backward it reads y's gradient twice
    (for x and for the weights) and x once, and writes x's gradient. The images need no gradient. A batch-norm reads its
    input twice (statistics, then values) and writes its output; backward it reads input and gradient twice, and writes
    once. Weights are not counted here: their bytes do not grow with the batch.
    """
    elements = 0

    def count(layer: nn.Module, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
        nonlocal elements
        x, y = inputs[0].numel(), output.numel()
        if isinstance(layer, nn.BatchNorm2d):
            elements += 3 * x + 5 * x
        else:
            elements += 2 * x + 2 * y + (x + y if inputs[0].requires_grad else 0)

    layers = [layer for layer in network.modules() if isinstance(layer, nn.Conv2d | nn.Linear | nn.BatchNorm2d)]
    hooks = [layer.register_forward_hook(count) for layer in layers]
    network(torch.zeros(2, *IMAGE))
    for hook in hooks:
        hook.remove()
    return elements // 2


def ddp_buckets(network: nn.Module) -> list[dict[str, float]]:
    """DDP's buckets in the order in which they are reduced: bytes, and the share of the backward pass's work that is
    done when the last gradient of each is there.

    Asked from DDP itself, which builds them anew after the first step, in the order the gradients came in.
    """
    with tempfile.TemporaryDirectory(prefix="dpscale-") as folder:
        meet(Path(folder), rank=0, workers=1, timeout_s=60, on_gpu=False)
        try:
            parallel: Any = DistributedDataParallel(network)
            for _ in range(2):
                parallel(torch.zeros(2, *IMAGE)).sum().backward()
            parallel(torch.zeros(2, *IMAGE))
            logged = parallel._get_ddp_logging_data()
        finally:
            dist.destroy_process_group()
    sizes = [int(size) for size in logged["rebuilt_bucket_sizes"].split(",")]
    members = [
        [int(index) for index in group.split()] for group in logged["rebuilt_per_bucket_param_indices"].split(",")
    ]
    work = _backward_flop(network)
    total = sum(work)
    done, buckets = 0.0, []
    for size, indices in zip(sizes, members, strict=True):
        done += sum(work[index] for index in indices)
        buckets.append({"bytes": size, "ready_share": done / total})
    return buckets


def _backward_flop(network: nn.Module) -> list[int]:
    """Work of the backward pass that comes with each parameter's gradient, in the order of `parameters()`.

    A layer's gradients of weights and of inputs come together, and cost about twice its forward pass.
    """
    with FlopCounterMode(display=False) as counter:
        network(torch.zeros(2, *IMAGE))
    of_module: dict[str, int] = defaultdict(int)
    for name, counts in counter.get_flop_counts().items():
        of_module[name.partition(".")[2]] = sum(counts.values())
    # Only weights stand for work; biases and normalisation come with none that the counter counts.
    return [
        of_module[name.rpartition(".")[0]] if name.endswith("weight") else 0 for name, _ in network.named_parameters()
    ]


def _chunks(tensors: list[torch.Tensor]) -> list[int]:
    """Bytes of the pieces that DataParallel moves these tensors in."""
    return [
        sum(tensor.numel() * tensor.element_size() for tensor in chunk) for chunk in _take_tensors(tensors, CHUNK_BYTES)
    ]


def _of_types(tensors: list[torch.Tensor]) -> list[int]:
    """Bytes of the pieces that DDP broadcasts these tensors in, before every forward pass: one for each type of number,
    as long as they are smaller than DDP's limit of 250 MiB."""
    sizes: dict[torch.dtype, int] = defaultdict(int)
    for tensor in tensors:
        sizes[tensor.dtype] += tensor.numel() * tensor.element_size()
    return list(sizes.values())

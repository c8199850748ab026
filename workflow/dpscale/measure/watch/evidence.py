"""Evidence that workers share the order of their samples, and the statistics of their batch-norm layers, or do not."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from zlib import crc32

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm


def order_of_samples(order: Tensor, before: Tensor | None) -> tuple[float, float, float]:
    """Compare a worker's order of samples with that of the epoch `before`, which is None in the first epoch.

    Returns a checksum (CRC-32), equal for equal orders; the share of the images that this worker had in the epoch
    before too; and the share that stands at the same place. Both shares are NaN in the first epoch.
    """
    checksum = float(crc32(order.numpy().tobytes()))
    if before is None:
        return checksum, math.nan, math.nan
    seen_before, same_place = torch.isin(order, before), order == before
    return checksum, float(seen_before.double().mean()), float(same_place.double().mean())


Statistics = tuple[Tensor, Tensor]  # running means and running variances of all batch-norm channels, on the CPU


def running_statistics(network: nn.Module) -> Statistics:
    """Return the running statistics of all batch-norm layers of a module."""
    layers = list(_norm_layers(network))
    return (
        torch.cat([layer.running_mean.cpu() for layer in layers]),
        torch.cat([layer.running_var.cpu() for layer in layers]),
    )


@contextmanager
def replicas_statistics(network: nn.Module, seen: list[Statistics]) -> Iterator[None]:
    """Put into `seen`, on leaving, the running statistics of every replica that DataParallel made of `network` within.

    A replica and its statistics are deleted after its forward pass. Hooks are copied with it to its device.
    """
    copies: dict[torch.device, list[tuple[int, Tensor, Tensor]]] = {}

    def note(number: int) -> Any:
        def hook(layer: Any, _inputs: Any, _output: Any) -> None:
            copy = number, layer.running_mean.clone(), layer.running_var.clone()
            copies.setdefault(layer.running_mean.device, []).append(copy)

        return hook

    handles = [layer.register_forward_hook(note(number)) for number, layer in enumerate(_norm_layers(network))]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
    for device in sorted(copies, key=lambda device: device.index or 0):
        layers = sorted(copies[device], key=lambda copy: copy[0])
        seen.append((torch.cat([mean.cpu() for _, mean, _ in layers]), torch.cat([var.cpu() for *_, var in layers])))


def compare_statistics(workers: Sequence[Statistics], kept: Statistics) -> dict[str, Any]:
    """Compare the workers' statistics with each other, and with those `kept` in the network that is tested.

    `difference` is the largest of all channels between any two workers' running means, in running standard deviations
    of the network that is kept; `kept` are the workers with exactly its statistics.
    """
    means = torch.stack([mean for mean, _ in workers])
    spread = (means.amax(dim=0) - means.amin(dim=0)) / (kept[1].sqrt() + torch.finfo(torch.float32).tiny)
    return {
        "difference": float(spread.max()),
        "kept": [
            number
            for number, (mean, variance) in enumerate(workers)
            if torch.equal(mean, kept[0]) and torch.equal(variance, kept[1])
        ],
    }


def _norm_layers(network: nn.Module) -> Iterator[Any]:
    return (layer for layer in network.modules() if isinstance(layer, _BatchNorm))

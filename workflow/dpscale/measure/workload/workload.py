"""A workload: what is trained, as plain functions, and how its samples are shared out among ranks."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.data import Dataset

from dpscale.measure.workload.batches import Batch

# This rank, the ranks, samples per step of a rank.
Share = tuple[int, int, int]
Collate = Callable[[list[Any]], Batch]


@dataclass(frozen=True)
class Workload:
    """The functions of a training step. A worker does not ask whether they came with dpscale.

    `network` is in float32 on the CPU. `dataset` is map-style: it has a length, and items by number. `loss` is a scalar
    of a network, which a strategy may have wrapped, and a batch on its device, and calls the network once. `optimiser`
    takes the parameters; where there is none, the study's SGD does. `collate` makes a batch of a list of items; where
    there is none, torch does.

    The fields below `path` are set where a workload can do better than its functions say.
    """

    name: str
    network: Callable[[], nn.Module]
    dataset: Callable[[], Dataset[Any]]
    loss: Callable[[nn.Module, Batch], Tensor]
    optimiser: Callable[[Iterable[nn.Parameter]], Optimizer] | None = None
    collate: Collate | None = None
    # The file that it is written in, and its checksum; None for the built-in workload.
    path: Path | None = None
    sha256: str | None = None
    # The batches of an epoch that is stored ready for the network: for a share, in pinned memory or not, and a layout.
    stored_epoch: Callable[[Share, bool, torch.memory_format], Sequence[Batch]] | None = None
    # Epochs that a device makes of samples in its own memory: for a share, a layout and a seed.
    device_epochs: Callable[[Share, torch.device, torch.memory_format, int], Any] | None = None
    # Raises WorkloadError where a network cannot be the result of a training. After the clock.
    verify: Callable[[nn.Module], None] | None = None
    # So many samples on a device, without a dataset.
    made_up: Callable[[int, torch.device], Batch] | None = None


def samples_per_rank(samples: int, workers: int) -> int:
    """Return the samples per rank and epoch: DistributedSampler pads to equal shares."""
    return -(-samples // workers)


def order_of_epoch(samples: int, rank: int, workers: int, seed: int) -> Tensor:
    """Return the samples of a rank in an epoch that is shuffled with `seed`, in order, (samples per rank,).

    As DistributedSampler draws and pads them, but without its lists, which hold the GPU up when an epoch starts.
    """
    order = torch.randperm(samples, generator=torch.Generator().manual_seed(seed))
    padding = -samples % workers
    return torch.cat([order, order[:padding]])[rank::workers]

"""Batches as any tree of tensors: tuples, lists and dictionaries, as deep as a user likes."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils._pytree import tree_leaves, tree_map_only
from torch.utils.data import Dataset

Batch = Any  # a tree; the first dimension of its tensors counts samples
Step = Callable[[Batch], None]  # trains with one batch
IMAGE_DIMENSIONS = 4


def to_device(batch: Batch, device: torch.device, memory_format: torch.memory_format) -> Batch:
    """Return `batch` on `device`, copied without waiting; tensors of images get the layout `memory_format`."""

    def copied(leaf: Tensor) -> Tensor:
        if leaf.dim() == IMAGE_DIMENSIONS and leaf.is_floating_point():
            return leaf.to(device, non_blocking=True, memory_format=memory_format)
        return leaf.to(device, non_blocking=True)

    return mapped(copied, batch)


def in_host_memory(batch: Batch, pinned: bool, memory_format: torch.memory_format) -> Batch:
    """Return `batch` as a step can copy it: in the layout of `memory_format`, and in pinned memory for a GPU."""

    def prepared(leaf: Tensor) -> Tensor:
        if leaf.dim() == IMAGE_DIMENSIONS and leaf.is_floating_point():
            leaf = leaf.contiguous(memory_format=memory_format)
        if pinned:
            return leaf.pin_memory()
        # A tensor from a process of the DataLoader is a file in shared memory, of which a process can hold few.
        return leaf.clone() if leaf.is_shared() else leaf

    return mapped(prepared, batch)


def mapped(function: Callable[[Tensor], Tensor], batch: Batch) -> Batch:
    """Return a tree with `function` of each of its tensors.

    Most batches are a plain tuple or list of tensors. Every step goes through one, and torch's walk of a tree takes
    several microseconds: these are walked here.
    """
    if isinstance(batch, Tensor):
        return function(batch)
    if type(batch) in (tuple, list):
        return type(batch)([mapped(function, branch) for branch in batch])
    return tree_map_only(Tensor, function, batch)


def tensors(batch: Batch) -> list[Tensor]:
    """Return the tensors of a tree, in its order."""
    if isinstance(batch, Tensor):
        return [batch]
    if type(batch) in (tuple, list):
        return [tensor for branch in batch for tensor in tensors(branch)]
    return [leaf for leaf in tree_leaves(batch) if isinstance(leaf, Tensor)]


def length(batch: Batch) -> int:
    """Return the samples of a batch: the first dimension of its first tensor that has one. 0 where there is none."""
    return next((len(tensor) for tensor in tensors(batch) if tensor.dim()), 0)


def size_bytes(batch: Batch) -> int:
    """Return the bytes of all tensors of a tree."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors(batch))


def first(batch: Batch, samples: int) -> Batch:
    """Return the first `samples` of a batch."""
    return slice_of(batch, 0, samples)


def slice_of(batch: Batch, start: int, end: int) -> Batch:
    """Return the samples of a batch from `start` to before `end`. A tensor that does not count samples stays as it
    is."""
    samples = length(batch)

    def cut(leaf: Tensor) -> Tensor:
        return leaf[start:end] if leaf.dim() and len(leaf) == samples else leaf

    return mapped(cut, batch)


def shares(batch: Batch, parts: int) -> Iterator[Batch]:
    """Return a batch in `parts` shares, as `Tensor.chunk` cuts."""
    share = -(-length(batch) // parts)
    return (slice_of(batch, number * share, (number + 1) * share) for number in range(parts))


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

    network: Callable[[], nn.Module]
    dataset: Callable[[], Dataset[Any]]
    loss: Callable[[nn.Module, Batch], Tensor]
    optimiser: Callable[[Iterable[nn.Parameter]], Optimizer] | None = None
    collate: Collate | None = None
    # The file that it is written in; None for the built-in workload.
    path: Path | None = None
    # The batches of an epoch that is stored ready for the network: for a share, in pinned memory or not, and a layout.
    stored_epoch: Callable[[Share, bool, torch.memory_format], Sequence[Batch]] | None = None
    # Epochs that a device makes of samples in its own memory: for a share, a layout and a seed.
    device_epochs: Callable[[Share, torch.device, torch.memory_format, int], Any] | None = None
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

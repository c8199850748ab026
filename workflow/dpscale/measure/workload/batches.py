"""Batches as any tree of tensors: tuples, lists and dictionaries, as deep as a user likes."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

Batch = Any  # a tree; the first dimension of its tensors counts samples
IMAGE_DIMENSIONS = 4


def to_device(batch: Batch, device: torch.device, memory_format: torch.memory_format) -> Batch:
    """`batch` on `device`, copied without waiting; what has the form of images in the layout `memory_format`."""

    def copied(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor):
            return leaf
        if leaf.dim() == IMAGE_DIMENSIONS and leaf.is_floating_point():
            return leaf.to(device, non_blocking=True, memory_format=memory_format)
        return leaf.to(device, non_blocking=True)

    return tree_map(copied, batch)


def in_host_memory(batch: Batch, pinned: bool, memory_format: torch.memory_format) -> Batch:
    """`batch` as a step can copy it: in the layout of `memory_format`, and in pinned memory for a GPU."""

    def prepared(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor):
            return leaf
        if leaf.dim() == IMAGE_DIMENSIONS and leaf.is_floating_point():
            leaf = leaf.contiguous(memory_format=memory_format)
        return leaf.pin_memory() if pinned else leaf

    return tree_map(prepared, batch)


def tensors(batch: Batch) -> list[Tensor]:
    """The tensors of a tree, in its order."""
    return [leaf for leaf in tree_leaves(batch) if isinstance(leaf, Tensor)]


def length(batch: Batch) -> int:
    """Samples of a batch: the first dimension of its first tensor that has one. 0 where there is none."""
    return next((len(tensor) for tensor in tensors(batch) if tensor.dim()), 0)


def size_bytes(batch: Batch) -> int:
    """Bytes of all tensors of a tree."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors(batch))


def first(batch: Batch, samples: int) -> Batch:
    """The first `samples` of a batch. What does not count samples stays as it is."""
    return part(batch, 0, samples)


def part(batch: Batch, start: int, end: int) -> Batch:
    """The samples of a batch from `start` to before `end`."""
    whole = length(batch)

    def cut(leaf: Any) -> Any:
        counts = isinstance(leaf, Tensor) and leaf.dim() > 0 and len(leaf) == whole
        return leaf[start:end] if counts else leaf

    return tree_map(cut, batch)


def shares(batch: Batch, parts: int) -> Iterator[Batch]:
    """A batch in `parts` shares, as `Tensor.chunk` cuts."""
    share = -(-length(batch) // parts)
    return (part(batch, number * share, (number + 1) * share) for number in range(parts))


def same_form(batch: Batch, other: Batch) -> bool:
    """Whether two batches have tensors of the same sizes."""
    return _sizes(batch) == _sizes(other)


def _sizes(batch: Batch) -> Sequence[torch.Size]:
    return [tensor.shape for tensor in tensors(batch)]

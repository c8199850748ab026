"""The DataLoader of a script: how long it takes, which samples it hands out, and batches kept in its place."""

from __future__ import annotations

import copy
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from weakref import ref

import torch
from torch.utils.data import DataLoader
from torch.utils.data import dataloader as of_torch

from .events import EVENTS
from .hooks import NOW, wrap

clock = time.perf_counter
KEPT = 4  # batches that take turns
SKETCH = 512  # smallest hashes of an epoch's samples: those of two ranks share as many as the ranks share samples


class Source:
    """One DataLoader, or equal ones. Keeps nothing of the script alive, but for the batches of a block."""

    def __init__(self, facts: dict[str, Any]) -> None:
        self.facts = facts
        self.epochs = 0
        self.born = NOW.step
        self.steps = 0  # optimiser steps with a batch of it
        self.last_step = -1
        self.samples = 0  # handed out in the first epoch
        self.batch: int | None = None
        self.hashes: set[int] = set()
        self.kept: list[tuple[Any, int]] = []
        self.turn = 0
        self.shapes: set[Any] = set()
        self.iterator: Any = None

    def trains(self) -> bool:
        """Whether at least half of the steps since it began took a batch of it."""
        steps = NOW.step - self.born
        return steps >= 2 and 2 * self.steps >= steps

    def note_samples(self, hashes: list[int]) -> None:
        self.samples += len(hashes)
        self.hashes.update(hashes)
        if len(self.hashes) > 4 * SKETCH:
            self.hashes = set(sorted(self.hashes)[:SKETCH])

    def note_batch(self, batch: Any) -> None:
        if self.last_step != NOW.step:
            self.last_step = NOW.step
            self.steps += 1
        tensors = list(tensors_of(batch))
        shapes = tuple(tensor.shape for tensor in tensors)
        if shapes not in self.shapes and not EVENTS.search_off:  # cuDNN then searches later
            self.shapes.add(shapes)
            LOADING.new_shape = True
            if self.batch is None and tensors and tensors[0].dim():
                self.batch = tensors[0].shape[0]

    def keep(self, batch: Any) -> None:
        self.kept.append((batch, changes(batch)))

    def serve(self) -> Any:
        """A kept batch, in containers of its own. A batch that the script changes in place is kept no longer."""
        self.turn = (self.turn + 1) % len(self.kept)
        batch, before = self.kept[self.turn]
        if changes(batch) != before:
            LOADING.in_place = True
            self.kept.clear()
            return None
        return same_in_new_containers(batch)


class Loading:
    """What all loaders have done, and whether they are to keep their batches."""

    def __init__(self) -> None:
        self.sources: dict[tuple[Any, ...], Source] = {}
        self.seconds = 0.0  # in `next`
        self.start_s = 0.0  # to begin epochs, and in their first `next`
        self.starts: list[float] = []
        self.keeping = False
        self.in_place = False
        self.new_shape = False  # since the last step

    def release(self) -> None:
        self.keeping = False
        for source in self.sources.values():
            source.kept.clear()

    def of_training(self) -> list[Source]:
        """The most used first."""
        return sorted(filter(Source.trains, self.sources.values()), key=lambda source: -source.steps)

    def queued(self) -> int:
        """Batches that workers make ahead."""
        loaders = [source.facts for source in self.of_training()]
        return max((facts["workers"] * (facts["prefetch_factor"] or 0) for facts in loaders), default=0)


LOADING = Loading()


def tensors_of(batch: Any, depth: int = 0) -> Iterator[torch.Tensor]:
    if isinstance(batch, torch.Tensor):
        yield batch
    elif depth < 3:
        inner = batch if isinstance(batch, (list, tuple)) else None
        if inner is None and hasattr(batch, "values") and callable(batch.values):
            inner = batch.values()
        for value in inner or ():
            yield from tensors_of(value, depth + 1)


def changes(batch: Any) -> int:
    """How often its tensors were written to in place."""
    return sum(int(tensor._version) for tensor in tensors_of(batch) if not tensor.is_inference())


def same_in_new_containers(batch: Any) -> Any:
    """The same tensors, so that a script may take entries out of a batch."""
    if isinstance(batch, torch.Tensor):
        return batch
    if type(batch) is dict:
        return {key: same_in_new_containers(value) for key, value in batch.items()}
    if type(batch) in (list, tuple):
        return type(batch)(map(same_in_new_containers, batch))
    return copy.copy(batch)


def hash_of(sample: Any) -> int:
    """Of an index, or of the bytes of a sample: 32 bits, well mixed."""
    return zlib.crc32(sample if isinstance(sample, bytes) else str(sample).encode())


def hashes_of(batch: Any) -> list[int]:
    """Of each sample of the batch's first tensor, by 64 of its numbers."""
    first = next((tensor for tensor in tensors_of(batch) if tensor.dim() and not tensor.is_cuda), None)
    if first is None or first.dtype == torch.bfloat16:
        return []
    flat = first.detach().reshape(first.shape[0], -1)
    few = flat[:, :: max(1, flat.shape[1] // 64)].contiguous()
    return [hash_of(row.numpy().tobytes()) for row in few]


def install() -> None:
    wrap(DataLoader, "__iter__", _iter)
    wrap(of_torch._BaseDataLoaderIter, "__next__", _next)
    wrap(of_torch._BaseDataLoaderIter, "_next_index", _next_index)


def _iter(real: Callable[..., Any]) -> Callable[..., Any]:
    def begin(self: Any) -> Any:
        began = clock()
        found = described(self)
        source = LOADING.sources.setdefault(tuple(found.values()), Source(found))
        source.epochs += 1
        STARTING.append(source)
        try:
            iterator = real(self)
        finally:
            STARTING.pop()
        iterator.dpscale_source = source
        source.iterator = ref(iterator)
        iterator.dpscale_served = 0
        iterator.dpscale_ends = _length(iterator)
        iterator.dpscale_began = clock() - began
        NOW.border = NOW.border or "epoch"
        return iterator

    return begin


STARTING: list[Source] = []  # an iterator with workers asks for indices before it is handed over


def _length(iterator: Any) -> int | None:
    try:
        return len(iterator)
    except TypeError:
        return None


def _next(real: Callable[..., Any]) -> Callable[..., Any]:
    def following(self: Any) -> Any:
        source = getattr(self, "dpscale_source", None)
        if source is None:
            return real(self)
        began = clock()
        if self.dpscale_served == self.dpscale_ends and self.dpscale_ends:
            # Batches of other blocks stood in for some of its own: an epoch stays as long as the script expects.
            self.dpscale_served += 1
            if getattr(self, "dpscale_stood_in", False):
                raise StopIteration
        batch = None
        training = source.trains()
        if LOADING.keeping and len(source.kept) >= KEPT and training:
            batch = source.serve()
            self.dpscale_stood_in = batch is not None
        if batch is None:
            batch = real(self)
            if LOADING.keeping and not LOADING.in_place:
                source.keep(batch)
                batch = same_in_new_containers(batch)
        self.dpscale_served += 1
        seconds = clock() - began
        LOADING.seconds += seconds if training else 0.0
        if self.dpscale_served == 1:
            LOADING.starts.append(self.dpscale_began + seconds)
            LOADING.start_s += LOADING.starts[-1]
        if source.epochs == 1 and self._dataset_kind == of_torch._DatasetKind.Iterable and len(source.hashes) < SKETCH:
            source.note_samples(hashes_of(batch))
        source.note_batch(batch)
        return batch

    return following


def _next_index(real: Callable[..., Any]) -> Callable[..., Any]:
    def hook(self: Any) -> Any:
        index = real(self)
        source = STARTING[-1] if STARTING else getattr(self, "dpscale_source", None)
        if source is not None and source.epochs == 1 and self._dataset_kind == of_torch._DatasetKind.Map:
            source.note_samples([hash_of(one) for one in (index if isinstance(index, (list, tuple)) else [index])])
        return index

    return hook


def threads_in_worker(source: Source) -> int | None:
    """The most threads that a worker has now. None without workers."""
    workers = getattr(source.iterator and source.iterator(), "_workers", ())
    counts = [len(list(Path(f"/proc/{worker.pid}/task").glob("*"))) for worker in workers]
    return max(counts, default=None)


def described(loader: Any) -> dict[str, Any]:
    """What tells one loader of a script from its others, also where it is made anew for every epoch."""
    dataset = loader.dataset
    return {
        "class": type(loader).__name__,
        "workers": loader.num_workers,
        "batches": _length(loader),
        "samples": _length(dataset) if hasattr(dataset, "__len__") else None,
        "batch_size": loader.batch_size,
        "pin_memory": bool(loader.pin_memory),
        "persistent_workers": bool(loader.persistent_workers),
        "prefetch_factor": loader.prefetch_factor,
        "sampler": type(loader.sampler).__name__,
        "iterable": loader._dataset_kind == of_torch._DatasetKind.Iterable,
    }


def facts() -> dict[str, Any] | None:
    """Of the loader that most steps took a batch of. None without one."""
    source = next(iter(LOADING.of_training()), None)
    if source is None:
        return None
    return {
        **source.facts,
        "epochs_started": source.epochs,
        "threads_in_worker": threads_in_worker(source),
        "starts_s": [round(seconds, 5) for seconds in LOADING.starts[:200]],
        "samples_of_first_epoch": source.samples,
        "hashes": [format(value, "08x") for value in sorted(source.hashes)[:SKETCH]],
        "shapes": len(source.shapes),
    }

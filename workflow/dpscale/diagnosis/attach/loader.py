"""The DataLoader of a script: how long it takes, which samples it hands out, and batches kept in its place."""

from __future__ import annotations

import copy
import time
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from weakref import ref

import torch
from torch.utils.data import DataLoader
from torch.utils.data import dataloader as of_torch

from .calls import EVENTS, in_new_containers, tensors_of
from .hooks import ACCOUNT, NOW, Hooked, Json, Places

clock = time.perf_counter
KEPT = 4  # batches that take turns
# Of a dataset: values that tell a list, and an array or a text; attributes of an object; objects inside one another.
FEW, FEW_OF_ARRAY, ATTRIBUTES, DEEPEST = 16, 1024, 64, 3
SENDS = 2  # threads of a worker of which one may only send
SKETCH = 512  # smallest hashes of an epoch's samples: those of two ranks share as many as the ranks share samples


class LoaderFacts(NamedTuple):
    """Facts that tell one loader of a script from its others, also where it is made anew for every epoch."""

    workers: int
    batches: int | None
    samples: int | None
    iterable: bool
    ahead: int  # batches that each worker makes ahead
    batch_size: int | None
    sampler: str

    @classmethod
    def of(cls, loader: Any) -> LoaderFacts:
        is_iterable = loader._dataset_kind == of_torch._DatasetKind.Iterable
        sizes = _length(loader), _length(loader.dataset)
        ahead, sampler = loader.prefetch_factor or 0, type(loader.sampler).__name__
        return cls(loader.num_workers, *sizes, is_iterable, ahead, loader.batch_size, sampler)


class Source:
    """One DataLoader, or equal ones. Keeps nothing of the script alive, but for the batches of a block."""

    def __init__(self, facts: LoaderFacts) -> None:
        self.facts = facts
        self.born = NOW.step
        self.epochs = self.turn = 0
        self.steps, self.last_step = 0, -1  # optimiser steps with a batch of it
        self.batch: int | None = None
        self.hashes: set[int] = set()
        self.of_dataset = 0  # what they begin with
        self.kept: list[tuple[Any, int]] = []
        self.shapes: set[Any] = set()
        self.iterator: Any = None

    def trains(self) -> bool:
        """Whether at least half of the steps since it began took a batch of it."""
        steps = NOW.step - self.born
        return steps >= 2 and 2 * self.steps >= steps

    def note_samples(self, samples: Sequence[bytes]) -> None:
        """Note the samples of the first epoch: their indices in this dataset, or their contents."""
        self.hashes.update(zlib.crc32(sample, self.of_dataset) for sample in samples)
        if len(self.hashes) > 4 * SKETCH:
            self.hashes = set(sorted(self.hashes)[:SKETCH])

    def note_batch(self, batch: Any) -> None:
        if self.last_step != NOW.step:
            self.last_step = NOW.step
            self.steps += 1
        shapes = tuple(tensor.shape for tensor in tensors_of(batch))
        size = shapes[0][0] if shapes and shapes[0] else 0
        self.batch = self.batch or size or None
        if self.trains():
            LOADING.samples += size
        if shapes not in self.shapes and not EVENTS.search_off:  # cuDNN then searches later
            self.shapes.add(shapes)
            EVENTS.new_shape = True

    def serve(self) -> Any:
        """A kept batch, in containers of its own. A batch that the script changes in place is kept no longer."""
        self.turn = (self.turn + 1) % len(self.kept)
        batch, before = self.kept[self.turn]
        if changes(batch) != before:
            LOADING.unkept = True
            self.kept.clear()
            return None
        return same_in_new_containers(batch)

    def threads_in_worker(self) -> int | None:
        """The most threads that have computed in a worker. None without workers.

        They have worked for a quarter of the time of the busiest one: others wait. A second one alone may send batches,
        which takes as long as to make small ones.
        """
        workers = getattr(self.iterator and self.iterator(), "_workers", ())
        ticks = [_ticks_of_threads(worker.pid) for worker in workers]
        counts = [sum(4 * busy > max(of_worker) for busy in of_worker) for of_worker in ticks if of_worker]
        return max((count for count in counts if count > SENDS), default=1) if counts else None


def _ticks_of_threads(pid: int) -> list[int]:
    """Return the ticks that each thread of a process has worked (man 5 proc)."""
    ticks = []
    for thread in Path(f"/proc/{pid}/task").glob("*/stat"):
        with suppress(OSError):  # it ended meanwhile
            ticks.append(sum(map(int, thread.read_text().rpartition(")")[2].split()[11:13])))
    return ticks


class EpochOfLoader:
    """One pass through a DataLoader, whose iterator is torch's."""

    def __init__(self, source: Source, iterator: Any, start_s: float, starts_workers: bool) -> None:
        self.source, self.start_s, self.ends = source, start_s, _length(iterator)
        self.starts_workers = starts_workers
        self.served = 0
        self.stood_in = False  # kept batches for some of its own

    def next(self, load: Callable[[], Any]) -> Any:
        """A batch, and what it took. An epoch stays as long as the script expects."""
        began = clock()
        source, training = self.source, self.source.trains()
        # A thread of the script reads ahead: no step waits here, and kept batches would come in between.
        is_ahead = ACCOUNT.is_elsewhere()
        LOADING.unkept |= is_ahead
        NOW.evaluates |= not training and not torch.is_grad_enabled()
        part = "loading" if training or not (NOW.evaluates or NOW.border == "evaluation") else "evaluation"
        ACCOUNT.begin(part)
        try:
            batch = self._batch(training, load)
        finally:
            ACCOUNT.end(part)
        self.served += 1
        seconds = clock() - began
        LOADING.seconds += seconds if training and not is_ahead else 0.0
        if self.served == 1:
            NOW.spent["loader start"] += self.start_s + seconds
            if self.starts_workers:
                LOADING.worker_starts.append(self.start_s + seconds)
        if source.facts.iterable and source.epochs == 1 and len(source.hashes) < SKETCH:
            source.note_samples(samples_in(batch))
        source.note_batch(batch)
        return batch

    def _batch(self, training: bool, load: Callable[[], Any]) -> Any:
        """A batch of the loader, or a kept one in its place."""
        source = self.source
        if self.stood_in and self.served == self.ends:
            raise StopIteration
        batch = None
        if LOADING.keeping and training and len(source.kept) >= KEPT:
            batch = source.serve()
            self.stood_in |= batch is not None
        if batch is None:
            batch = load()
            if LOADING.keeping and training and not LOADING.unkept:
                source.kept.append((batch, changes(batch)))
                batch = same_in_new_containers(batch)
        return batch


class Loading:
    """State of all loaders: the work done so far, and whether they are to keep their batches."""

    def __init__(self) -> None:
        self.sources: dict[LoaderFacts, Source] = {}
        self.starting: list[Source] = []  # an iterator with workers asks for indices before it is handed over
        self.seconds = 0.0  # in `next`
        self.samples = 0  # of batches that steps took
        # To begin epochs that start workers, and in their first `next`; since the warm-up.
        self.worker_starts: list[float] = []
        self.keeping = self.unkept = False

    def release(self) -> None:
        self.keeping = False
        for source in self.sources.values():
            source.kept.clear()

    def of_training(self) -> list[Source]:
        """The most used first."""
        return sorted(filter(Source.trains, self.sources.values()), key=lambda source: -source.steps)

    def shapes_change(self) -> bool:
        """Beyond the last batch of an epoch, which can be smaller."""
        return any(len(source.shapes) > 2 for source in self.of_training())

    def queued(self) -> int:
        """Batches that workers make ahead."""
        return max((source.facts.workers * source.facts.ahead for source in self.of_training()), default=0)

    def report(self) -> Json:
        """Report the loader that most steps took a batch of. Nothing without one."""
        source = next(iter(self.of_training()), None)
        if source is None:
            return {"loader": None, "batch": None}
        hashes = [format(value, "08x") for value in sorted(source.hashes)[:SKETCH]]
        loader = {"threads_in_worker": source.threads_in_worker(), "hashes": hashes}
        loader.update(list(source.facts._asdict().items())[:4])
        return {"loader": loader, "batch": source.batch}


LOADING = Loading()


def changes(batch: Any) -> int:
    """How often its tensors were written to in place."""
    return sum(int(tensor._version) for tensor in tensors_of(batch) if not tensor.is_inference())


def same_in_new_containers(batch: Any) -> Any:
    """Return a batch with the same tensors, so that a script may take entries out of it."""
    return in_new_containers(batch, lambda value: value if isinstance(value, torch.Tensor) else copy.copy(value))


def samples_in(batch: Any) -> list[bytes]:
    """64 numbers of each sample of the batch's first tensor."""
    first = next((tensor for tensor in tensors_of(batch) if tensor.dim() and not tensor.is_cuda), None)
    if first is None or first.dtype == torch.bfloat16:
        return []
    flat = first.detach().reshape(first.shape[0], -1)
    few = flat[:, :: max(1, flat.shape[1] // 64)].contiguous()
    return [row.numpy().tobytes() for row in few]


def hash_of_dataset(value: Any, depth: int = 0) -> int:
    """Return a hash of a few of the values that a dataset holds: ranks that were given parts of it differ in them."""
    content: Any = ()
    with suppress(Exception):  # one that cannot be looked into is told by its class
        if isinstance(value, (int, float)):
            content = value
        elif isinstance(value, (str, bytes)):
            content = _few(value, FEW_OF_ARRAY)
        elif hasattr(value, "ndim"):  # an array or a table, of which a few rows may be copied
            rows = _few(value, FEW) if value.ndim else value
            rows = rows.to_numpy() if hasattr(rows, "to_numpy") else rows
            content = _few(rows.reshape(-1), FEW_OF_ARRAY).tolist()
        elif depth < DEEPEST:
            if isinstance(value, (list, tuple, range)):
                inner = _few(value, FEW)
            elif isinstance(value, dict):
                inner = _few(list(value.values()), FEW)
            else:
                inner = list(vars(value).values())[:ATTRIBUTES]
            content = [hash_of_dataset(part, depth + 1) for part in inner]
    return zlib.crc32(repr((type(value).__name__, _length(value), content)).encode())


def _few(values: Any, most: int) -> Any:
    """Return up to so many of a sequence, from all over it."""
    return values[:: len(values) // most + 1]


def _length(sized: Any) -> int | None:
    try:
        return len(sized)
    except Exception:  # it has none, or says so with an error of its own
        return None


def _iter(real: Hooked) -> Hooked:
    def begin(self: Any) -> Any:
        began = clock()
        facts = LoaderFacts.of(self)
        source = LOADING.sources.setdefault(facts, Source(facts))
        source.epochs += 1
        if source.epochs == 1 and not facts.iterable:
            source.of_dataset = hash_of_dataset(self.dataset)
        LOADING.starting.append(source)
        ACCOUNT.begin("loading")
        try:
            iterator = real(self)
        finally:
            ACCOUNT.end("loading")
            LOADING.starting.pop()
        source.iterator = ref(iterator)
        starts_workers = self.num_workers > 0 and not self.persistent_workers
        iterator.dpscale_epoch = EpochOfLoader(source, iterator, clock() - began, starts_workers)
        NOW.border = NOW.border or "epoch"
        return iterator

    return begin


def _next(real: Hooked) -> Hooked:
    def following(self: Any) -> Any:
        epoch = getattr(self, "dpscale_epoch", None)
        return real(self) if epoch is None else epoch.next(partial(real, self))

    return following


def _next_index(real: Hooked) -> Hooked:
    def hook(self: Any) -> Any:
        index = real(self)
        epoch = getattr(self, "dpscale_epoch", None)
        source = LOADING.starting[-1] if LOADING.starting else epoch and epoch.source
        if source is not None and source.epochs == 1 and not source.facts.iterable:
            indices = index if isinstance(index, (list, tuple)) else [index]
            source.note_samples([str(sample).encode() for sample in indices])
        return index

    return hook


BATCHES: Places = (
    (DataLoader, "__iter__", _iter),
    (of_torch._BaseDataLoaderIter, "__next__", _next),
)
PLACES: Places = (
    *BATCHES,
    (of_torch._BaseDataLoaderIter, "_next_index", _next_index),
)

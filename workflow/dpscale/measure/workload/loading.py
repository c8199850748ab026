"""Samples as batches: by a DataLoader, epoch after epoch, or gathered once in host memory."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, DistributedSampler, Subset, default_collate

from dpscale.errors import WorkloadError
from dpscale.measure.parent import end_with_parent
from dpscale.measure.workload.batches import Batch, Collate, Share, Workload, order_of_epoch, size_bytes


def samples_of_epoch(workload: Workload, samples: int) -> Dataset[Any]:
    """Return so many samples of the workload's dataset: a random choice, always the same. Raises WorkloadError where it
    has fewer."""
    dataset = workload.dataset()
    available = len(dataset)  # type: ignore[arg-type]
    if available < samples:
        raise WorkloadError(
            f"workload: {workload.path}: its dataset has {available} samples, an epoch is to have "
            f"{samples}: set dataset.images to at most {available}"
        )
    if available == samples:
        return dataset
    chosen = torch.randperm(available, generator=torch.Generator().manual_seed(0))[:samples]
    return Subset(dataset, chosen.tolist())


class LoadedEpochs:
    """A DataLoader whose epochs are each shuffled anew; iterating it is one epoch."""

    def __init__(
        self, samples: Dataset[Any], share: Share, loader_workers: int, pinned: bool, collate: Collate | None = None
    ):
        rank, workers, batch = share
        self.sampler: DistributedSampler[Any] = DistributedSampler(samples, workers, rank)
        self.epoch = 0
        self.loader = DataLoader(
            samples,
            batch_size=batch,
            sampler=self.sampler,
            num_workers=loader_workers,
            pin_memory=pinned,
            collate_fn=collate,
            worker_init_fn=_end_with_rank,
        )

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[Batch]:
        self.sampler.set_epoch(self.epoch)
        self.epoch += 1
        return iter(self.loader)


@dataclass(frozen=True)
class Room:
    """The host memory of a process that gathered batches may take, and how many different ones are enough."""

    limit_bytes: float
    batches: int | None = None


def gathered_epoch(
    samples: Dataset[Any],
    share: Share,
    seed: int,
    loader_workers: int,
    room: Room,
    prepared: Callable[[Batch], Batch],
    collate: Collate | None = None,
) -> tuple[Sequence[Batch], int]:
    """Return a share's batches of an epoch in host memory, each `prepared`, and how many of them are different.

    Where there is no room for all of them, as many as fit are used in turn, at least one. An epoch's last batch, where
    it is smaller, is always there.
    """
    rank, workers, batch = share
    orders = [order.tolist() for order in order_of_epoch(len(samples), rank, workers, seed).split(batch)]  # type: ignore[arg-type]
    smaller = [order for order in orders if len(order) < batch]
    full = [order for order in orders if len(order) == batch]
    loader = DataLoader(
        samples,
        batch_sampler=[*smaller, *full[: room.batches]],
        num_workers=loader_workers,
        collate_fn=collate,
        worker_init_fn=_end_with_rank,
    )
    loaded = iter(loader)
    last = [prepared(next(loaded)) for _ in smaller]
    gathered: list[Batch] = []
    used_bytes = 0
    for loaded_batch in loaded:
        used_bytes += size_bytes(loaded_batch)
        if gathered and used_bytes > room.limit_bytes:
            break
        gathered.append(prepared(loaded_batch))
    return [*(gathered[number % len(gathered)] for number in range(len(full))), *last], len(gathered) + len(last)


def first_batch(samples: Dataset[Any], batch: int, collate: Collate | None) -> Batch:
    """Return a batch of the first samples, in order."""
    return (collate or default_collate)([samples[number] for number in range(batch)])


def _end_with_rank(_worker: int) -> None:
    end_with_parent()

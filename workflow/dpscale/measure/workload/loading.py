"""Samples as batches: by a DataLoader, epoch after epoch, or gathered once in host memory."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, DistributedSampler, Subset, default_collate

from dpscale.errors import WorkloadError
from dpscale.measure.parent import end_with_parent
from dpscale.measure.workload.batches import Batch, Collate, Share, Workload, in_host_memory, order_of_epoch, size_bytes


def samples_of_epoch(workload: Workload, samples: int) -> Dataset[Any]:
    """Return so many samples of the workload's dataset: a random choice, always the same. Raises WorkloadError where it
    has fewer."""
    dataset = workload.dataset()
    available = len(dataset)  # type: ignore[arg-type]
    if available < samples:
        raise WorkloadError(
            f"workload: {workload.path or workload.name}: its dataset has {available} samples, an epoch is to have "
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
        self.sampler: DistributedSampler[Any] | None = None
        if workers > 1:
            self.sampler = DistributedSampler(samples, workers, rank)
        self.epoch = 0
        self.loader = DataLoader(
            samples,
            batch_size=batch,
            shuffle=self.sampler is None,
            sampler=self.sampler,
            num_workers=loader_workers,
            pin_memory=pinned,
            collate_fn=collate,
            worker_init_fn=_end_with_rank,
        )

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[Batch]:
        if self.sampler is not None:
            self.sampler.set_epoch(self.epoch)
        self.epoch += 1
        return iter(self.loader)


@dataclass(frozen=True)
class Room:
    """The host memory of a process that gathered batches may take, and how many different ones are enough. `claim` is
    called with the bytes that are needed before they are taken: other batches can then be given back."""

    limit_bytes: float
    batches: int | None = None
    claim: Callable[[int], None] = lambda _needed_bytes: None


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
    orders = list(order_of_epoch(len(samples), rank, workers, seed).split(batch))  # type: ignore[arg-type]
    last = orders.pop() if len(orders[-1]) < batch else None
    gathered: list[Batch] = []
    used_bytes = 0
    for loaded in _loaded(samples, orders[: room.batches], loader_workers, collate):
        used_bytes += size_bytes(loaded)
        if gathered and used_bytes > room.limit_bytes:
            break
        room.claim(used_bytes)
        gathered.append(prepared(loaded))
    epoch = [gathered[number % len(gathered)] for number in range(len(orders))]
    if last is None:
        return epoch, len(gathered)
    smaller = next(_loaded(samples, [last], 0, collate))
    room.claim(used_bytes + size_bytes(smaller))
    return [*epoch, prepared(smaller)], len(gathered) + 1


# The batches of an epoch, and how many of them are different; None where they were not gathered, but are stored.
Epoch = tuple[Sequence[Batch], int | None]


class GatheredEpochs:
    """Epochs that are gathered once for all who time them, by share, as long as they have room together."""

    def __init__(self, limit_bytes: float):
        self._limit_bytes = limit_bytes
        self._kept: dict[Share, Epoch] = {}
        self._kept_bytes = 0

    def of(self, share: Share, gather: Callable[[Room], Epoch]) -> Epoch:
        """Return the epoch of a share, which `gather` makes in the room that it gets. A stored epoch is not kept."""
        if share in self._kept:
            return self._kept[share]
        batches, different = gather(Room(self._limit_bytes, claim=self._make_room))
        if different is not None:
            self._kept[share] = batches, different
            self._kept_bytes += sum(size_bytes(batch) for batch in {id(batch): batch for batch in batches}.values())
        return batches, different

    def give_back(self) -> None:
        """Keep none of them any longer."""
        self._kept.clear()
        self._kept_bytes = 0

    def _make_room(self, needed_bytes: int) -> None:
        if needed_bytes + self._kept_bytes > self._limit_bytes:
            self.give_back()


def _loaded(
    samples: Dataset[Any], orders: Sequence[Tensor], loader_workers: int, collate: Collate | None
) -> Iterator[Batch]:
    return iter(
        DataLoader(
            samples,
            batch_sampler=[order.tolist() for order in orders],
            num_workers=loader_workers,
            collate_fn=collate,
            worker_init_fn=_end_with_rank,
        )
    )


def first_batch(samples: Dataset[Any], batch: int, collate: Collate | None) -> Batch:
    """Return a batch of the first samples, in order."""
    return (collate or default_collate)([samples[number] for number in range(batch)])


def host_memory(pinned: bool, memory_format: torch.memory_format) -> Callable[[Batch], Batch]:
    """Return the function that prepares a batch for a step that copies it to a device."""
    return lambda batch: in_host_memory(batch, pinned, memory_format)


def _end_with_rank(_worker: int) -> None:
    end_with_parent()

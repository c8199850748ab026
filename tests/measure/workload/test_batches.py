"""Batches as trees of tensors, and samples as batches that are gathered once."""

import math
from collections import OrderedDict
from itertools import chain
from typing import Any, NamedTuple

import pytest
import torch

from dpscale.measure.workload.batches import (
    Workload,
    first,
    in_host_memory,
    length,
    mapped,
    shares,
    size_bytes,
    tensors,
    to_device,
)
from dpscale.measure.workload.loading import Room, gathered_epoch, samples_of_epoch

CPU = torch.device("cpu")


class Pair(NamedTuple):
    left: Any
    right: Any


IMAGES, LABELS = torch.arange(6 * 3 * 4 * 4.0).view(6, 3, 4, 4), torch.arange(6)


@pytest.mark.parametrize(
    "batch",
    [
        IMAGES,
        {"x": IMAGES, "more": [LABELS, ("name", 3)]},
        Pair(IMAGES, {"y": LABELS}),
        OrderedDict(x=IMAGES, y=None),
    ],
    ids=lambda tree: type(tree).__name__,
)
def test_a_tree_keeps_its_form(batch: Any) -> None:
    copied = mapped(lambda tensor: tensor + 1, batch)
    assert type(copied) is type(batch)
    assert all(torch.equal(a, b + 1) for a, b in zip(tensors(copied), tensors(batch), strict=True))
    assert len(tensors(batch)) == str(batch).count("tensor(")
    assert length(batch) == 6
    assert size_bytes(batch) == sum(tensor.nbytes for tensor in tensors(batch)) > 0


@pytest.mark.parametrize("place", [to_device, in_host_memory])
def test_only_tensors_of_images_get_their_layout(place: Any) -> None:
    where = {"device": CPU} if place is to_device else {"pinned": False}
    images, labels, masks = place((IMAGES, LABELS, IMAGES > 3), **where, memory_format=torch.channels_last)
    assert images.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(images, IMAGES) and torch.equal(labels, LABELS)
    assert masks.is_contiguous()


def test_batches_of_a_loaders_processes_are_copied_out_of_shared_memory() -> None:
    shared = LABELS.clone().share_memory_()
    kept, copied = in_host_memory([LABELS, shared], False, torch.contiguous_format)
    assert kept is LABELS
    assert torch.equal(copied, shared) and not copied.is_shared()


def test_only_tensors_that_count_samples_are_cut() -> None:
    scale, weights = torch.tensor(2.0), torch.ones(9)
    cut = first({"x": IMAGES, "y": LABELS, "scale": scale, "weights": weights}, 2)
    assert (len(cut["x"]), cut["y"].tolist(), cut["scale"], len(cut["weights"])) == (2, [0, 1], scale, 9)


@pytest.mark.parametrize("parts", [1, 2, 3, 4])
def test_shares_are_those_of_chunk(parts: int) -> None:
    cut = [labels.tolist() for _, labels in shares((IMAGES, LABELS), parts) if len(labels)]
    assert cut == [share.tolist() for share in LABELS.chunk(parts)]


SAMPLES: Any = [(torch.full((3,), float(number)), number) for number in range(21)]
BATCH_BYTES = 4 * (3 * 4 + 8)
EVERYTHING = Room(math.inf)


def epoch(room: Room = EVERYTHING, rank: int = 0, workers: int = 1, seed: int = 1) -> Any:
    """The numbers of the samples of every batch, and how many batches are different."""
    share = rank, workers, 4
    batches, different = gathered_epoch(SAMPLES, share, seed, 0, room, lambda batch: batch)
    return [labels.tolist() for _, labels in batches], different


def test_an_epoch_has_every_sample_once_in_an_order_of_its_seed() -> None:
    batches, different = epoch()
    assert [len(batch) for batch in batches] == [4, 4, 4, 4, 4, 1]
    assert sorted(chain(*batches)) == list(range(21))
    assert different == 6
    assert epoch() == (batches, 6)
    assert epoch(seed=2) != (batches, 6)


@pytest.mark.parametrize(("fit", "different"), [(0.5, 2), (1, 2), (2.9, 3), (5, 6)])
def test_as_many_batches_as_fit_are_used_in_turn_and_at_least_one(fit: float, different: int) -> None:
    """An epoch keeps its steps; its last batch, which is smaller, is always there."""
    everything, _ = epoch()
    full = different - 1
    batches = [everything[number % full] for number in range(5)] + everything[5:]
    assert epoch(Room(fit * BATCH_BYTES)) == (batches, different)


def test_no_more_batches_than_are_asked_for() -> None:
    batches, different = epoch(Room(math.inf, 2))
    assert (len(batches), different) == (6, 3)
    assert batches[0] == batches[2] != batches[1]


def test_fewer_samples_than_there_are_are_always_the_same_choice_from_all() -> None:
    workload = Workload(lambda: torch.nn.Linear(3, 1), lambda: SAMPLES, lambda *_: torch.zeros(()))
    datasets: Any = [samples_of_epoch(workload, 10) for _ in range(2)]
    chosen, again = ([label for _, label in dataset] for dataset in datasets)
    assert chosen == again
    assert len(set(chosen)) == 10 and max(chosen) > 10
    assert samples_of_epoch(workload, 21) is SAMPLES

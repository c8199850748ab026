"""Samples as batches that are gathered once."""

import math
from itertools import chain
from typing import Any

import pytest
import torch

from dpscale.measure.workload.batches import Workload
from dpscale.measure.workload.loading import Room, gathered_epoch, samples_of_epoch

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

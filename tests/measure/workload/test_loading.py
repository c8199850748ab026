"""Samples as batches that are gathered once."""

import math
from itertools import chain
from typing import Any

import pytest
import torch

from dpscale.measure.workload.batches import Workload
from dpscale.measure.workload.loading import GatheredEpochs, Room, gathered_epoch, samples_of_epoch

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


class Gathering:
    """Gathers epochs for teams of one rank, and counts how often."""

    def __init__(self, fit: float):
        self.epochs = GatheredEpochs(fit * BATCH_BYTES)
        self.times = 0

    def of(self, batch: int) -> Any:
        return self.epochs.of((0, 1, batch), lambda room: self._gather(batch, room))

    def _gather(self, batch: int, room: Room) -> Any:
        self.times += 1
        return gathered_epoch(SAMPLES, (0, 1, batch), 1, 0, room, lambda loaded: loaded)


@pytest.mark.parametrize(("fit", "times"), [(6, 3), (10, 3), (12, 2), (math.inf, 2)])
def test_epochs_that_have_no_room_together_are_gathered_again(fit: float, times: int) -> None:
    """21 samples of two epochs are 10.5 batches of 4. The smaller last ones are always there."""
    gathering = Gathering(fit)
    before, of_another_share, after = (gathering.of(batch) for batch in (4, 8, 4))
    assert gathering.times == times
    assert (after[0] is before[0]) == (times == 2)
    assert str(after) == str(before)
    assert of_another_share[1] == 3, "as many batches as without the other epoch"


def test_a_stored_epoch_is_not_kept() -> None:
    epochs, stored = GatheredEpochs(math.inf), iter(range(2))
    assert [epochs.of((0, 1, 4), lambda _: ([next(stored)], None))[0] for _ in range(2)] == [[0], [1]]


def test_fewer_samples_than_there_are_are_always_the_same_choice_from_all() -> None:
    workload = Workload("name", lambda: torch.nn.Linear(3, 1), lambda: SAMPLES, lambda *_: torch.zeros(()))
    datasets: Any = [samples_of_epoch(workload, 10) for _ in range(2)]
    chosen, again = ([label for _, label in dataset] for dataset in datasets)
    assert chosen == again
    assert len(set(chosen)) == 10 and max(chosen) > 10
    assert samples_of_epoch(workload, 21) is SAMPLES

"""Items that sleep, as those do that wait for a disk or a network."""

import time

import healthy
from healthy import loss
from torch import Tensor, nn
from torch.utils.data import Dataset

__all__ = ["dataset", "loss", "network"]

SLEEP_S = 0.002


class Sleeping(healthy.Images):
    def __getitem__(self, number: int) -> tuple[Tensor, int]:
        time.sleep(SLEEP_S)
        return super().__getitem__(number)


def network() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * healthy.SIZE**2, 10))


def dataset() -> Dataset[tuple[Tensor, int]]:
    return Sleeping()

"""Items that compute: loading them takes the time of a core."""

import healthy
import torch
from healthy import loss, network
from torch import Tensor
from torch.utils.data import Dataset

__all__ = ["dataset", "loss", "network"]

REPEATS = 20 if healthy.ON_GPU else 100


class Computed(healthy.Images):
    def __getitem__(self, number: int) -> tuple[Tensor, int]:
        image, label = super().__getitem__(number)
        for _ in range(REPEATS):
            image = torch.roll(image, 1, dims=-1).clamp(-3, 3)
        return image, label


def dataset() -> Dataset[tuple[Tensor, int]]:
    return Computed()

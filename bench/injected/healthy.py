"""Nothing is wrong: much work per step, few parameters, cheap items."""

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import Dataset

ON_GPU = torch.cuda.is_available()
CHANNELS, SIZE = (256, 64) if ON_GPU else (32, 32)
SAMPLES = 32768 if ON_GPU else 2048
Batch = tuple[Tensor, Tensor]


class Images(Dataset[tuple[Tensor, int]]):
    """A few images again and again: an item costs nothing."""

    def __init__(self) -> None:
        self.images = torch.randn((64, 3, SIZE, SIZE))

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, number: int) -> tuple[Tensor, int]:
        return self.images[number % len(self.images)], number % 10


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, CHANNELS, 3, padding=1), nn.ReLU(),
        nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(CHANNELS, 10),
    )  # fmt: skip


def dataset() -> Dataset[tuple[Tensor, int]]:
    return Images()


def loss(network: nn.Module, batch: Batch) -> Tensor:
    images, labels = batch
    return functional.cross_entropy(network(images), labels)

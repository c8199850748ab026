"""A workload of 3.9 million parameters. How much a step computes beside sending them, its batch decides."""

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import Dataset

WIDTH = 1_400
SAMPLES = 1_000_000


class Vectors(Dataset[Tensor]):
    """Random vectors."""

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> Tensor:
        return torch.randn(WIDTH, generator=torch.Generator().manual_seed(index))


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))


def dataset() -> Dataset[Tensor]:
    return Vectors()


def loss(network: nn.Module, batch: Tensor) -> Tensor:
    return functional.mse_loss(network(batch), batch)

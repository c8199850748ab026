"""A workload whose steps are communication: 10.6 million parameters, and hardly any work on a sample."""

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import Dataset

WIDTH = 2_300
SAMPLES = 64


class Vectors(Dataset[Tensor]):
    """Random vectors."""

    def __init__(self) -> None:
        self.vectors = torch.randn((SAMPLES, WIDTH), generator=torch.Generator().manual_seed(0))

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> Tensor:
        return self.vectors[index]


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))


def dataset() -> Dataset[Tensor]:
    return Vectors()


def loss(network: nn.Module, batch: Tensor) -> Tensor:
    return functional.mse_loss(network(batch), batch)

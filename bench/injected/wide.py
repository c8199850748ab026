"""Large layers and little work: the gradients are what takes time."""

from collections.abc import Iterable

import healthy
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import SGD, Optimizer
from torch.utils.data import Dataset

WIDTH, LAYERS = (8192, 2) if healthy.ON_GPU else (1536, 1)
Batch = tuple[Tensor, Tensor]


def network() -> nn.Module:
    return nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)), nn.Linear(WIDTH, 2))


class Rows(Dataset[tuple[Tensor, int]]):
    """A few rows again and again: an epoch is long, and takes little memory."""

    def __init__(self) -> None:
        self.rows = torch.randn((64, WIDTH))

    def __len__(self) -> int:
        return 2**14

    def __getitem__(self, number: int) -> tuple[Tensor, int]:
        return self.rows[number % len(self.rows)], number % 2


def dataset() -> Dataset[tuple[Tensor, int]]:
    return Rows()


def loss(network: nn.Module, batch: Batch) -> Tensor:
    inputs, labels = batch
    return functional.cross_entropy(network(inputs), labels)


def optimiser(parameters: Iterable[nn.Parameter]) -> Optimizer:
    return SGD(parameters, lr=1e-3)

"""Large layers and little work: the gradients are what takes time."""

from collections.abc import Iterable

import healthy
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import SGD, Optimizer
from torch.utils.data import Dataset, TensorDataset

WIDTH, LAYERS = (8192, 2) if healthy.ON_GPU else (2048, 1)
Batch = tuple[Tensor, Tensor]


def network() -> nn.Module:
    return nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)), nn.Linear(WIDTH, 2))


def dataset() -> Dataset[tuple[Tensor, ...]]:
    return TensorDataset(torch.randn((1024, WIDTH)), torch.zeros(1024, dtype=torch.int64))


def loss(network: nn.Module, batch: Batch) -> Tensor:
    inputs, labels = batch
    return functional.cross_entropy(network(inputs), labels)


def optimiser(parameters: Iterable[nn.Parameter]) -> Optimizer:
    return SGD(parameters, lr=1e-3)

"""Many small operations: launching them takes as long for one sample as for many."""

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import Dataset, TensorDataset

LAYERS, WIDTH = 600, 16
Batch = tuple[Tensor, Tensor]


def network() -> nn.Module:
    # Activations alone: with few parameters an allreduce has nearly nothing to send.
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), *(nn.Tanh() for _ in range(LAYERS)), nn.Linear(WIDTH, 2))


def dataset() -> Dataset[tuple[Tensor, ...]]:
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn((8192, WIDTH), generator=generator)
    return TensorDataset(inputs, torch.randint(0, 2, (8192,), generator=generator))


def loss(network: nn.Module, batch: Batch) -> Tensor:
    inputs, labels = batch
    return functional.cross_entropy(network(inputs), labels)

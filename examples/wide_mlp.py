"""Three wide linear layers: 100 million parameters with almost no work per sample, so that communication decides.

A workload for dpscale: `dpscale time --workload examples/wide_mlp.py ...`, or `workload: examples/wide_mlp.py` in a
study. Its gradients are 400 MB in every step, however small the batch.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import Optimizer
from torch.utils.data import Dataset

INPUTS = 1_024
WIDTH = 9_500
SAMPLES = 65_536


class Vectors(Dataset[tuple[Tensor, Tensor]]):
    """Random vectors with random targets, all drawn at the start."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(0)
        self.inputs = torch.randn((SAMPLES, INPUTS), generator=generator)
        self.targets = torch.randn((SAMPLES, 1), generator=generator)

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.inputs[index], self.targets[index]


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(INPUTS, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1))


def dataset() -> Dataset[tuple[Tensor, Tensor]]:
    return Vectors()


def optimiser(parameters: list[nn.Parameter]) -> Optimizer:
    """Slow enough for layers as wide as these."""
    return torch.optim.SGD(parameters, lr=1e-3, momentum=0.9)


def loss(network: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    inputs, targets = batch
    return functional.mse_loss(network(inputs), targets)

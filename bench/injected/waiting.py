"""A step that asks the device for a number, again and again.

On a GPU the operations between two numbers take longer than launching them: without the numbers it would never rest.
"""

from functools import cache

import healthy
import small
import torch
from small import dataset, network
from torch import Tensor, nn
from torch.nn import functional

__all__ = ["dataset", "loss", "network"]

TIMES, VALUES = (400, 12 * 2**20) if healthy.ON_GPU else (2, 2**10)


@cache
def values(device: torch.device) -> Tensor:
    return torch.ones(VALUES, device=device)


def loss(network: nn.Module, batch: small.Batch) -> Tensor:
    inputs, labels = batch
    total = 0.0
    for _ in range(TIMES):
        total += values(inputs.device).square().mean().item()
    return functional.cross_entropy(network(inputs), labels) + 0.0 * total

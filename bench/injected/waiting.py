"""A step that asks the device for a number, again and again."""

import healthy
import small
from small import dataset, network
from torch import Tensor, nn
from torch.nn import functional

__all__ = ["dataset", "loss", "network"]

TIMES = 400 if healthy.ON_GPU else 2


def loss(network: nn.Module, batch: small.Batch) -> Tensor:
    inputs, labels = batch
    outputs = inputs
    total = 0.0
    for _ in range(TIMES):
        total += outputs.square().mean().item()
    return functional.cross_entropy(network(outputs), labels) + 0.0 * total

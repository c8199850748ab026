"""The worker of a training cell that computes in float64, with batch statistics shared on a CPU, where torch's
SyncBatchNorm does not compute.

The formula is SyncBatchNorm's: mean and variance of the whole global batch, with gradients through both. In float64 the
kernels that a processor picks make no difference that could be seen after a few steps.
"""

from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.distributed.nn.functional import all_reduce

from dpscale.measure.worker.checkpoint import Checkpoint, Trained
from dpscale.measure.worker.training import TrainingWorker


class SharedStatistics(nn.BatchNorm2d):
    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return super().forward(x)
        count: Tensor = all_reduce(torch.tensor(float(x.numel() // x.shape[1])))
        mean: Tensor = all_reduce(x.sum(dim=(0, 2, 3))) / count
        variance: Tensor = all_reduce(((x - mean[:, None, None]) ** 2).sum(dim=(0, 2, 3))) / count
        assert self.running_mean is not None and self.running_var is not None and self.momentum is not None
        with torch.no_grad():
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(variance * count / (count - 1), self.momentum)
        scale = self.weight / (variance + self.eps).sqrt()
        output: Tensor = (x - mean[:, None, None]) * scale[:, None, None] + self.bias[:, None, None]
        return output


class Float64Worker(TrainingWorker):
    """Trains a network of float64, which takes the images as they come."""

    def _prepare_training(self, checkpoint: Checkpoint) -> Trained:
        with patch.object(nn.SyncBatchNorm, "convert_sync_batchnorm", convert):
            return super()._prepare_training(checkpoint)

    def build_network(self) -> nn.Module:
        network = super().build_network().double()
        network.register_forward_pre_hook(in_float64)
        return network


def in_float64(_network: nn.Module, images: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(part.double() for part in images)


def convert(network: nn.Module) -> nn.Module:
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.__class__ = SharedStatistics
    return network


WORKER = Float64Worker

"""The worker of a training cell with batch statistics shared on a CPU, where torch's SyncBatchNorm does not compute.

The formula is SyncBatchNorm's: mean and variance of the whole global batch, with gradients through both.
"""

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.nn.functional import all_reduce

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
        return (x - mean[:, None, None]) * scale[:, None, None] + self.bias[:, None, None]


def convert(network: nn.Module) -> nn.Module:
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.__class__ = SharedStatistics
    return network


assert not dist.is_initialized()
# What this file is for: the worker asks torch's class to convert a network, and gets this instead.
nn.SyncBatchNorm.convert_sync_batchnorm = convert  # type: ignore[assignment, method-assign]
WORKER = TrainingWorker

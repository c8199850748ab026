"""One allreduce of all gradients in torch: its wrapper and the rungs of its step."""

from collections.abc import Sequence

import torch.distributed as dist
from torch import Tensor, nn
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors

from dpscale.schemas.settings import StepSettings
from dpscale.strategies.after_backward import AveragedAfterBackward, rungs
from dpscale.strategies.in_torch import Devices

__all__ = ["rungs", "wrap"]


def wrap(network: nn.Module, devices: Devices, settings: StepSettings) -> nn.Module:
    return AveragedAfterBackward(network, average_as_one)


def average_as_one(gradients: Sequence[Tensor]) -> None:
    """Average all gradients by one allreduce of a tensor that holds them all."""
    flat = _flatten_dense_tensors(gradients)
    dist.all_reduce(flat)
    flat.div_(dist.get_world_size())
    for gradient, average in zip(gradients, _unflatten_dense_tensors(flat, gradients), strict=True):
        gradient.copy_(average)

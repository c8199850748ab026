"""An allreduce per weight in torch: its wrapper and the rungs of its step."""

from collections.abc import Sequence

import torch.distributed as dist
from torch import Tensor, nn

from dpscale.schemas.settings import StepSettings
from dpscale.strategies.after_backward import AveragedAfterBackward, rungs
from dpscale.strategies.in_torch import Devices

__all__ = ["rungs", "wrap"]


def wrap(network: nn.Module, devices: Devices, settings: StepSettings) -> nn.Module:
    return AveragedAfterBackward(network, average_one_by_one)


def average_one_by_one(gradients: Sequence[Tensor]) -> None:
    """Average every gradient by an allreduce of its own, which the next one waits for."""
    for gradient in gradients:
        dist.all_reduce(gradient)
        gradient.div_(dist.get_world_size())

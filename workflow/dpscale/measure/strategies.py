"""The ways to train on several devices."""

from collections.abc import Sequence

import torch
from torch import nn
from torch.nn.parallel import DataParallel, DistributedDataParallel


def parallelise(network: nn.Module, strategy: str, devices: Sequence[torch.device]) -> nn.Module:
    """`network`, which lies on the first of this process's `devices`, as `strategy` trains it.

    single is the plain module; dp replicates it over all `devices` in every step; ddp, one process a device,
    needs an initialised process group. On a CPU `devices` is empty.
    """
    if strategy == "dp":
        return DataParallel(network, device_ids=list(devices))
    if strategy == "ddp":
        return DistributedDataParallel(network, device_ids=list(devices) or None)
    return network

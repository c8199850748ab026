"""All ranks and their loaders, which compute, are bound to one core."""

import os

import healthy
from costly import dataset, loss
from torch import nn

from dpscale.measure.watch.cores import bind

__all__ = ["dataset", "loss", "network"]

CORE = min(os.sched_getaffinity(0))


def network() -> nn.Module:
    bind({CORE})
    return healthy.network()

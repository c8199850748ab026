"""All ranks and their loaders, which compute, are bound to one core."""

import os
from pathlib import Path

import healthy
from costly import dataset, loss
from torch import nn

__all__ = ["dataset", "loss", "network"]

CORE = min(os.sched_getaffinity(0))


def network() -> nn.Module:
    for thread in Path("/proc/self/task").iterdir():
        os.sched_setaffinity(int(thread.name), {CORE})
    return healthy.network()

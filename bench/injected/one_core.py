"""All ranks and their loaders, which compute, are bound to one core."""

import os
from pathlib import Path

import healthy
from costly import dataset, loss
from torch import nn

__all__ = ["dataset", "loss", "network"]

CORE = min(os.sched_getaffinity(0))


def bind(core: int) -> None:
    """All threads of this process; what it starts inherits that."""
    for thread in Path("/proc/self/task").iterdir():
        os.sched_setaffinity(int(thread.name), {core})


def network() -> nn.Module:
    bind(CORE)
    return healthy.network()

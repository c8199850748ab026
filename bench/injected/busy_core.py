"""Every rank has a core of its own, and the second one's is shared with processes that never rest."""

import os
import subprocess
import sys
from pathlib import Path

import healthy
import torch.distributed as dist
from healthy import dataset, loss
from torch import nn

__all__ = ["dataset", "loss", "network"]

CORES = sorted(os.sched_getaffinity(0))
BUSY = "import ctypes; ctypes.CDLL(None).prctl(1, 9)\nwhile True: pass"  # it ends with the rank
BEGUN = "BUSY_PROCESSES_BEGUN"


def network() -> nn.Module:
    rank = dist.get_rank()
    for thread in Path("/proc/self/task").iterdir():
        os.sched_setaffinity(int(thread.name), {CORES[rank % len(CORES)]})
    if rank == 1 and BEGUN not in os.environ:  # one process may run this file several times
        os.environ[BEGUN] = "yes"
        for _ in range(2):
            subprocess.Popen([sys.executable, "-c", BUSY])
    return healthy.network()

"""A worker of a communication cell with a known cause of slowness; the job's `injected` names it.

`busy`: another process keeps the second worker's device busy, and only that one. `sleep`: the hook of the whole step
takes longer by `SLEEP_S`, after the last bucket is full.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch.distributed import GradBucket  # type: ignore[attr-defined]
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

from dpscale.measure.worker import communication
from dpscale.measure.worker.communication import CommunicationWorker
from dpscale.strategies.ddp.in_torch import settled
from dpscale.strategies.in_torch import StepVariant

# Half of what a block takes otherwise: what is injected is far larger than what it has to be told from.
BLOCK_S = 0.1
# On a CPU that does other things too, steps differ by milliseconds.
SLEEP_S = {"cuda": 2e-3, "cpu": 40e-3}
_CORES = sorted(os.sched_getaffinity(0))
_BUSY_CPU = "print(flush=True)\nwhile True: pass"
_BUSY_GPU = """
import torch
numbers = torch.randn(8192, 8192, device="cuda:1")
numbers @ numbers
torch.cuda.synchronize()
print(flush=True)
while True:
    numbers @ numbers
    torch.cuda.synchronize()
"""


class InjectedWorker(CommunicationWorker):
    """Ranks on a CPU have a core each."""

    def __init__(self, job: dict[str, Any], rank: int):
        super().__init__(job, rank)
        self.injected = job["injected"]

    def measure(self) -> None:
        if not self.on_gpu:
            os.sched_setaffinity(0, {_CORES[self.rank % len(_CORES)]})  # a child process inherits it
            communication.BLOCK_S = BLOCK_S
            communication.WITNESS_S = 0.0  # only the rungs are looked at
        with nullcontext() if self.injected == "sleep" else self._busy():
            super().measure()

    def rungs(self) -> dict[str, StepVariant]:
        rungs = super().rungs()
        return {**rungs, "training": _with_a_sleeping_hook(self)} if self.injected == "sleep" else rungs

    @contextmanager
    def _busy(self) -> Iterator[None]:
        if self.rank != 1:
            yield
            return
        program = _BUSY_GPU if self.on_gpu else _BUSY_CPU
        with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as busy:
            assert busy.stdout
            busy.stdout.readline()
            try:
                yield
            finally:
                busy.kill()


def _with_a_sleeping_hook(worker: CommunicationWorker) -> StepVariant:
    sleep_s = SLEEP_S[worker.device.type]
    cycles = _cycles_of(sleep_s) if worker.on_gpu else 0

    def hook(group: Any, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
        if bucket.is_last():
            if worker.on_gpu:
                torch.cuda._sleep(cycles)
            else:
                time.sleep(sleep_s)
        reduced: torch.futures.Future[torch.Tensor] = allreduce_hook(group, bucket)
        return reduced

    return settled(worker, hook)


def _cycles_of(seconds: float) -> int:
    """As the device waits them."""
    cycles = 10_000_000
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for _ in range(3):  # the clock rises
        start.record()
        torch.cuda._sleep(cycles)
        end.record()
        end.synchronize()
    measured_s = float(start.elapsed_time(end)) * 1e-3
    return round(cycles * seconds / measured_s)


WORKER = InjectedWorker

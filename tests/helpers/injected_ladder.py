"""A worker of a communication cell on CPUs whose hook of the whole step sleeps after the last bucket is full."""

import os
import time
from typing import Any

import torch
from torch.distributed import GradBucket  # type: ignore[attr-defined]
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

from dpscale.measure.worker import communication
from dpscale.measure.worker.communication import CommunicationWorker
from dpscale.strategies.ddp.in_torch import settled
from dpscale.strategies.in_torch import StepVariant

# On a CPU that does other things too, steps differ by milliseconds.
SLEEP_S = 40e-3
_CORES = sorted(os.sched_getaffinity(0))


class InjectedWorker(CommunicationWorker):
    """Ranks have a core each."""

    def measure(self) -> None:
        os.sched_setaffinity(0, {_CORES[self.rank % len(_CORES)]})
        communication.WITNESS_S = 0.0  # only the rungs are looked at
        super().measure()

    def rungs(self) -> dict[str, StepVariant]:
        return {**super().rungs(), "training": settled(self, _sleeping_hook)}


def _sleeping_hook(group: Any, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
    if bucket.is_last():
        time.sleep(SLEEP_S)
    reduced: torch.futures.Future[torch.Tensor] = allreduce_hook(group, bucket)
    return reduced


WORKER = InjectedWorker

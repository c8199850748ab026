"""A worker of a communication cell on CPUs whose second rank is at half speed: after every step it computes for as long
again. Both have the same core, so that what else runs here slows both alike."""

import os
import time

from torch import nn
from torch.optim import Optimizer

from dpscale.measure.worker import communication
from dpscale.measure.worker.communication import CommunicationWorker
from dpscale.measure.workload.batches import Batch, Step
from dpscale.strategies.ddp import in_torch
from dpscale.strategies.in_torch import StepVariant

SLOW = "SLOW_RANK"
NEEDED = ("alone", "together", "no_sync", "training")


class UnevenWorker(CommunicationWorker):
    def measure(self) -> None:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        communication.WITNESS_S = 0.0
        in_torch.SETTLES_STEPS = 3
        super().measure()

    def rungs(self) -> dict[str, StepVariant]:
        rungs = super().rungs()
        return {name: rungs[name] for name in NEEDED}

    def step_of(self, network: nn.Module, optimiser: Optimizer) -> Step:
        step = super().step_of(network, optimiser)

        def slow(batch: Batch) -> None:
            before_s = time.process_time()
            step(batch)
            until_s = 2 * time.process_time() - before_s
            while time.process_time() < until_s:
                pass

        return slow if str(self.rank) == os.environ.get(SLOW) else step


WORKER = UnevenWorker

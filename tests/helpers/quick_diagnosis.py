"""The worker of a diagnosis whose blocks are few and short: what is injected is far larger than what hides it.

Where the job names a `namespace` of the network, the worker joins it before it meets the others.
"""

import ctypes
import multiprocessing
import os
from pathlib import Path
from typing import Any

from dpscale.measure.worker import communication, diagnosis
from dpscale.measure.worker.diagnosis import DiagnosisWorker

# The fewest of which an interval of the median is known.
ROUNDS = 6
BLOCK_S = 0.01
LARGE_STEP_S = 0.03
# A process that a forkserver made would have one start its loaders too. A worker of a command has what Linux has.
multiprocessing.set_start_method("fork", force=True)
_CLONE_NEWNET = 0x40000000  # <linux/sched.h>


class QuickDiagnosis(DiagnosisWorker):
    def __init__(self, job: dict[str, Any], rank: int):
        super().__init__(job, rank)
        self.namespace = job["namespace"]

    def prepare(self) -> None:
        if self.namespace:
            with Path("/run/netns", self.namespace).open() as place:
                assert ctypes.CDLL(None, use_errno=True).setns(place.fileno(), _CLONE_NEWNET) == 0, os.strerror(
                    ctypes.get_errno()
                )
        super().prepare()

    def measure(self) -> None:
        communication.BLOCK_S = BLOCK_S
        diagnosis.ROUNDS = ROUNDS
        diagnosis.LARGE_STEP_S = LARGE_STEP_S
        super().measure()


WORKER = QuickDiagnosis

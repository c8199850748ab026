"""What every worker does: claim its devices, meet the other ranks, measure, and leave an outcome."""

import os
import sys
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import torch

from dpscale.errors import DpscaleError
from dpscale.measure.parent import write_outcome
from dpscale.measure.ranks import gather, meet
from dpscale.measure.worker.hardware import Sensors, hardware, require_gpus, software


class Worker(ABC):
    """One rank of a cell. What it measures is for the classes derived from it.

    `gpus` is what the cell uses in all its processes, of which there are `workers`.
    """

    def __init__(self, job: dict[str, Any], rank: int, device: str, gpus: int, workers: int):
        self.folder = Path(job["folder"])
        self.timeout_s = float(job["timeout_s"])
        self.rank = rank
        self.gpus = gpus
        self.workers = workers
        self.on_gpu = device == "cuda"
        self.device = torch.device("cuda", rank) if self.on_gpu else torch.device("cpu")
        self.before: list[dict[str, Any]] = []

    @abstractmethod
    def measure(self) -> None:
        """Measure, on a prepared rank, and keep what `results` gives."""

    @abstractmethod
    def results(self, finished: bool) -> dict[str, Any]:
        """What was measured, by the names of the record; `finished` is false where memory ran out on the way."""

    def run(self) -> None:
        """Measure the cell. Rank 0 leaves the outcome; where an error is one (`outcome_of`), the rank that it hit."""
        try:
            self.prepare()
            self.measure()
        except DpscaleError as error:
            write_outcome(self.folder, {"status": "failed", "message": str(error)})
            return
        except Exception as error:
            outcome = self.outcome_of(error)
            if outcome is None:
                raise
            write_outcome(self.folder, outcome)
            return
        if self.rank == 0:
            write_outcome(self.folder, self.outcome("ok", after=self.sensors.read()))
        gather(self.rank, self.workers)  # nobody leaves before the outcome is written

    def prepare(self) -> None:
        """Claim this rank's devices and meet the other ranks. Raises MeasurementError where they cannot be had."""
        if self.on_gpu:
            require_gpus(self.gpus)
            torch.cuda.set_device(self.device)
        # One thread, whatever OMP_NUM_THREADS says (Snakemake sets it): a cell by hand is then the rule's cell, and a
        # CPU worker stands for a device of fixed size, which more workers must not make smaller.
        torch.set_num_threads(1)
        if self.workers > 1:
            meet(self.folder, self.rank, self.workers, self.timeout_s, self.on_gpu)
        pids = [int(pid) for pid in gather(os.getpid(), self.workers)]
        self.sensors = Sensors(self.device.type, self.gpus, pids)
        self.before = self.sensors.read()

    def outcome_of(self, error: Exception) -> dict[str, Any] | None:
        """The outcome that an error is, None where it is a failure."""
        return None

    def outcome(self, status: str, after: Any) -> dict[str, Any]:
        """What the record says beside what ran: where, and what came out."""
        return {
            "status": status,
            "hardware": hardware(self.device.type, self.gpus),
            "software": software(self.device.type),
            "sensors": {"before": self.before, "after": after},
            **self.results(finished=status == "ok"),
        }

    def report(self, line: str) -> None:
        """Tell how far the cell has come, once for all ranks."""
        if self.rank == 0:
            print(f"{time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)

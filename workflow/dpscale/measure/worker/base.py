"""Base class of workers: take devices, join the other ranks, measure, and write an outcome."""

import os
import sys
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import torch

from dpscale.errors import DpscaleError
from dpscale.measure.parent import write_outcome
from dpscale.measure.ranks import gather, gather_objects, meet
from dpscale.measure.watch.hardware import gpu_uuid, hardware, require_gpus, software
from dpscale.measure.watch.sensors import Sensors
from dpscale.records.files import JsonRecord


class Worker(ABC):
    """One rank of a cell. Derived classes define the measurement.

    The cell uses `gpus` in all its processes, of which there are `workers`, spread evenly over `nodes`. On its node a
    rank has the number `local_rank`, from 0, and may see `gpus_here`.
    """

    def __init__(self, job: JsonRecord, rank: int, device: str, gpus: int, workers: int, nodes: int = 1):
        self.folder = Path(job["folder"])
        self.timeout_s = float(job["timeout_s"])
        self.team: JsonRecord | None = job.get("team")
        self.rank = rank
        self.gpus = gpus
        self.workers = workers
        self.nodes = nodes
        self.gpus_here = gpus // nodes
        self.local_rank = rank % (workers // nodes)
        self.on_gpu = device == "cuda"
        self.device = torch.device("cuda", self.local_rank) if self.on_gpu else torch.device("cpu")
        self.before: list[JsonRecord] = []
        self.of_nodes: list[JsonRecord] = []

    @abstractmethod
    def measure(self) -> None:
        """Measure on a prepared rank, and keep the results."""

    @abstractmethod
    def results(self) -> JsonRecord:
        """Return the results so far, by the names of the record."""

    def run(self) -> None:
        """Measure the cell. Rank 0 writes the outcome. Where `outcome_of` makes an outcome of an error, the rank with
        that error writes it."""
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
        after = self._readings()
        if self.rank == 0:
            write_outcome(self.folder, self.outcome("ok", after=after))
        gather(self.rank, self.workers)  # no rank ends before the outcome is written

    def prepare(self) -> None:
        """Take this rank's devices and join the other ranks. Raises MeasurementError where one is not available."""
        if self.on_gpu:
            require_gpus(self.gpus_here)
            torch.cuda.set_device(self.device)
        # One thread, whatever OMP_NUM_THREADS says (Snakemake sets it): a cell that is run by hand is then the same as
        # the rule's cell. And a CPU worker stands for a device of fixed size, which more workers must not make smaller.
        torch.set_num_threads(1)
        if self.workers > 1:
            meet(self.folder, self.rank, self.workers, self.timeout_s, self.on_gpu, self.team)
        self.worker_pids = [int(pid) for pid in gather(os.getpid(), self.workers)]
        self.gpu_uuids = [gpu_uuid(index) for index in range(self.gpus_here)] if self.on_gpu else []
        self.sensors = Sensors(self.gpu_uuids, self.worker_pids)
        self.before = self._readings()
        if self.nodes > 1:
            self.of_nodes = self.of_every_node(self.here())

    def _readings(self) -> list[JsonRecord]:
        return [reading for node in self.of_every_node(self.sensors.read()) for reading in node]

    def of_every_node(self, value: Any) -> list[Any]:
        """Return the `value` of the first rank of every node, in their order, on every rank."""
        if self.nodes == 1:
            return [value]
        share = self.workers // self.nodes
        return gather_objects(value if self.local_rank == 0 else None, self.workers)[::share]

    def outcome_of(self, error: Exception) -> JsonRecord | None:
        """Return the outcome of an error: a result, or a failure in one line. None where its traceback says it best."""
        return None

    def outcome(self, status: str, after: Any) -> JsonRecord:
        """Return the part of the record that says where the cell ran, and its results."""
        nodes = self.of_nodes or [self.here()]
        return {
            "status": status,
            **nodes[0],
            **({"nodes": nodes} if self.nodes > 1 else {}),
            "sensors": {"before": self.before, "after": after},
            **self.results(),
        }

    def here(self) -> JsonRecord:
        """Return hardware and software of this node."""
        device = self.device.type
        return {"hardware": hardware(device, self.gpus_here), "software": software(device)}

    def report(self, line: str) -> None:
        """Print the progress of the cell, once for all ranks."""
        if self.rank == 0:
            print(f"{time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)

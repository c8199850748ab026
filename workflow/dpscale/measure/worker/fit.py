"""One worker of a try: whether a batch fits, how much memory it takes, and how fast it is."""

from functools import cached_property
from typing import Any

import torch
from torch.utils.data import Dataset, Subset

from dpscale.measure.ranks import gather
from dpscale.measure.worker.epoch_timer import EpochTimer
from dpscale.measure.worker.step_worker import StepWorker
from dpscale.records.files import JsonRecord

# The first ones choose kernels, and the optimiser takes its memory.
WARM_UP_STEPS = 5
STEPS = 10


class FitWorker(StepWorker):
    """Trains some steps of one batch, which lies on the device already."""

    def __init__(self, job: JsonRecord, rank: int):
        super().__init__(job, rank)
        self.memory_bytes = job["memory_bytes"]
        self.limit_bytes = 0.0
        self.peak_bytes: float | None = None
        self.step_s: float | None = None

    def results(self) -> JsonRecord:
        """Return the limit of memory, less what others took meanwhile, the peak, and the seconds of a step."""
        limit_bytes = min([self.limit_bytes, *map(self._limit, self.devices)])
        return {"limit_bytes": limit_bytes, "peak_bytes": self.peak_bytes, "step_s": self.step_s}

    @cached_property
    def samples(self) -> Dataset[Any]:
        """The samples of one batch, in turn where the file has fewer."""
        dataset = self.workload.dataset()
        available = len(dataset)  # type: ignore[arg-type]
        return Subset(dataset, [number % available for number in range(self.batch)])

    def measure(self) -> None:
        """Fill the limit of memory, and where the batch fits its peak and the seconds of a step."""
        self.limit_bytes = min(gather(min(map(self._limit, self.devices)), self.workers))
        network, optimiser = self.build()
        step, timer = self.step_of(network, optimiser), EpochTimer(self.devices, self.workers)
        self.phase = "steps"
        batch = self.made_up_batch(self.batch)
        timer.time(step, [batch] * WARM_UP_STEPS, WARM_UP_STEPS)
        if self.settings.compile != "none":
            torch.compiler.set_stance("eager_on_recompile")  # as in a timing cell
        step(self.made_up_batch(self.batch // 2 or 1))  # an epoch's last step leaves fragments of another size
        self.step_s = timer.time(step, [batch] * STEPS, STEPS).epoch_s / STEPS
        self.peak_bytes = max(gather(max(map(torch.cuda.max_memory_allocated, self.devices)), self.workers))

    def _limit(self, device: torch.device) -> float:
        """Return the bytes that are free on a device or this process's own, or the limit that was asked for, which
        torch's allocator then keeps."""
        free, total = torch.cuda.mem_get_info(device)
        free += torch.cuda.memory_reserved(device)
        if self.memory_bytes and self.memory_bytes < free:
            torch.cuda.set_per_process_memory_fraction(self.memory_bytes / total, device)
            return float(self.memory_bytes)
        return float(free)


WORKER = FitWorker

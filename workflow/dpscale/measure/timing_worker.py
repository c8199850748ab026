"""One worker of a timing cell: `python -m dpscale.measure.timing_worker <job file> <rank>`."""

import os
import sys

from dpscale.measure.lifeline import die_with_parent
from dpscale.measure.workers import PARENT_PID, write_outcome

if __name__ == "__main__":  # before torch is loaded, which takes seconds
    die_with_parent(int(os.environ[PARENT_PID]))

import json
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.optim import Optimizer

from dpscale.errors import MeasurementError
from dpscale.measure.batches import LoadedEpochs, images_per_rank, preloaded_batches
from dpscale.measure.epoch_timer import EpochTimer, Step, gather, training_step
from dpscale.measure.hardware import Sensors, hardware, require_gpus, software
from dpscale.measure.resnet import build_network
from dpscale.measure.strategies import parallelise
from dpscale.study import Cell, Configuration, Settings

MEMORY_FORMATS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}
QUANTILES = {"min": 0.0, "p05": 0.05, "p25": 0.25, "median": 0.5, "p75": 0.75, "p95": 0.95, "max": 1.0}


class TimingWorker:
    """What one rank does: set up, warm up, time every scope, and say what came out."""

    def __init__(self, job: dict[str, Any], rank: int):
        self.cell = Cell(Configuration(*job["configuration"]), job["run"])
        self.settings = Settings.from_json(job["settings"])
        self.dataset = Path(job["dataset"])
        self.folder = Path(job["folder"])
        self.timeout_s = float(job["timeout_s"])
        self.rank = rank
        self.phase = "setup"
        self.before: list[dict[str, Any]] = []
        self.network: dict[str, int] | None = None
        self.scopes: dict[str, Any] = {}
        at = self.cell.configuration
        self.on_gpu = self.settings.device == "cuda"
        self.workers = at.gpus if at.strategy == "ddp" else 1
        # Images a step of this process: DataParallel is one process that feeds all GPUs.
        self.batch = at.batch_per_gpu if at.strategy == "ddp" else at.global_batch
        self.device = torch.device("cuda", rank) if self.on_gpu else torch.device("cpu")
        used = [self.device.index] if at.strategy == "ddp" else range(at.gpus)
        self.devices = [torch.device("cuda", index) for index in used] if self.on_gpu else []
        self.memory_format = MEMORY_FORMATS[self.settings.memory_format]

    def run(self) -> None:
        """Measure the cell. Rank 0 leaves the outcome; out of memory is an outcome, left by the rank it hit."""
        try:
            total_s = self._measure()
        except MeasurementError as error:
            write_outcome(self.folder, {"status": "failed", "message": str(error)})
            return
        except Exception as error:
            # On a GPU what is loaded goes into pinned host memory: that too small says nothing about the GPU.
            if not is_out_of_memory(error) or (self.on_gpu and self.phase.startswith("loading")):
                raise
            oom = {"rank": self.rank, "phase": self.phase, "message": str(error).splitlines()[0]}
            write_outcome(self.folder, self._outcome("oom", oom=oom, after=None, epochs_total_s=None))
            return
        if self.rank == 0:
            write_outcome(self.folder, self._outcome("ok", oom=None, after=self.sensors.read(), epochs_total_s=total_s))
        gather(self.rank, self.workers)  # nobody leaves before the outcome is written

    def _measure(self) -> float:
        """Fill `scopes`, which keeps what was finished also where memory then runs out. Returns seconds in epochs."""
        self.prepare()
        pids = [int(pid) for pid in gather(os.getpid(), self.workers)]
        self.sensors = Sensors(self.settings.device, self.cell.configuration.gpus, pids)
        self.before = self.sensors.read()
        step = training_step(*self.build(), self.device, self.memory_format)
        timer = EpochTimer(self.devices, self.workers)
        for scope in self.settings.scopes:
            self.phase = f"loading the dataset for {scope}"
            batches = self.batches(scope)
            if not self.scopes:
                self._warm_up(timer, step, batches)
            self.scopes[scope] = self._time_scope(scope, timer, step, batches)
        return timer.total_s

    def prepare(self) -> None:
        """Claim this rank's devices and meet the other ranks. Raises MeasurementError where they cannot be had."""
        if self.on_gpu:
            require_gpus(self.cell.configuration.gpus)
            torch.cuda.set_device(self.device)
        # One thread, whatever OMP_NUM_THREADS says (Snakemake sets it): a cell by hand is then the rule's cell, and a
        # CPU worker stands for a device of fixed size, which more workers must not make smaller.
        torch.set_num_threads(1)
        if self.settings.precision == "float32-strict":
            torch.backends.cudnn.allow_tf32 = False
            torch.backends.cuda.matmul.allow_tf32 = False
        if self.workers > 1:
            # A file to meet at, in place of a port that another cell on this node may have taken.
            dist.init_process_group(
                "cpu:gloo,cuda:nccl" if self.on_gpu else "gloo",
                init_method=f"file://{self.folder / 'rendezvous'}",
                rank=self.rank,
                world_size=self.workers,
                timeout=timedelta(seconds=self.timeout_s),
            )

    def build(self) -> tuple[nn.Module, Optimizer]:
        """The network as its strategy trains it, on this rank's devices, and its optimiser."""
        torch.manual_seed(self.cell.run)
        settings = self.settings
        network = build_network(settings.network, settings.width, settings.precision)
        self.network = _size(network)
        network = network.to(self.device).to(memory_format=self.memory_format)
        parallel = parallelise(network, self.cell.configuration.strategy, self.devices)
        optimiser = torch.optim.SGD(
            parallel.parameters(),
            lr=settings.learning_rate,
            momentum=settings.momentum,
            weight_decay=settings.weight_decay,
        )
        return parallel, optimiser

    def batches(self, scope: str) -> Any:
        """What one epoch of `scope` iterates over on this rank; it has a length, in steps."""
        if scope == "compute":
            return preloaded_batches(self.dataset, self.rank, self.workers, self.batch, self.on_gpu, self.memory_format)
        return LoadedEpochs(
            self.dataset, self.rank, self.workers, self.batch, self.settings.loader_workers, self.on_gpu
        )

    def _warm_up(self, timer: EpochTimer, step: Step, batches: Any) -> None:
        self.phase = "warm-up"
        for epoch in range(self.settings.warmup_epochs):
            result = timer.time(step, batches, len(batches))
            self._report(f"warm-up epoch {epoch + 1}: {result['epoch_s']:.3f} s (not reported)")

    def _time_scope(self, scope: str, timer: EpochTimer, step: Step, batches: Any) -> dict[str, Any]:
        settings = self.settings
        for device in self.devices:
            torch.cuda.reset_peak_memory_stats(device)
        epochs: list[dict[str, Any]] = []
        energy_j: list[float | None] = []
        while not epochs or (
            len(epochs) < settings.timed_epochs and sum(epoch["epoch_s"] for epoch in epochs) < settings.budget_s
        ):
            self.phase = f"{scope} epoch {len(epochs) + 1}"
            before = self.sensors.energy_j() if self.rank == 0 else None
            epochs.append(timer.time(step, batches, len(batches)))
            after = self.sensors.energy_j() if self.rank == 0 else None
            energy_j.append(None if before is None or after is None else after - before)
            self._report(f"{self.phase} of at most {settings.timed_epochs}: {epochs[-1]['epoch_s']:.3f} s")
        peaks = [float(torch.cuda.max_memory_allocated(device)) for device in self.devices]
        return {
            "epoch_s": [epoch["epoch_s"] for epoch in epochs],
            "rank_epoch_s": [epoch["rank_epoch_s"] for epoch in epochs],
            **self._steps(epochs),
            "steps_per_epoch": len(batches),
            "images_per_epoch": images_per_rank(settings.epoch_images, self.workers) * self.workers,
            "peak_memory_bytes": self._peak_memory(peaks),
            "energy_j": None if None in energy_j else energy_j,
        }

    def _steps(self, epochs: list[dict[str, Any]]) -> dict[str, Any]:
        """Times of full steps: the partial last one is left out, and the slowest rank's stand."""
        full = images_per_rank(self.settings.epoch_images, self.workers) // self.batch
        full_step_s = np.array([epoch["step_s"][:full] for epoch in epochs])
        medians = [gather(float(median), self.workers) for median in np.median(full_step_s, axis=1)]
        quantiles = [gather(float(value), self.workers) for value in np.quantile(full_step_s, list(QUANTILES.values()))]
        slowest = int(np.argmax(quantiles[list(QUANTILES).index("median")]))
        return {
            "full_steps_per_epoch": full,
            "step_s_median": [max(ranks) for ranks in medians],
            "step_s_quantiles": {
                "n": full_step_s.size,
                **{name: ranks[slowest] for name, ranks in zip(QUANTILES, quantiles, strict=True)},
            },
        }

    def _peak_memory(self, peaks: list[float]) -> list[int] | None:
        if not self.on_gpu:
            return None
        if self.workers > 1:
            peaks = gather(peaks[0], self.workers)
        return [int(peak) for peak in peaks]

    def _outcome(self, status: str, oom: Any, after: Any, epochs_total_s: float | None) -> dict[str, Any]:
        return {
            "status": status,
            "oom": oom,
            "hardware": hardware(self.settings.device, self.cell.configuration.gpus),
            "software": software(self.settings.device),
            "network": self.network,
            "epochs_total_s": epochs_total_s,
            "scopes": self.scopes,
            "sensors": {"before": self.before, "after": after},
        }

    def _report(self, line: str) -> None:
        if self.rank == 0:
            print(f"{time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)


def _size(network: nn.Module) -> dict[str, int]:
    trainable = [parameter for parameter in network.parameters() if parameter.requires_grad]
    return {
        "parameters": sum(parameter.numel() for parameter in trainable),
        "gradient_bytes": sum(parameter.numel() * parameter.element_size() for parameter in trainable),
    }


def is_out_of_memory(error: Exception) -> bool:
    """Whether `error` says that a device's memory is too small, and nothing else.

    Libraries under torch report it as plain errors of their own; on a CPU torch's allocator does.
    """
    text = str(error)
    if "in pin memory thread" in text:  # host memory of the DataLoader
        return False
    if isinstance(error, torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(
        sign in text
        for sign in (
            "CUDA error: out of memory",
            "Cuda failure 2 'out of memory'",
            "CUDNN_STATUS_ALLOC_FAILED",
            "CUBLAS_STATUS_ALLOC_FAILED",
            "DefaultCPUAllocator: can't allocate memory",
        )
    )


if __name__ == "__main__":
    TimingWorker(json.loads(Path(sys.argv[1]).read_text()), int(sys.argv[2])).run()

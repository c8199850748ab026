"""What every worker that trains does: claim its devices, meet the others, build the network, end with an outcome."""

import os
import sys
import time
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import nn
from torch.optim import Optimizer

from dpscale.errors import MeasurementError
from dpscale.measure.batches import Batch, preloaded_batches
from dpscale.measure.hardware import Sensors, hardware, require_gpus, software
from dpscale.measure.ranks import gather, meet
from dpscale.measure.resnet import build_network, network_size
from dpscale.measure.strategies import parallelise
from dpscale.measure.workers import write_outcome
from dpscale.study import Configuration, TrainingSettings

MEMORY_FORMATS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}


class TrainingWorker:
    """One rank that trains a configuration. What it measures on the way is for the classes derived from it."""

    settings_type: ClassVar[type[TrainingSettings]] = TrainingSettings

    def __init__(self, job: dict[str, Any], rank: int):
        self.configuration = Configuration(*job["configuration"])
        self.seed = int(job["seed"])
        self.settings = self.settings_type.from_json(job["settings"])
        self.dataset = Path(job["dataset"])
        self.folder = Path(job["folder"])
        self.timeout_s = float(job["timeout_s"])
        self.rank = rank
        self.phase = "setup"
        self.before: list[dict[str, Any]] = []
        self.network: dict[str, int] | None = None
        at = self.configuration
        self.on_gpu = self.settings.device == "cuda"
        self.workers = at.gpus if at.strategy == "ddp" else 1
        # Images a step of this process: DataParallel is one process that feeds all GPUs.
        self.batch = at.batch_per_gpu if at.strategy == "ddp" else at.global_batch
        self.device = torch.device("cuda", rank) if self.on_gpu else torch.device("cpu")
        used = [self.device.index] if at.strategy == "ddp" else range(at.gpus)
        self.devices = [torch.device("cuda", index) for index in used] if self.on_gpu else []
        self.memory_format = MEMORY_FORMATS[self.settings.memory_format]

    def measure(self) -> None:
        """Measure, on a prepared rank, and keep what `results` gives."""
        raise NotImplementedError

    def results(self, finished: bool) -> dict[str, Any]:
        """What was measured, by the names of the record; `finished` is false where memory ran out on the way."""
        raise NotImplementedError

    def run(self) -> None:
        """Measure the cell. Rank 0 leaves the outcome; out of memory is an outcome, left by the rank it hit."""
        try:
            self.prepare()
            self.measure()
        except MeasurementError as error:
            write_outcome(self.folder, {"status": "failed", "message": str(error)})
            return
        except Exception as error:
            # On a GPU what is loaded goes into pinned host memory: that too small says nothing about the GPU.
            if not is_out_of_memory(error) or (self.on_gpu and self.phase.startswith("loading")):
                raise
            oom = {"rank": self.rank, "phase": self.phase, "message": str(error).splitlines()[0]}
            write_outcome(self.folder, self._outcome("oom", oom=oom, after=None))
            return
        if self.rank == 0:
            write_outcome(self.folder, self._outcome("ok", oom=None, after=self.sensors.read()))
        gather(self.rank, self.workers)  # nobody leaves before the outcome is written

    def prepare(self) -> None:
        """Claim this rank's devices and meet the other ranks. Raises MeasurementError where they cannot be had."""
        if self.on_gpu:
            require_gpus(self.configuration.gpus)
            torch.cuda.set_device(self.device)
        # One thread, whatever OMP_NUM_THREADS says (Snakemake sets it): a cell by hand is then the rule's cell, and a
        # CPU worker stands for a device of fixed size, which more workers must not make smaller.
        torch.set_num_threads(1)
        if self.settings.precision == "float32-strict":
            torch.backends.cudnn.allow_tf32 = False
            torch.backends.cuda.matmul.allow_tf32 = False
        if self.workers > 1:
            meet(self.folder, self.rank, self.workers, self.timeout_s, self.on_gpu)
        pids = [int(pid) for pid in gather(os.getpid(), self.workers)]
        self.sensors = Sensors(self.settings.device, self.configuration.gpus, pids)
        self.before = self.sensors.read()

    def build(self) -> tuple[nn.Module, Optimizer]:
        """The network as its strategy trains it, on this rank's devices, and its optimiser."""
        parallel = parallelise(self.build_network(), self.configuration.strategy, self.devices)
        settings = self.settings
        optimiser = torch.optim.SGD(
            parallel.parameters(),
            lr=settings.learning_rate,
            momentum=settings.momentum,
            weight_decay=settings.weight_decay,
        )
        return parallel, optimiser

    def build_network(self) -> nn.Module:
        """The plain network on this rank's first device, with the weights of the cell's seed."""
        torch.manual_seed(self.seed)
        settings = self.settings
        network = build_network(settings.network, settings.width, settings.precision)
        self.network = network_size(network)
        return network.to(self.device).to(memory_format=self.memory_format)

    def preloaded(self) -> list[Batch]:
        """This rank's batches of an epoch, already in (pinned) host memory."""
        return preloaded_batches(self.dataset, self.rank, self.workers, self.batch, self.on_gpu, self.memory_format)

    def report(self, line: str) -> None:
        """Tell how far the cell has come, once for all ranks."""
        if self.rank == 0:
            print(f"{time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)

    def _outcome(self, status: str, oom: Any, after: Any) -> dict[str, Any]:
        return {
            "status": status,
            "oom": oom,
            "hardware": hardware(self.settings.device, self.configuration.gpus),
            "software": software(self.settings.device),
            "network": self.network,
            "sensors": {"before": self.before, "after": after},
            **self.results(finished=status == "ok"),
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

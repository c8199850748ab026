"""Base class of workers that run training steps: build the network, capture the step in a CUDA graph, and recognise
when memory has run out."""

import sys
import traceback
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import torch

# The first optimiser imports it, which takes seconds: here all ranks do so at once, not one after the other.
import torch._dynamo
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.data import Dataset

from dpscale.errors import WorkloadError
from dpscale.measure.worker.base import Worker
from dpscale.measure.worker.epoch_timer import let_gloo_settle
from dpscale.measure.workload import workload_of
from dpscale.measure.workload.batches import Batch, Share, Step, Workload, in_host_memory, mapped, tensors, to_device
from dpscale.measure.workload.from_file import fault_of
from dpscale.measure.workload.loading import Room, first_batch, gathered_epoch, samples_of_epoch
from dpscale.measure.workload.networks import in_precision, network_size, require_units
from dpscale.measure.workload.update import Update, training_step
from dpscale.plan.cells import Configuration
from dpscale.records.files import JsonRecord
from dpscale.schemas.settings import StepSettings
from dpscale.strategies.in_torch import parallelise
from dpscale.strategies.known import strategy
from dpscale.strategies.units import checkpoint_by_unit, compile_by_unit

MEMORY_FORMATS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}
RECOMPILE_LIMIT = 64
# Steps before the capture of a graph. DDP builds its buckets anew in its second step, and in its first ten it waits for
# the device to read its own clocks, which cannot be captured.
STEPS_BEFORE = 14

T = TypeVar("T")


class StepWorker(Worker):
    """One rank that trains a configuration. Derived classes define the measurement."""

    settings_type: ClassVar[type[StepSettings]] = StepSettings

    def __init__(self, job: JsonRecord, rank: int):
        configuration = self.configuration = Configuration(*job["configuration"])
        self.settings = self.settings_type.from_json(job["settings"])
        row = strategy(configuration.strategy)
        gpus = configuration.gpus
        super().__init__(job, rank, self.settings.device, gpus, row.processes(gpus), configuration.nodes)
        self.seed = int(job["seed"])
        self.dataset = Path(job["dataset"])  # of the built-in workload's images
        self.phase = "setup"
        self.network: dict[str, int] | None = None
        self.skipped_updates = 0  # in float16, where a gradient overflowed
        # Images per step of this process: a process that drives all GPUs takes the images of all of them.
        self.batch = configuration.batch_per_gpu if row.has_process_per_gpu else configuration.global_batch
        used = [self.device.index] if row.has_process_per_gpu else range(gpus)
        self.devices = [torch.device("cuda", index) for index in used] if self.on_gpu else []
        self.memory_format = MEMORY_FORMATS[self.settings.memory_format]

    def prepare(self) -> None:
        # Torch's defaults, set all the same: variables of the environment can change them.
        torch.backends.cudnn.allow_tf32 = self.settings.precision != "float32-strict"
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.benchmark = self.settings.cudnn_benchmark
        if self.settings.compile != "none":
            # By default a function that was compiled for eight shapes or networks runs uncompiled, without a warning.
            torch._dynamo.config.recompile_limit = RECOMPILE_LIMIT
            torch._dynamo.config.fail_on_recompile_limit_hit = True
        super().prepare()
        if self.on_gpu:
            require_units(self.settings.precision, torch.cuda.get_device_name(), torch.cuda.get_device_capability())

    def ran_out_of_memory(self, error: Exception) -> bool:
        """Whether `error` says that a device's memory is too small for the cell."""
        # On a GPU the images are loaded into pinned host memory: where that is too small, nothing is known of the GPU.
        return is_out_of_memory(error) and not (self.on_gpu and self.phase.startswith("loading"))

    def outcome_of(self, error: Exception) -> JsonRecord | None:
        """Return an outcome where memory ran out, and a failure in one line for a fault of a user's own file, whose
        traceback goes to the log."""
        if self.ran_out_of_memory(error):
            oom = {"rank": self.rank, "phase": self.phase, "message": str(error).splitlines()[0]}
            return {**self.outcome("oom", after=None), "oom": oom}
        fault = fault_of(error, self.workload.path)
        if fault is None:
            return None
        traceback.print_exc()
        sys.stderr.flush()
        return {"status": "failed", "message": str(fault)}

    def outcome(self, status: str, after: Any) -> JsonRecord:
        return {**super().outcome(status, after), "oom": None, "network": self.network}

    @cached_property
    def workload(self) -> Workload:
        """Network, samples and loss to train. Raises WorkloadError."""
        return workload_of(self.settings, self.dataset)

    @cached_property
    def samples(self) -> Dataset[Any]:
        """The samples of an epoch, the same on every rank. Raises WorkloadError."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            return samples_of_epoch(self.workload, self.settings.epoch_images)

    def build(self) -> tuple[nn.Module, Optimizer]:
        """Return the network as its strategy trains it, on this rank's devices, and its optimiser."""
        parallel = self.parallelised(self.build_network())
        return parallel, self.optimiser_of(parallel)

    def parallelised(self, network: nn.Module) -> nn.Module:
        """Wrap the plain `network` as the cell's strategy trains it."""
        return parallelise(network, self.configuration.strategy, self.devices, self.settings)

    def build_alone(self) -> tuple[nn.Module, Optimizer]:
        """Return the plain network on this rank's first device, and its optimiser."""
        network = self.build_network()
        return network, self.optimiser_of(network)

    def optimiser_of(self, network: nn.Module) -> Optimizer:
        """Return the optimiser for all parameters of `network`, as its strategy distributes it."""
        optimiser = self._plain_optimiser(network)
        distribute: Callable[[Optimizer], Optimizer] | None = getattr(network, "distributed_optimiser", None)
        return distribute(optimiser) if distribute else optimiser

    def _plain_optimiser(self, network: nn.Module) -> Optimizer:
        """Return the workload's optimiser, or that of the cell's settings."""
        if self.workload.optimiser is not None:
            if self.settings.fused_optimiser:
                raise WorkloadError(
                    f"workload: {self.workload.path}: has an optimiser of its own: ask for a fused one there, and "
                    "leave optimiser.fused out"
                )
            return self.workload.optimiser(network.parameters())
        settings = self.settings
        return torch.optim.SGD(
            network.parameters(),
            lr=settings.learning_rate,
            momentum=settings.momentum,
            weight_decay=settings.weight_decay,
            fused=settings.fused_optimiser or None,
        )

    def build_network(self) -> nn.Module:
        """Return the plain network on this rank's first device, with the weights of the cell's seed."""
        torch.manual_seed(self.seed)
        settings = self.settings
        network = in_precision(self.workload.network(), settings.precision, self.device.type)
        self.network = network_size(network)
        network = network.to(self.device).to(memory_format=self.memory_format)
        if settings.checkpoint_activations == "blocks":
            checkpoint_by_unit(network)
        # In place, before a strategy wraps it. DDP then has torch split the graph at its buckets, so that allreduces
        # still overlap with the backward pass. Every shape is compiled for itself.
        if settings.compile == "by-unit":
            compile_by_unit(network)
        elif settings.compile != "none":
            network.compile(dynamic=False)
        return network

    def step_of(self, network: nn.Module, optimiser: Optimizer) -> Step:
        """Return the training step of a network, on this rank's first device."""
        return self.step_with(network, optimiser, self.workload.loss)

    def step_with(self, network: nn.Module, optimiser: Optimizer, loss: Callable[[nn.Module, Batch], Tensor]) -> Step:
        """Return the training step of a network with a loss, on this rank's first device."""
        update = self.update_of(network, optimiser)
        return training_step(network, optimiser, loss, self.device, self.memory_format, update)

    def update_of(self, network: nn.Module, optimiser: Optimizer) -> Update:
        """Return how a batch changes the weights of a network."""
        return Update(network, optimiser, self.settings, self._count_skipped)

    def _count_skipped(self) -> None:
        self.skipped_updates += 1

    def made_up_batch(self, batch: int) -> Batch:
        """Return a batch of `batch` samples on this rank's first device, to compile and capture with."""
        if self.workload.made_up is not None:
            return to_device(self.workload.made_up(batch, self.device), self.device, self.memory_format)
        return to_device(first_batch(self.samples, batch, self.workload.collate), self.device, self.memory_format)

    def epoch_in_memory(self, share: Share, room: Room, loader_workers: int = 0) -> tuple[Sequence[Batch], int | None]:
        """Return the batches of an epoch of a share, already in (pinned) host memory; and how many of them are
        different, None where they all are because the epoch is stored."""
        if self.workload.stored_epoch is not None:
            return self.workload.stored_epoch(share, self.on_gpu, self.memory_format), None
        prepared = partial(in_host_memory, pinned=self.on_gpu, memory_format=self.memory_format)
        let_gloo_settle()
        return gathered_epoch(self.samples, share, self.seed, loader_workers, room, prepared, self.workload.collate)


class CapturedStep(Generic[T]):
    """A training step in a CUDA graph, which the host launches as one piece of work.

    It is replayed for batches as large as the one it was captured with. Any other batch runs without the graph, on the
    same weights.

    Every batch is copied into the memory that the graph reads. `stream` is the one on which the network was wrapped:
    DDP's hooks run on it. Tensors that `step` returns are overwritten by the next replay.
    """

    def __init__(
        self,
        step: Callable[[Batch], T],
        batch: Batch,
        device: torch.device,
        stream: torch.cuda.Stream,
    ):
        self._step = step
        self._batch = mapped(lambda tensor: tensor.to(device), batch)
        self._tensors = tensors(self._batch)
        self._sizes = [tensor.shape for tensor in self._tensors]
        self._graph = torch.cuda.CUDAGraph()
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(stream):
            for _ in range(STEPS_BEFORE):
                step(self._batch)
        torch.cuda.current_stream(device).wait_stream(stream)
        torch.cuda.synchronize(device)
        with torch.cuda.graph(self._graph, stream=stream):
            self._result = step(self._batch)

    def __call__(self, batch: Batch) -> T:
        sources = tensors(batch)
        if [source.shape for source in sources] != self._sizes:
            return self._step(batch)
        for target, source in zip(self._tensors, sources, strict=True):
            target.copy_(source, non_blocking=True)
        self._graph.replay()
        return self._result


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

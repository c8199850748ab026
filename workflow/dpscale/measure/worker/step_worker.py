"""What every worker that runs training steps does: build the network, and recognise when memory has run out."""

from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import nn
from torch.optim import Optimizer

from dpscale.measure.data.batches import Batch, preloaded_batches
from dpscale.measure.data.dataset import IMAGE_SIZE
from dpscale.measure.model.parallel import Exchange, parallelise
from dpscale.measure.model.resnet import CLASSES, build_network, network_size
from dpscale.measure.worker.base import Worker
from dpscale.plan.cells import Configuration
from dpscale.schemas.settings import StepSettings
from dpscale.vocabulary.strategies import strategy

MEMORY_FORMATS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}
# torch's own max-autotune would also put parts of the step in CUDA graphs, which is a setting of its own here.
RECOMPILE_LIMIT = 64
COMPILE_MODES = {"default": "default", "max-autotune": "max-autotune-no-cudagraphs"}


class StepWorker(Worker):
    """One rank that trains a configuration. Derived classes define what it measures."""

    settings_type: ClassVar[type[StepSettings]] = StepSettings

    def __init__(self, job: dict[str, Any], rank: int):
        configuration = self.configuration = Configuration(*job["configuration"])
        self.settings = self.settings_type.from_json(job["settings"])
        row = strategy(configuration.strategy)
        gpus = configuration.gpus
        super().__init__(job, rank, self.settings.device, gpus, row.processes(gpus), configuration.nodes)
        self.seed = int(job["seed"])
        self.dataset = Path(job["dataset"])
        self.phase = "setup"
        self.network: dict[str, int] | None = None
        # Images per step of this process: a process that drives all GPUs takes the images of all of them.
        self.batch = configuration.batch_per_gpu if row.has_process_per_gpu else configuration.global_batch
        used = [self.device.index] if row.has_process_per_gpu else range(gpus)
        self.devices = [torch.device("cuda", index) for index in used] if self.on_gpu else []
        self.memory_format = MEMORY_FORMATS[self.settings.memory_format]

    def prepare(self) -> None:
        # Torch's defaults, said aloud: variables of the environment can change what is left unsaid.
        torch.backends.cudnn.allow_tf32 = self.settings.precision != "float32-strict"
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.benchmark = self.settings.cudnn_benchmark
        if self.settings.compile != "none":
            # By default a function that was compiled for eight shapes or networks runs uncompiled, without a word.
            torch._dynamo.config.recompile_limit = RECOMPILE_LIMIT
            torch._dynamo.config.fail_on_recompile_limit_hit = True
        super().prepare()

    def outcome_of(self, error: Exception) -> dict[str, Any] | None:
        """Out of memory is an outcome."""
        # On a GPU the images are loaded into pinned host memory: where that is too small, nothing is known of the GPU.
        if not is_out_of_memory(error) or (self.on_gpu and self.phase.startswith("loading")):
            return None
        oom = {"rank": self.rank, "phase": self.phase, "message": str(error).splitlines()[0]}
        return {**self.outcome("oom", after=None), "oom": oom}

    def outcome(self, status: str, after: Any) -> dict[str, Any]:
        return {**super().outcome(status, after), "oom": None, "network": self.network}

    def build(self) -> tuple[nn.Module, Optimizer]:
        """The network as its strategy trains it, on this rank's devices, and its optimiser."""
        parallel = self.parallelised(self.build_network())
        return parallel, self.optimiser_of(parallel)

    def parallelised(self, network: nn.Module) -> nn.Module:
        """The plain `network` as the cell's strategy trains it."""
        return parallelise(network, self.configuration.strategy, self.devices, Exchange.of(self.settings))

    def build_alone(self) -> tuple[nn.Module, Optimizer]:
        """The plain network on this rank's first device, and its optimiser."""
        network = self.build_network()
        return network, self.optimiser_of(network)

    def optimiser_of(self, network: nn.Module) -> Optimizer:
        """The optimiser of the cell's settings, for all parameters of `network`."""
        settings = self.settings
        return torch.optim.SGD(
            network.parameters(),
            lr=settings.learning_rate,
            momentum=settings.momentum,
            weight_decay=settings.weight_decay,
            fused=settings.fused_optimiser or None,
        )

    def build_network(self) -> nn.Module:
        """The plain network on this rank's first device, with the weights of the cell's seed."""
        torch.manual_seed(self.seed)
        settings = self.settings
        network = build_network(settings.network, settings.width, settings.precision)
        self.network = network_size(network)
        network = network.to(self.device).to(memory_format=self.memory_format)
        if settings.compile != "none":
            # In place, before a strategy wraps it. DDP then has torch split the graph at its buckets, so that
            # allreduces still overlap with the backward pass. Every shape is compiled for itself.
            network.compile(mode=COMPILE_MODES[settings.compile], dynamic=False)
        return network

    def made_up_batch(self, batch: int) -> Batch:
        """`batch` images and labels on this rank's first device, to compile and capture with."""
        images = torch.randn((batch, 3, IMAGE_SIZE, IMAGE_SIZE), device=self.device)
        labels = torch.randint(0, CLASSES, (batch,), device=self.device)
        return images.contiguous(memory_format=self.memory_format), labels

    def preloaded(self) -> list[Batch]:
        """This rank's batches of an epoch, already in (pinned) host memory."""
        return preloaded_batches(self.dataset, self.rank, self.workers, self.batch, self.on_gpu, self.memory_format)


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

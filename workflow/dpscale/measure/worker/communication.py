"""One worker of a communication cell."""

import json
import math
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from typing import Any

from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks.debugging_hooks import noop_hook
from torch.nn.parallel import DataParallel, DistributedDataParallel, comm
from torch.optim import Optimizer
from torch.profiler import ProfilerActivity, profile

from dpscale.errors import StrategyError
from dpscale.measure.data.batches import Batch
from dpscale.measure.ranks import gather, slowest
from dpscale.measure.worker.epoch_timer import EpochTimer, Step, training_step
from dpscale.measure.worker.step_worker import StepWorker
from dpscale.measure.worker.trace import Mark, device_times, read_kernels

# The figures of an ablation are small differences of large times: its variants take turns, so that drift hits all of
# them alike.
ROUNDS = 6
BLOCK_S = 0.2
BLOCK_STEPS = (2, 50)
# DDP builds its buckets anew in its second step, and CUDA's libraries choose and load their kernels in the first ones.
WARM_UP_STEPS = 4
LOGGED_STEPS = 10
PROFILED_BLOCKS = 3
PROFILED_STEPS = 5
# Few batches, so that they fit in memory beside the networks. Steps use them in turn, again and again.
BATCHES = 8
LOG_NEVER = 2**30


@dataclass
class Variant:
    """One variant of the step, with its own network and optimiser."""

    network: nn.Module
    optimiser: Optimizer
    step: Step


class CommunicationWorker(StepWorker):
    """Times steps with and without communication, asks DDP's own logger, and profiles the devices."""

    def __init__(self, job: dict[str, Any], rank: int):
        super().__init__(job, rank)
        self.traces = job["traces"]
        self.steps: dict[str, Any] | None = None
        self.logger: dict[str, Any] | None = None
        self.profile: dict[str, Any] | None = None

    def results(self, finished: bool) -> dict[str, Any]:
        return {"steps": self.steps, "ddp_logger": self.logger, "profile": self.profile}

    def measure(self) -> None:
        """Fill `steps`, and as far as they exist here `logger` and `profile`."""
        self.phase = "loading the batches"
        batches = [batch for batch in self.preloaded() if len(batch[0]) == self.batch][:BATCHES]
        timer = EpochTimer(self.devices, self.workers)
        self.phase = "warm-up"
        variants = self._variants()
        block = self._warm_up(timer, variants, batches)
        self.phase = "timing steps"
        self.steps = self._time_steps(timer, variants, batches, block)
        training = variants["training"]
        if isinstance(training.network, DistributedDataParallel):
            self.phase = "asking DDP's logger"
            self.logger = self._log(training, batches)
        if self.on_gpu:
            self.phase = "profiling"
            self.profile = self._profile(timer, training, batches)

    def _variants(self) -> dict[str, Variant]:
        """The step as it is, and the step without parts of its communication, as far as its strategy allows.

        Raises StrategyError where it is not known what a strategy can do without.
        """
        name = self.configuration.strategy
        if name not in RUNGS:
            raise StrategyError(f"{name} has no rungs in {__name__}: it is not known what its steps can do without")
        return {rung: build(self) for rung, build in RUNGS[name].items()}

    def whole_step(self) -> Variant:
        network, optimiser = self.build()
        return Variant(network, optimiser, training_step(network, optimiser, self.device, self.memory_format))

    def without_allreduce(self) -> Variant:
        """DDP with a hook that does nothing: buckets are filled, and not reduced."""
        variant = self.whole_step()
        variant.network.register_comm_hook(None, noop_hook)  # type: ignore[operator]
        return variant

    def without_buckets(self) -> Variant:
        """DDP within `no_sync`, which also leaves out the copies into buckets."""
        variant = self.whole_step()
        return replace(variant, step=_within(variant.network.no_sync, variant.step))  # type: ignore[arg-type]

    def _warm_up(self, timer: EpochTimer, variants: dict[str, Variant], batches: Sequence[Batch]) -> int:
        """Returns how many steps a block has: equally many on every rank."""
        for variant in variants.values():
            timer.time(variant.step, _steps(batches, WARM_UP_STEPS), WARM_UP_STEPS)
        result = timer.time(variants["training"].step, _steps(batches, BLOCK_STEPS[0]), BLOCK_STEPS[0])
        fitting: int = math.ceil(BLOCK_S * BLOCK_STEPS[0] / result["epoch_s"])
        return min(max(fitting, BLOCK_STEPS[0]), BLOCK_STEPS[1])

    def _time_steps(
        self, timer: EpochTimer, variants: dict[str, Variant], batches: Sequence[Batch], block: int
    ) -> dict[str, Any]:
        """Median step of every block, the slowest rank's, and the block's own time over its steps: two clocks."""
        medians: dict[str, list[float]] = {name: [] for name in variants}
        means: dict[str, list[float]] = {name: [] for name in variants}
        names = list(variants)
        for number in range(ROUNDS):
            for name in names[number % len(names) :] + names[: number % len(names)]:
                result = timer.time(variants[name].step, _steps(batches, block), block)
                medians[name].append(max(gather(median(result["step_s"]), self.workers)))
                means[name].append(result["epoch_s"] / block)
            self.report(f"round {number + 1} of {ROUNDS}: step {means['training'][-1] * 1e3:.3f} ms")
        return {
            "block_steps": block,
            "variants": {name: {"step_s": medians[name], "block_step_s": means[name]} for name in names},
        }

    def _log(self, training: Variant, batches: Sequence[Batch]) -> dict[str, Any]:
        """DDP's own times of its backward passes, of the slowest rank in every step, and the bytes of its buckets."""
        network: Any = training.network
        network._set_ddp_runtime_logging_sample_rate(1)
        rows = []
        for images, labels in _steps(batches, LOGGED_STEPS + 1):
            training.step(images, labels)
            rows.append(network._get_ddp_logging_data())
        network._set_ddp_runtime_logging_sample_rate(LOG_NEVER)
        last = rows[-1]
        rows = rows[1:]  # DDP logs in a step the times of the step before
        names = {
            "backward_s": "backward_compute_time",
            "communication_s": "backward_comm_time",
            "overlap_s": "backward_compute_comm_overlap_time",
        }
        logged = {ours: slowest([row[theirs] * 1e-9 for row in rows], self.workers) for ours, theirs in names.items()}
        exposed = [(row["backward_comm_time"] - row["backward_compute_comm_overlap_time"]) * 1e-9 for row in rows]
        buckets = [int(size) for size in str(last["rebuilt_bucket_sizes"]).split(",")]
        return {**logged, "exposed_s": slowest(exposed, self.workers), "bucket_bytes": buckets}

    def _profile(self, timer: EpochTimer, training: Variant, batches: Sequence[Batch]) -> dict[str, Any]:
        """Blocks of profiled steps: where the time of every device went, for one step, in s."""
        marks = _PhaseMarks()
        step = marks.follow(training)
        # The first block is not counted: the profiler starts up on the devices while it runs.
        blocks = [self._profile_block(number, timer, step, marks, batches) for number in range(PROFILED_BLOCKS + 1)]
        return {"steps": PROFILED_STEPS, "blocks": blocks[1:]}

    def _profile_block(
        self, number: int, timer: EpochTimer, step: Step, marks: "_PhaseMarks", batches: Sequence[Batch]
    ) -> dict[str, Any]:
        marks.clear()
        # Only the work of the devices and what launched it. Recording every operator of the host would slow the host
        # down, and on fast GPUs the time of the host is of interest.
        with profile(activities=[ProfilerActivity.CUDA]) as profiler:
            result = timer.time(step, _steps(batches, PROFILED_STEPS), PROFILED_STEPS)
        path = self.folder / f"trace-{self.rank}.json"
        profiler.export_chrome_trace(str(path))
        trace = json.loads(path.read_text())
        if self.traces and number == PROFILED_BLOCKS:
            _keep(path, f"{self.traces}.rank-{self.rank}.trace.json.gz")
        kernels = read_kernels(trace, marks.marks)
        start_ns = marks.marks[0].at_ns
        end_ns = max(max((kernel.end_ns for kernel in kernels), default=start_ns), marks.marks[-1].at_ns)
        devices = device_times(kernels, marks.marks, [device.index for device in self.devices], start_ns, end_ns)
        own = [_per_step(asdict(device)) for device in devices]
        own_s = result["rank_epoch_s"][self.rank] / PROFILED_STEPS
        for device in own:
            device["step_s"] = own_s  # by the host's clock, which is not in the trace
        return {
            "step_s": result["epoch_s"] / PROFILED_STEPS,
            "devices": self._of_all_ranks(f"profile-{number}", own),
        }

    def _of_all_ranks(self, name: str, own: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The lists of all ranks in one, on rank 0."""
        (self.folder / f"{name}-{self.rank}.json").write_text(json.dumps(own))
        gather(self.rank, self.workers)
        if self.rank:
            return []
        files = [self.folder / f"{name}-{rank}.json" for rank in range(self.workers)]
        return [item for file in files for item in json.loads(file.read_text())]


class _PhaseMarks:
    """When the host began each phase of a step. The clock is the profiler's: time since the epoch."""

    def __init__(self) -> None:
        self.marks: list[Mark] = []

    def clear(self) -> None:
        self.marks.clear()

    def mark(self, phase: str) -> None:
        self.marks.append(Mark(phase, time.time_ns()))

    def follow(self, variant: Variant) -> Step:
        """Let the variant's step leave marks from now on. Returns the step to run.

        DataParallel's phases are methods that it calls one after the other. Its gradients are added in the backward
        pass, by a function of torch.nn.parallel.comm, when all of them are there.
        """
        network: Any = variant.network
        if isinstance(network, DataParallel):
            for method, phase in (
                ("scatter", "scatter"),
                ("replicate", "replicate"),
                ("parallel_apply", "forward"),
                ("gather", "gather"),
            ):
                setattr(network, method, self._marking(phase, getattr(network, method)))
            comm.reduce_add_coalesced = self._marking("reduce", comm.reduce_add_coalesced)
        else:
            network.register_forward_pre_hook(lambda *_: self.mark("forward"))
        network.register_forward_hook(lambda *_: self.mark("backward"))
        variant.optimiser.register_step_pre_hook(lambda *_: self.mark("optimiser"))
        return self._marking("copy", variant.step)

    def _marking(self, phase: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def marked(*arguments: Any, **named: Any) -> Any:
            self.mark(phase)
            return function(*arguments, **named)

        return marked


def _within(context: Callable[[], AbstractContextManager[Any]], step: Step) -> Step:
    def wrapped(images: Tensor, labels: Tensor) -> None:
        with context():
            step(images, labels)

    return wrapped


def _steps(batches: Sequence[Batch], steps: int) -> Any:
    return islice(cycle(batches), steps)


def _per_step(device: dict[str, Any]) -> dict[str, Any]:
    """Times of a block as times of one step."""
    return {
        "device": device["device"],
        "communication_s": device["communication_s"] / PROFILED_STEPS,
        "exposed_s": device["exposed_s"] / PROFILED_STEPS,
        "phases": {
            phase: {f"{what}_s": seconds / PROFILED_STEPS for what, seconds in parts.items()}
            for phase, parts in device["phases"].items()
        },
    }


def _keep(trace: Path, name: str) -> None:
    import gzip

    with trace.open("rb") as source, gzip.open(name, "wb") as target:
        shutil.copyfileobj(source, target)


# By strategy: the steps that are timed in turns, by the names that they have in the record.
RUNGS: Mapping[str, Mapping[str, Callable[[CommunicationWorker], Variant]]] = {
    "dp": {"training": CommunicationWorker.whole_step},
    "ddp": {
        "training": CommunicationWorker.whole_step,
        "no_op_hook": CommunicationWorker.without_allreduce,
        "no_sync": CommunicationWorker.without_buckets,
    },
}

WORKER = CommunicationWorker

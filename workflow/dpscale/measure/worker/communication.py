"""One worker of a communication cell."""

import math
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import cycle, islice
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks.debugging_hooks import noop_hook
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DataParallel, DistributedDataParallel, comm
from torch.optim import Optimizer

from dpscale.errors import StrategyError
from dpscale.measure.model.parallel import PersistentReplicas, bucket_bytes
from dpscale.measure.ranks import gather, gather_objects, slowest
from dpscale.measure.worker.epoch_timer import EpochTimer, Step
from dpscale.measure.worker.profiling import traced
from dpscale.measure.worker.step_worker import StepWorker
from dpscale.measure.worker.trace import Mark, device_times, read_kernels
from dpscale.measure.workload.batches import Batch, first, length, shares, to_device
from dpscale.measure.workload.loading import Room

# Differences of rungs are small differences of large times: the rungs take turns in a random order, so that drift and
# what a rung leaves behind hit all of them alike.
ROUNDS = 7
BLOCK_S = 0.2
# At least three: the first step of a block is not counted. In it the device waits for a host that has not run ahead
# yet, which happens once in a whole epoch.
BLOCK_STEPS = (3, 50)
# CUDA's libraries choose and load their kernels in the first steps.
WARM_UP_STEPS = 2
# In its first ten steps DDP waits for the device, to read its own clocks, and it builds its buckets anew in the second
# one. These steps are counted whatever their size, so they are small.
DDP_SETTLES_STEPS = 12
DDP_SETTLES_IMAGES = 8
# Witnesses: fewer steps where they are long.
WITNESS_S = 0.5
LOGGED_STEPS = (4, 10)
PROFILED_BLOCKS = 3
PROFILED_STEPS = (2, 5)
# Few batches, so that they fit in memory beside the networks. Steps use them in turn, again and again.
BATCHES = 8
LOG_NEVER = 2**30
# The rung that exists on several nodes of several GPUs.
ONE_NODE = "one_node"


@dataclass
class Variant:
    """One rung: a variant of the step on this rank. Without batches the rank has nothing to do, and waits."""

    network: nn.Module
    optimiser: Optimizer
    step: Step
    batches: Sequence[Batch]


class CommunicationWorker(StepWorker):
    """Times the rungs of a ladder, from the plain step of one GPU to the whole step; asks DDP's own logger, and
    profiles the devices."""

    def __init__(self, job: dict[str, Any], rank: int):
        super().__init__(job, rank)
        self.traces = job["traces"]
        self._shared: list[tuple[Tensor, dict[str, Any]]] = []
        self.steps: dict[str, Any] | None = None
        self.logger: dict[str, Any] | None = None
        self.profile: dict[str, Any] | None = None

    def results(self, finished: bool) -> dict[str, Any]:
        return {"steps": self.steps, "ddp_logger": self.logger, "profile": self.profile}

    def measure(self) -> None:
        """Fill `steps`, and as far as they exist here `logger` and `profile`."""
        self.phase = "loading the batches"
        share = self.rank, self.workers, self.batch
        batches, _ = self.epoch_in_memory(share, Room(math.inf, BATCHES))
        self.full_batches = [batch for batch in batches if length(batch) == self.batch][:BATCHES]
        timer = EpochTimer(self.devices, self.workers)
        self.phase = "warm-up"
        rungs = self._rungs()
        step_s = self._warm_up(timer, rungs)
        self.phase = "timing steps"
        self.steps = self._time_steps(timer, rungs, fitting(BLOCK_S, step_s, BLOCK_STEPS))
        training = rungs["training"]
        if isinstance(training.network, DistributedDataParallel):
            self.phase = "asking DDP's logger"
            self.logger = self._log(training, fitting(WITNESS_S, step_s, LOGGED_STEPS))
        if self.on_gpu:
            self.phase = "profiling"
            self.profile = self._profile(timer, training, fitting(WITNESS_S, step_s, PROFILED_STEPS))

    def _rungs(self) -> dict[str, Variant]:
        """The step as it is, and the step without parts of it, as far as its strategy allows.

        Raises StrategyError where it is not known what a strategy can do without.
        """
        name = self.configuration.strategy
        if name not in RUNGS:
            raise StrategyError(f"{name} has no rungs in {__name__}: it is not known what its steps can do without")
        several_nodes_of_several = self.nodes > 1 and self.gpus_here > 1
        left_out = frozenset() if several_nodes_of_several else {ONE_NODE}
        return {rung: build(self) for rung, build in RUNGS[name].items() if rung not in left_out}

    def whole_step(self) -> Variant:
        """The step as its strategy trains."""
        network, optimiser = self.build()
        return self._variant(network, optimiser, self.full_batches)

    def alone(self) -> Variant:
        """The first GPU trains the plain network. All other GPUs wait, without load."""
        return replace(self._plain, batches=self._own_batches if self.rank == 0 else ())

    def together_on_one_node(self) -> Variant:
        """Every GPU of the first node trains a plain network of its own. All other nodes wait."""
        return replace(self._plain, batches=self._own_batches if self.rank < self.gpus_here else ())

    def together(self) -> Variant:
        """Every GPU trains a plain network of its own, and nothing is shared."""
        return self._plain

    def without_buckets(self) -> Variant:
        """DDP within `no_sync`: no buckets, and after the first step no broadcast of buffers."""
        return self._ddp(synchronised=False)

    def without_allreduce(self) -> Variant:
        """DDP with a hook that does nothing: buckets are filled, and not reduced."""
        return self._ddp(hook=noop_hook)

    def with_allreduce_hook(self) -> Variant:
        """DDP with an allreduce that is called from Python as that hook is: the control of `without_allreduce`."""
        return self._ddp(hook=allreduce_hook)

    def whole_ddp(self) -> Variant:
        return self._ddp()

    def threads(self) -> Variant:
        """A thread per GPU, each with a replica that stays where it is, and nothing is moved between GPUs.

        The first GPU does in every step what it does in `alone`: copy from the host, forward, backward, update. All
        others have their images already, and do forward and backward: their gradients stay with them, and their
        weights as they are, since in DataParallel's step only the first GPU updates weights.
        """
        network, optimiser = self._persistent
        return Variant(network, optimiser, self._threads_step(network, optimiser), self._own_batches)

    def scattered(self) -> Variant:
        """The same, and images and outputs move as in DataParallel. Still without copies of the weights, and without
        the sum of gradients."""
        network, optimiser = self._persistent
        step = self.step_of(network, optimiser)
        return Variant(network, optimiser, self._until_all_devices_are_done(step), self.full_batches)

    @cached_property
    def _plain(self) -> Variant:
        return self._variant(*self.build_alone(), self._own_batches)

    @cached_property
    def _persistent(self) -> tuple[PersistentReplicas, Optimizer]:
        network = PersistentReplicas(self.build_network(), self.devices)
        optimiser = self.optimiser_of(network)
        self._share_weights(network, optimiser)
        return network, optimiser

    @property
    def _own_batches(self) -> Sequence[Batch]:
        """Of every batch what one GPU takes of it."""
        own = self.configuration.batch_per_gpu
        return [first(batch, own) for batch in self.full_batches]

    def _variant(self, network: nn.Module, optimiser: Optimizer, batches: Sequence[Batch]) -> Variant:
        self._share_weights(network, optimiser)
        return Variant(network, optimiser, self.step_of(network, optimiser), batches)

    def _share_weights(self, network: nn.Module, optimiser: Optimizer) -> None:
        """Let all rungs have their weights and momenta in common. Copies of their own would take memory, which must
        not run out where a training alone would fit."""
        parameters = list(network.parameters())
        if not self._shared:
            self._shared = [(parameter.data, optimiser.state[parameter]) for parameter in parameters]
        for parameter, (weights, state) in zip(parameters, self._shared, strict=True):
            parameter.data = weights
            optimiser.state[parameter] = state

    def _ddp(self, hook: Callable[..., Any] | None = None, synchronised: bool = True) -> Variant:
        """DDP after its first steps, with a communication hook, or with its steps within `no_sync`."""
        variant = self.whole_step()
        if hook is not None:
            variant.network.register_comm_hook(None, hook)  # type: ignore[operator]
        if not synchronised:
            variant = replace(variant, step=_within(variant.network.no_sync, variant.step))  # type: ignore[arg-type]
        small = first(self.full_batches[0], DDP_SETTLES_IMAGES)
        for _ in range(DDP_SETTLES_STEPS):
            variant.step(small)
        return variant

    def _threads_step(self, network: PersistentReplicas, optimiser: Optimizer) -> Step:
        of_devices = zip(shares(self.full_batches[0], len(self.devices)), self.devices, strict=True)
        others = [to_device(share, device, self.memory_format) for share, device in list(of_devices)[1:]]

        def step(batch: Batch) -> None:
            batch = to_device(batch, self.device, self.memory_format)
            optimiser.zero_grad()
            torch.autograd.backward(network.losses_apart(self.workload.loss, [batch, *others]))
            optimiser.step()

        return self._until_all_devices_are_done(step)

    def _until_all_devices_are_done(self, step: Step) -> Step:
        """`step`, whose end on the first device waits for all others, as it does where gradients are added up there."""

        def waiting(batch: Batch) -> None:
            step(batch)
            for device in self.devices[1:]:
                torch.cuda.current_stream(self.device).wait_stream(torch.cuda.current_stream(device))

        return waiting

    def _warm_up(self, timer: EpochTimer, rungs: dict[str, Variant]) -> float:
        """Returns the seconds of a whole step, the same on every rank."""
        for name in rungs:
            result = self._time_block(timer, rungs[name], WARM_UP_STEPS)
        result = self._time_block(timer, rungs["training"], WARM_UP_STEPS)
        step_s: float = result["epoch_s"] / WARM_UP_STEPS
        return step_s

    def _time_block(self, timer: EpochTimer, variant: Variant, steps: int) -> dict[str, Any]:
        steps = steps if variant.batches else 0
        result = timer.time(variant.step, steps_of(variant.batches, steps), steps)
        variant.optimiser.zero_grad()  # gives back the memory of its gradients
        return result

    def _time_steps(self, timer: EpochTimer, rungs: dict[str, Variant], block: int) -> dict[str, Any]:
        """Median step of every block but its first, of every rank and the slowest rank's, and the block's own time over
        all of its steps: two clocks."""
        times: dict[str, dict[str, list[Any]]] = {
            name: {"step_s": [], "block_step_s": [], "rank_step_s": []} for name in rungs
        }
        orders = list(random_orders(list(rungs), self.seed))
        for number, order in enumerate(orders, start=1):
            for name in order:
                result = self._time_block(timer, rungs[name], block)
                of_ranks = gather(median(result["step_s"][1:] or [math.nan]), self.workers)
                busy = [None if math.isnan(step_s) else step_s for step_s in of_ranks]
                times[name]["rank_step_s"].append(busy)
                times[name]["step_s"].append(max(step_s for step_s in busy if step_s is not None))
                times[name]["block_step_s"].append(result["epoch_s"] / block)
            self.report(f"round {number} of {ROUNDS}: step {times['training']['block_step_s'][-1] * 1e3:.3f} ms")
        return {"block_steps": block, "seed": self.seed, "orders": orders, "variants": times}

    def _log(self, training: Variant, steps: int) -> dict[str, Any]:
        """DDP's own times of its backward passes, of the slowest rank in every step, and the bytes of its buckets."""
        network: Any = training.network
        network._set_ddp_runtime_logging_sample_rate(1)
        rows = []
        for batch in steps_of(training.batches, steps + 1):
            training.step(batch)
            rows.append(network._get_ddp_logging_data())
        network._set_ddp_runtime_logging_sample_rate(LOG_NEVER)
        rows = rows[1:]  # DDP logs in a step the times of the step before
        names = {
            "backward_s": "backward_compute_time",
            "communication_s": "backward_comm_time",
            "overlap_s": "backward_compute_comm_overlap_time",
        }
        logged = {ours: slowest([row[theirs] * 1e-9 for row in rows], self.workers) for ours, theirs in names.items()}
        exposed = [(row["backward_comm_time"] - row["backward_compute_comm_overlap_time"]) * 1e-9 for row in rows]
        return {**logged, "exposed_s": slowest(exposed, self.workers), "bucket_bytes": bucket_bytes(network)}

    def _profile(self, timer: EpochTimer, training: Variant, steps: int) -> dict[str, Any]:
        """Blocks of profiled steps: where the time of every device went, for one step, in s."""
        marks = _PhaseMarks()
        followed = replace(training, step=marks.follow(training))
        # The first block is not counted: the profiler starts up on the devices while it runs.
        blocks = [self._profile_block(number, timer, followed, marks, steps) for number in range(PROFILED_BLOCKS + 1)]
        return {"steps": steps, "blocks": blocks[1:]}

    def _profile_block(
        self, number: int, timer: EpochTimer, followed: Variant, marks: "_PhaseMarks", steps: int
    ) -> dict[str, Any]:
        marks.clear()
        path = self.folder / f"trace-{self.rank}.json"
        result, trace = traced(lambda: self._time_block(timer, followed, steps), path)
        if self.traces and number == PROFILED_BLOCKS:
            _keep(path, f"{self.traces}.rank-{self.rank}.trace.json.gz")
        kernels = read_kernels(trace, marks.marks)
        start_ns = marks.marks[0].at_ns
        end_ns = max(max((kernel.end_ns for kernel in kernels), default=start_ns), marks.marks[-1].at_ns)
        devices = device_times(kernels, marks.marks, [device.index for device in self.devices], start_ns, end_ns)
        own = [_per_step(asdict(device), steps) for device in devices]
        own_s = result["rank_epoch_s"][self.rank] / steps
        for device in own:
            device["device"] += self.rank - self.local_rank  # on all nodes together
            device["step_s"] = own_s  # by the host's clock, which is not in the trace
        return {
            "step_s": result["epoch_s"] / steps,
            "devices": [device for of_rank in gather_objects(own, self.workers) for device in of_rank],
        }


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
    def wrapped(batch: Batch) -> None:
        with context():
            step(batch)

    return wrapped


def steps_of(batches: Sequence[Batch], steps: int) -> Iterator[Batch]:
    return islice(cycle(batches), steps)


def fitting(seconds: float, step_s: float, limits: tuple[int, int]) -> int:
    """How many steps take `seconds`, within the limits."""
    return min(max(math.ceil(seconds / step_s), limits[0]), limits[1])


def random_orders(names: list[str], seed: int, rounds: int = ROUNDS) -> Iterator[list[str]]:
    """The order of the rungs in every round."""
    random = Random(seed)
    for _ in range(rounds):
        yield random.sample(names, len(names))


def _per_step(device: dict[str, Any], steps: int) -> dict[str, Any]:
    """Times of a block of `steps` steps as times of one step."""
    return {
        "device": device["device"],
        "communication_s": device["communication_s"] / steps,
        "exposed_s": device["exposed_s"] / steps,
        "phases": {
            phase: {f"{what}_s": seconds / steps for what, seconds in parts.items()}
            for phase, parts in device["phases"].items()
        },
    }


def _keep(trace: Path, name: str) -> None:
    import gzip

    with trace.open("rb") as source, gzip.open(name, "wb") as target:
        shutil.copyfileobj(source, target)


# By strategy: the steps that are timed in turns, by the names that they have in the record. Each does what the one
# above it does, and one thing more; `allreduce_hook` stands beside them, as the control of `no_op_hook`.
RUNGS: Mapping[str, Mapping[str, Callable[[CommunicationWorker], Variant]]] = {
    "dp": {
        "alone": CommunicationWorker.alone,
        "threads": CommunicationWorker.threads,
        "scattered": CommunicationWorker.scattered,
        "training": CommunicationWorker.whole_step,
    },
    "ddp": {
        "alone": CommunicationWorker.alone,
        ONE_NODE: CommunicationWorker.together_on_one_node,
        "together": CommunicationWorker.together,
        "no_sync": CommunicationWorker.without_buckets,
        "no_op_hook": CommunicationWorker.without_allreduce,
        "allreduce_hook": CommunicationWorker.with_allreduce_hook,
        "training": CommunicationWorker.whole_ddp,
    },
}

WORKER = CommunicationWorker

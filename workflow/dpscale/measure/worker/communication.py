"""One worker of a communication cell."""

import json
import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain, cycle, islice
from random import Random
from statistics import median

from torch import Tensor, nn
from torch.optim import Optimizer
from torch.profiler import ProfilerActivity, profile

from dpscale.measure.ranks import gather, gather_objects
from dpscale.measure.watch.trace import Kernel, communication_s, computing_s, read_kernels
from dpscale.measure.worker.epoch_timer import EpochTimer, TimedEpoch
from dpscale.measure.worker.step_worker import StepWorker
from dpscale.measure.workload.batches import Batch, first, length
from dpscale.measure.workload.loading import Room
from dpscale.records.files import JsonRecord
from dpscale.strategies.in_torch import StepVariant, rungs_of
from dpscale.strategies.known import strategy

# Differences of rungs are small differences of large times: the rungs take turns in a random order, so that drift and
# the state that a rung leaves behind hit all of them alike.
ROUNDS = 7
BLOCK_S = 0.2
CPU_BLOCK_S = 0.1  # there a study is to be over in minutes
# At least three: the first step of a block is not counted. In it the device waits for a host that has not run ahead
# yet, which happens once in a whole epoch.
BLOCK_STEPS = (3, 50)
# CUDA's libraries choose and load their kernels in the first steps.
WARM_UP_STEPS = 2
# The profiler is a witness: fewer steps where they are long.
PROFILED_BLOCK_S = 0.5
PROFILED_BLOCKS = 3
PROFILED_STEPS = (2, 5)
# Few batches, so that they fit in memory beside the networks. Steps use them in turn, again and again.
BATCHES = 8


class CommunicationWorker(StepWorker):
    """Times the rungs of a ladder, from the plain step of one GPU to the whole step, and profiles the devices."""

    def __init__(self, job: JsonRecord, rank: int):
        super().__init__(job, rank)
        self._shared: list[tuple[Tensor, JsonRecord]] = []
        self.steps: JsonRecord | None = None
        self.profile: JsonRecord | None = None

    def results(self) -> JsonRecord:
        return {"steps": self.steps, "profile": self.profile}

    def measure(self) -> None:
        """Fill `steps`, and on GPUs `profile`."""
        self.phase = "loading the batches"
        share = self.rank, self.workers, self.batch
        batches, _ = self.epoch_in_memory(share, Room(math.inf, BATCHES))
        self.full_batches = [batch for batch in batches if length(batch) == self.batch][:BATCHES]
        timer = EpochTimer(self.devices, self.workers)
        self.phase = "warm-up"
        rungs = self.rungs()
        step_s = self._warm_up(timer, rungs)
        self.phase = "timing steps"
        self.steps = self._time_steps(
            timer, rungs, fitting(BLOCK_S if self.on_gpu else CPU_BLOCK_S, step_s, BLOCK_STEPS)
        )
        if self.on_gpu:
            self.phase = "profiling"
            steps = fitting(PROFILED_BLOCK_S, step_s, PROFILED_STEPS)
            silent = rungs.get(strategy(self.configuration.strategy).silent)
            # The first block is not counted: the profiler starts up on the devices while it runs.
            blocks = [self._profile_block(timer, rungs["training"], silent, steps) for _ in range(PROFILED_BLOCKS + 1)]
            self.profile = {"steps": steps, "blocks": blocks[1:]}

    def rungs(self) -> dict[str, StepVariant]:
        """Return the step as it is, and the step without parts of it, as far as its strategy allows."""
        return rungs_of(self.configuration.strategy, self)

    def whole_step(self) -> StepVariant:
        """Return the step as its strategy trains."""
        return self.variant(self.parallelised(self.build_network()), self.full_batches)

    @cached_property
    def plain(self) -> StepVariant:
        """The step of the plain network on this rank's first device, with its share of every batch."""
        return self.variant(self.build_network(), self.own_batches)

    @property
    def own_batches(self) -> Sequence[Batch]:
        """The samples of every batch that one GPU takes."""
        return [first(batch, self.configuration.batch_per_gpu) for batch in self.full_batches]

    def variant(self, network: nn.Module, batches: Sequence[Batch]) -> StepVariant:
        """Return the training step of a network, whose weights and momenta are those of all rungs, if none has
        shards."""
        optimiser = self.optimiser_of(network)
        if "weights" not in strategy(self.configuration.strategy).shards:  # shards are not the plain network's weights
            self._share_weights(network, optimiser)
        return StepVariant(network, optimiser, self.step_of(network, optimiser), batches)

    def _share_weights(self, network: nn.Module, optimiser: Optimizer) -> None:
        """Let all rungs have their weights and momenta in common. Copies of their own would take memory, which must
        not run out where a training alone would fit."""
        parameters = list(network.parameters())
        if not self._shared:
            self._shared = [(parameter.data, optimiser.state[parameter]) for parameter in parameters]
        for parameter, (weights, state) in zip(parameters, self._shared, strict=True):
            parameter.data = weights
            optimiser.state[parameter] = state

    def _warm_up(self, timer: EpochTimer, rungs: dict[str, StepVariant]) -> float:
        """Run every rung once, and return the seconds of a whole step, the same on every rank."""
        for variant in (*rungs.values(), rungs["training"]):
            step_s = self._time_block(timer, variant, WARM_UP_STEPS).epoch_s / WARM_UP_STEPS
        return step_s

    def _time_block(self, timer: EpochTimer, variant: StepVariant, steps: int) -> TimedEpoch:
        steps = steps if variant.batches else 0
        timed = timer.time(variant.step, steps_of(variant.batches, steps), steps)
        variant.optimiser.zero_grad()  # gives back the memory of its gradients
        return timed

    def _time_steps(self, timer: EpochTimer, rungs: dict[str, StepVariant], block: int) -> JsonRecord:
        """Time blocks of all rungs in turns.

        A block has the median of its steps but the first, the slowest rank's; and of every rank its own time over all
        of its steps.
        """
        variants: dict[str, JsonRecord] = {name: {"step_s": [], "rank_block_step_s": []} for name in rungs}
        orders = list(random_orders(list(rungs), self.seed))
        for number, order in enumerate(orders, start=1):
            for name in order:
                timed = self._time_block(timer, rungs[name], block)
                medians = gather(median(timed.step_s[1:] or [0.0]), self.workers)  # 0 of a rank that waits
                ranks = zip(medians, timed.rank_epoch_s, strict=True)
                rank_block_step_s = [rank_s / block if step_s else None for step_s, rank_s in ranks]
                variants[name]["step_s"].append(max(medians))
                variants[name]["rank_block_step_s"].append(rank_block_step_s)
            self.report(f"round {number} of {ROUNDS}: step {variants['training']['step_s'][-1] * 1e3:.3f} ms")
        return {"block_steps": block, "seed": self.seed, "orders": orders, "variants": variants}

    def _profile_block(
        self, timer: EpochTimer, training: StepVariant, silent: StepVariant | None, steps: int
    ) -> JsonRecord:
        """Profile a block of steps, and one of steps that send nothing: the communication of every device, and its
        computing with and without communication, for one step, in s."""
        kernels, block_s = self._profiled(timer, training, steps)
        silent_kernels = self._profiled(timer, silent, steps)[0] if silent else []
        devices = []
        for device in self.devices:
            all_s, exposed_s = communication_s(kernels, device.index)
            number = self.rank - self.local_rank + device.index  # on all nodes together
            times = {"communication_s": all_s, "exposed_s": exposed_s}
            if computing := computing_s(kernels, silent_kernels, device.index):
                times |= dict(zip(("computing_s", "silent_computing_s"), computing, strict=True))
            devices.append({"device": number, **{name: seconds / steps for name, seconds in times.items()}})
        return {"step_s": block_s / steps, "devices": list(chain(*gather_objects(devices, self.workers)))}

    def _profiled(self, timer: EpochTimer, variant: StepVariant, steps: int) -> tuple[list[Kernel], float]:
        """Return the devices' work in a block of steps, and the seconds of the block."""
        path = self.folder / f"trace-{self.rank}.json"
        # Only the work of the devices and its launches: to record every operator of the host would slow it down.
        with profile(activities=[ProfilerActivity.CUDA]) as profiler:
            timed = self._time_block(timer, variant, steps)
        profiler.export_chrome_trace(str(path))
        return read_kernels(json.loads(path.read_text())), timed.epoch_s


def steps_of(batches: Sequence[Batch], steps: int) -> Iterator[Batch]:
    """Return the batches of so many steps, which use `batches` in turn."""
    return islice(cycle(batches), steps)


def fitting(seconds: float, step_s: float, limits: tuple[int, int]) -> int:
    """Return the number of steps that take `seconds`, within the limits."""
    return min(max(math.ceil(seconds / step_s), limits[0]), limits[1])


def random_orders(names: list[str], seed: int, rounds: int = ROUNDS) -> Iterator[list[str]]:
    """Yield the order of the rungs in every round."""
    random = Random(seed)
    for _ in range(rounds):
        yield random.sample(names, len(names))


WORKER = CommunicationWorker

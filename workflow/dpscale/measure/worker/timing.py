"""One worker of a timing cell."""

import gc
import math
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any

import numpy as np
import torch
from msgspec import to_builtins
from torch import nn
from torch.optim import Optimizer

from dpscale.measure.ranks import gather, gather_objects
from dpscale.measure.watch.hardware import chip_rates
from dpscale.measure.watch.sensors import Watcher, on_all_nodes
from dpscale.measure.worker.epoch_timer import EpochTimer, TimedEpoch
from dpscale.measure.worker.memory import memory_of_step
from dpscale.measure.worker.step_worker import CapturedStep, StepWorker
from dpscale.measure.workload.batches import Batch, Share, Step, samples_per_rank, to_device
from dpscale.measure.workload.loading import LoadedEpochs, Room
from dpscale.records.files import JsonRecord
from dpscale.records.kinds import Watched
from dpscale.schemas.settings import TimingSettings
from dpscale.strategies.known import BASELINE, strategy

# How often an epoch is timed that something disturbs.
TRIES = 3
# Once a baseline's first epoch has warmed process and GPU, it only has to take its memory and start its loader again.
WARM_UP_STEPS_AGAIN = 10


@dataclass(frozen=True)
class Team:
    """Ranks that time epochs together: all of a cell, or the first one alone on its first GPU.

    `rank` is this process's among `workers`, `batch` its images per step.
    """

    name: str
    rank: int
    workers: int
    batch: int
    devices: Sequence[torch.device]
    build: Callable[[], tuple[nn.Module, Optimizer]]

    @property
    def share(self) -> Share:
        """The share of an epoch that this process takes."""
        return self.rank, self.workers, self.batch


# A team's step, built, compiled and captured; and the seconds that this took, None where neither was done.
Ready = tuple[Step, float | None]
# Timed epochs in every scope of the clock, as records have them (`records.kinds.Scope`).
Scopes = dict[str, JsonRecord]


@dataclass
class BaselineHalves:
    """The plain module at a batch, timed on the first GPU before and after the cell's own epochs.

    `halves` has the scopes of "before" and of "after".
    """

    batch_per_gpu: int
    status: str = "ok"
    halves: dict[str, Scopes] = field(default_factory=dict)

    def to_json(self) -> JsonRecord:
        """Return it as records have it. Where memory runs out before the second half, the first one says nothing."""
        after = self.halves.get("after", {})
        scopes = {scope: {half: timed[scope] for half, timed in self.halves.items()} for scope in after}
        return {"batch_per_gpu": self.batch_per_gpu, "status": self.status, "scopes": scopes}


class TimingWorker(StepWorker):
    """Times every scope of the cell between two halves of its own baseline.

    The baseline is the plain module on the first worker's GPU, timed before and after while the other GPUs idle (A B
    A). Differences between servers, GPUs and hours are then in both. Finished scopes are kept where memory runs out.
    """

    settings_type = TimingSettings
    settings: TimingSettings

    def __init__(self, job: JsonRecord, rank: int):
        super().__init__(job, rank)
        self.scopes: Scopes = {}
        self.alone: list[BaselineHalves] | None = None
        self.watcher: Watcher | None = None  # on the first rank of a node
        self.preparation_s: float | None = None
        self.chip: dict[str, str | float] | None = None
        self.memory: list[JsonRecord] = []
        if strategy(self.configuration.strategy).is_parallel and self.settings.baseline == "in_job":
            batches = [self.configuration.batch_per_gpu]
            if job["baseline_at_global_batch"]:
                batches.append(self.configuration.global_batch)
            self.alone = [BaselineHalves(batch) for batch in batches]

    def measure(self) -> None:
        """Fill `scopes` and `alone`."""
        if self.local_rank == 0:
            self.watcher = Watcher(self.folder, self.sensors, self.gpu_uuids, self.worker_pids)
        all_ranks = Team("", self.rank, self.workers, self.batch, self.devices, self.build)
        if self.settings.compile == "none" and not self.settings.cuda_graph:
            self._measure_memory()
        # A graph with NCCL's collectives in it has to be the first that a process captures: after the graph of a plain
        # network its replay ended in an illegal memory access (torch 2.11).
        ready = self._ready(all_ranks) if self.settings.cuda_graph else None
        self._time_alone("before")
        step, self.preparation_s = ready or self._ready(all_ranks)
        self._time(all_ranks, step, self.settings.timed_epochs, [False for _ in self.settings.scopes], self.scopes)
        del ready, step
        self._give_memory_back()
        self._time_alone("after")
        if self.on_gpu and self.rank == 0:
            self.phase = "timing what the GPU reaches at best"
            self.chip = chip_rates(self.device, self.settings.precision)

    def results(self) -> JsonRecord:
        return {
            "preparation_s": self.preparation_s,
            "scopes": self.scopes,
            "alone": None if self.alone is None else [baseline.to_json() for baseline in self.alone],
            "chip": self.chip,
            "memory": self.memory,
        }

    def _measure_memory(self) -> None:
        """Take a few steps with networks of their own, and look at their memory on every rank."""
        self.phase = "memory of a step"
        batch = self.made_up_batch(self.batch)
        memory = memory_of_step(
            self.build,
            self.step_with,
            self.workload.loss,
            batch,
            self.device,
            is_counted=self.configuration.strategy == BASELINE,
        )
        self.memory = gather_objects(to_builtins(memory), self.workers)
        del batch
        self._give_memory_back()
        self.skipped_updates = 0

    def _time_alone(self, when: str) -> None:
        """Time the baselines on the first worker; the others wait, with their GPUs idle."""
        if self.rank == 0:
            for baseline in self.alone or ():
                if baseline.status == "ok":
                    self._time_baseline(baseline, when)
        gather(self.rank, self.workers)

    def _time_baseline(self, baseline: BaselineHalves, when: str) -> None:
        """Time a half of a baseline. Memory may run out at the global batch, which is a result; at the cell's own batch
        it ends the cell."""
        batch = baseline.batch_per_gpu
        team = Team(f"alone at batch {batch}, {when}: ", 0, 1, batch, self.devices[:1], self.build_alone)
        warm = [when == "after", *(True for _ in self.settings.scopes[1:])]
        timed: Scopes = {}
        try:
            self._time(team, self._ready(team)[0], math.ceil(self.settings.timed_epochs / 2), warm, timed)
        except Exception as error:
            if batch == self.configuration.batch_per_gpu or not self.ran_out_of_memory(error):
                raise
            baseline.status = "oom"
            return
        finally:
            self._give_memory_back()
        baseline.halves[when] = timed

    def _ready(self, team: Team) -> Ready:
        """Build a team's network and step; compile and capture it where settings ask for that, before any clock."""
        self.phase = f"{team.name}setup"
        stream = torch.cuda.Stream(self.device) if self.settings.cuda_graph else None
        with torch.cuda.stream(stream) if stream else nullcontext():
            network, optimiser = team.build()
        step = self.step_of(network, optimiser)
        is_compiled = self.settings.compile != "none"
        if stream is None and not is_compiled:
            return step, None
        self.phase = f"{team.name}preparation"
        start = time.perf_counter()
        batch = self.made_up_batch(team.batch)
        if is_compiled:
            torch.compiler.set_stance("default")
        step(batch)
        if is_compiled:
            # An epoch's last step, where it is smaller, is not worth another compilation.
            torch.compiler.set_stance("eager_on_recompile")
        if stream is not None:
            step = CapturedStep(step, batch, self.device, stream)
        for device in team.devices:
            torch.cuda.synchronize(device)
        return step, max(gather(time.perf_counter() - start, team.workers))

    def _time(self, team: Team, step: Step, epochs: int, is_warm: Sequence[bool], scopes: Scopes) -> None:
        """Warm up and time every scope, and put it into `scopes` at once: memory may run out in the next one. A scope
        that `is_warm` needs a few steps to warm up, any other whole epochs."""
        timer = EpochTimer(team.devices, team.workers)
        for scope, warm in zip(self.settings.scopes, is_warm, strict=True):
            self.phase = f"loading the dataset for {team.name}{scope}"
            batches = self._batches(team, scope)
            self._warm_up(team, scope, timer, step, batches, 0 if warm else self.settings.warmup_epochs)
            scopes[scope] = self._time_scope(team, scope, timer, step, batches, epochs)

    def _batches(self, team: Team, scope: str) -> Any:
        """Return the batches of one epoch of `scope` on this rank. Their length is the number of steps."""
        on_device = self.settings.images_on == "device"
        if scope == "compute":
            batches = self._in_memory(team)
            return [to_device(batch, self.device, self.memory_format) for batch in batches] if on_device else batches
        if on_device and self.workload.device_epochs is not None:
            return self.workload.device_epochs(team.share, self.device, self.memory_format, self.seed)
        settings = self.settings
        return LoadedEpochs(self.samples, team.share, settings.loader_workers, self.on_gpu, self.workload.collate)

    def _in_memory(self, team: Team) -> Sequence[Batch]:
        """Return the batches of an epoch in host memory. Where not all fit, they are used in turn, which is
        reported."""
        settings = self.settings
        room = Room(settings.batch_memory_gb * 1e9)
        batches, different = self.epoch_in_memory(team.share, room, settings.loader_workers)
        if different is not None and different < len(batches):
            self.report(
                f"{self.phase}: {different} different batches fit in {settings.batch_memory_gb:g} GB "
                f"(dataset.batch_memory_gb), the {len(batches)} steps of an epoch use them in turn"
            )
        return batches

    def _warm_up(self, team: Team, scope: str, timer: EpochTimer, step: Step, batches: Any, epochs: int) -> None:
        self.phase = f"{team.name}warm-up of {scope}"
        if not epochs:
            timer.time(step, islice(batches, WARM_UP_STEPS_AGAIN), min(WARM_UP_STEPS_AGAIN, len(batches)))
        for _ in range(epochs):
            timer.time(step, batches, len(batches))

    def _time_scope(
        self, team: Team, scope: str, timer: EpochTimer, step: Step, batches: Any, count: int
    ) -> JsonRecord:
        for device in team.devices:
            torch.cuda.reset_peak_memory_stats(device)
        epochs: list[TimedEpoch] = []
        watched: list[JsonRecord] = []
        skipped_before = self.skipped_updates
        for number in range(1, count + 1):
            self.phase = f"{team.name}{scope} epoch {number}"
            for tries_left in reversed(range(TRIES)):
                epoch, observation = self._watched_epoch(team, timer, step, batches)
                if not epoch.is_disturbed:
                    break
                self.report(
                    f"{self.phase}: disturbed: of {epoch.epoch_s:.3f} s no step explains {epoch.stalled_s:.3f} s; "
                    f"{'timed again' if tries_left else 'taken as it is'}"
                )
            epochs.append(epoch)
            watched += [to_builtins(observation)] if observation else []
            self.report(f"{self.phase} of {count}: {epoch.epoch_s:.3f} s")
        loads = scope == "end_to_end" and self.settings.images_on == "host"
        full = samples_per_rank(self.settings.epoch_images, team.workers) // team.batch
        medians, quartiles = full_steps([epoch.step_s[:full] for epoch in epochs], team.workers)
        return {
            "epoch_s": [epoch.epoch_s for epoch in epochs],
            "rank_epoch_s": [epoch.rank_epoch_s for epoch in epochs],
            "step_s_median": medians,
            "step_s_quartiles": quartiles,
            "full_steps_per_epoch": full,
            "steps_per_epoch": len(batches),
            "peak_memory_bytes": self._peak_memory(team),
            "loader_processes": self.settings.loader_workers * team.workers if loads else 0,
            "watched": watched,
            "stalled_s": [epoch.stalled_s if epoch.is_disturbed else 0.0 for epoch in epochs],
            "skipped_updates": self.skipped_updates - skipped_before,
        }

    def _watched_epoch(
        self, team: Team, timer: EpochTimer, step: Step, batches: Any
    ) -> tuple[TimedEpoch, Watched | None]:
        """Time an epoch; on the first rank of a node, which watches it, also return the events on the GPUs of all
        nodes."""
        with self.watcher or nullcontext():
            epoch = timer.time(step, batches, len(batches))
        seen = self.watcher.observation if self.watcher else None
        nodes: list[Any] = self.of_every_node(seen) if team.workers > 1 else [seen]
        return epoch, None if self.local_rank else on_all_nodes(nodes)

    def _peak_memory(self, team: Team) -> list[int] | None:
        if not self.on_gpu:
            return None
        return list(chain(*gather_objects(list(map(torch.cuda.max_memory_allocated, team.devices)), team.workers)))

    def _give_memory_back(self) -> None:
        """Free the memory that the network of one team held for the next."""
        gc.collect()
        if self.on_gpu:
            torch.cuda.empty_cache()


def full_steps(epochs: Sequence[Sequence[float]], workers: int) -> tuple[list[float], list[list[float]]]:
    """Return the median of every epoch's full steps, and their lower and upper quartile, in seconds: of the rank with
    the largest median. `epochs` has the steps of this rank."""
    medians, quartiles = [], []
    for steps in epochs:
        lower, middle, upper = np.quantile(steps, (0.25, 0.5, 0.75)).tolist()
        slowest = max(gather_objects([middle, lower, upper], workers))
        medians.append(slowest[0])
        quartiles.append(slowest[1:])
    return medians, quartiles


WORKER = TimingWorker

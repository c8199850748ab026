"""Which intervention comes when, and for how many steps; or blocks in turn with those of another script. Rank 0 alone
decides: the others ask it for each block."""

from __future__ import annotations

import json
import math
import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch.distributed as dist

from .calls import compiled
from .hooks import NOW, Json
from .loader import KEPT, LOADING

AS_IT_IS = ("as_it_is", "as_it_is_again")  # two of a kind in each round: how much equal blocks differ
# The first steps after a switch belong to it: cuDNN's search, compilation, a queue of batches that ran full.
SKIPPED, SKIPPED_AFTER_SWITCHES = 2, 5
SWITCHES = (
    "precision",
    "cudnn_benchmark_off",
    "one_device",
    "share_on_one_device",
    "deterministic_off",
    "fused_optimiser",
)
# So long a script waits for batches that stand ready to be used up; where it waits for a smaller part of its step, it
# does not wait at all.
USED_UP_S, LEAST_WAITED = 2.0, 0.1
LEAST_STEPS, MOST_STEPS = 4, 2000
# Of steps that take so long, half as many do, and fewer belong to a switch.
LONG_STEP_S = 0.5
# Of so many rounds an interval bears one that was disturbed; of fewer than the least nothing is told.
ROUNDS, LEAST_ROUNDS = 12, 4

WARM_UP_STEPS = 5
# Steps of batches of changing shapes differ in work: more of them are as long as the mean.
PROFILED, PROFILED_CHANGING, PROFILED_S = 3, 30, 2.0

PATIENCE_S = 60.0  # for the turn that rank 0 tells
# Of a block's time: a script that waits for batches longer than that needs a block without those made ahead.
WAITS = 0.02

clock = time.perf_counter


@dataclass(frozen=True)
class AttachJob:
    """The order of a run, from its job.json."""

    minutes: float
    mode: str = "diagnose"  # or `pace`: nothing but a clock of steps and batches; or `turns` with another script
    rounds: float = math.inf  # at most
    leave_out: Sequence[str] = ()  # interventions


class Turn(NamedTuple):
    """Steps of one kind: first `skip` that do not count, then `steps` that do."""

    phase: str  # warm-up, timing, profiling or ended
    round: int
    probe: str
    skip: int
    steps: int


def order(probes: Sequence[str], number: int) -> list[str]:
    """Each probe once and as_it_is twice, shuffled by the round's number."""
    names = [*AS_IT_IS, *probes]
    random.Random(number).shuffle(names)
    return names


def block_seconds(seconds: float, blocks: int) -> float:
    """So that ROUNDS rounds fit into `seconds`: 0.1 s to 2 s a block."""
    return min(2.0, max(0.1, seconds / blocks / ROUNDS))


def steps_of(step_s: float, seconds: float) -> int:
    least = LEAST_STEPS if step_s < LONG_STEP_S else LEAST_STEPS // 2
    return max(least, min(MOST_STEPS, round(seconds / max(step_s, 1e-6))))


def profiled(step_s: float) -> int:
    return min(PROFILED_CHANGING, steps_of(step_s, PROFILED_S)) if LOADING.shapes_change() else PROFILED


def skipped(probe: str, before: str, queued: int, step_s: float, before_s: float = 0.0) -> int:
    """Steps to throw away: those of batches that are to be kept; and after a block without the loader, those until the
    batches are used up that stand ready by now (`queued`). Workers go on meanwhile: the longer that takes, the less a
    step is longer than one before (`before_s`)."""
    loading = 0
    if probe.startswith("batch_kept"):
        loading = KEPT
    elif before.startswith("batch_kept"):
        waited = 1 - before_s / step_s
        used_up = min(queued / waited, max(queued, USED_UP_S / step_s)) if waited > LEAST_WAITED else queued
        loading = min(round(used_up), 32) + SKIPPED
    switched = {probe, before} & set(SWITCHES) and step_s < LONG_STEP_S
    return max(SKIPPED_AFTER_SWITCHES if switched else SKIPPED, loading)


def that_fit(probes: Sequence[str], step_s: float, seconds: float) -> list[str]:
    """The first probes of which LEAST_ROUNDS rounds fit into `seconds`; at least three."""
    room = int(seconds / LEAST_ROUNDS / (step_s * (LEAST_STEPS + SKIPPED))) - len(AS_IT_IS)
    return list(probes[: max(3, room)])


def plan(run: Any) -> Iterator[Turn]:
    """All blocks of a run (run.WatchedRun), the first of warm-up excepted: they depend on how long its steps take."""
    seconds = 60.0 * run.job.minutes
    yield from warm_up(run, seconds)
    yield from rounds(run, run.offer(seconds), seconds)
    if not run.pace:
        if not compiled()[0]:  # graphs would be compiled anew
            yield Turn("profiling", 0, "flops_per_step", 0, 1)
        if run.optimisers.on_gpu:
            yield Turn("profiling", 0, "profile", 0, profiled(run.clock.pace_s))
    yield Turn("ended", 0, "", 0, 0)


def warm_up(run: Any, seconds: float) -> Iterator[Turn]:
    """Yield blocks that do not count, for a part of `seconds`."""
    yield Turn("warm-up", 0, "as_it_is", 0, LEAST_STEPS)
    while clock() - run.began < min(3.0, 0.15 * seconds):
        yield Turn("warm-up", 0, "as_it_is", 0, steps_of(run.clock.pace_s, 0.2))


def rounds(run: Any, probes: Sequence[str], seconds: float) -> Iterator[Turn]:
    """Yield as many rounds as fit, the first one if twice `seconds` is enough; no more than the job's `rounds`."""
    until, number, longest, before = clock() + seconds, 0, 0.0, ""
    pace_s: dict[str, float] = {}  # of a step with an intervention, once it has run
    while not number or (number < run.job.rounds and clock() + 0.7 * longest < until):
        began = clock()
        block_s = block_seconds(seconds, len(probes) + len(AS_IT_IS)) - SKIPPED * run.clock.pace_s
        for name in order(probes, number):
            if clock() > until + (0.3 if number else 1.0) * seconds:
                return
            step_s = pace_s.get(name, run.clock.pace_s)
            skip = skipped(name, before, LOADING.queued(), step_s, pace_s.get(before, 0.0))
            yield Turn("timing", number, name, skip, steps_of(step_s, block_s))
            pace_s[name] = run.blocks[-1]["seconds"] / run.blocks[-1]["steps"]
            before = name
        number, longest = number + 1, max(longest, clock() - began)


def turns(run: Any) -> Iterator[Turn]:
    """All blocks of a run, as `plan` does. The device has done its work at the end of each.

    Rank 0 alone speaks with `diagnosis/versus.py` by two pipes, and reads its word without a timeout: that costs no
    core while the other script steps.
    """
    yield from warm_up(run, 60.0 * run.job.minutes)
    reports, words = os.open(run.folder / "said", os.O_WRONLY), os.open(run.folder / "words", os.O_RDONLY)
    number, waits = 0, True  # for batches
    done: Json = {"steps": 0, "seconds": 0.0, "samples": None}
    while True:
        with suppress(BrokenPipeError):
            os.write(reports, f"{json.dumps({'pid': os.getpid(), **done})}\n".encode())
        seconds = float(os.read(words, 64) or 0)  # 0 ends the script, and so does a launcher that is no longer there
        if not seconds:
            break
        # Workers of a DataLoader went on: the batches that they made meanwhile are no part of the pace.
        skip = SKIPPED + (min(LOADING.queued(), 32) if waits else 0)
        steps, samples = NOW.step, LOADING.samples
        yield Turn("timing", number, "as_it_is", skip, steps_of(run.clock.pace_s, seconds))
        block, number = run.blocks[-1], number + 1
        waits = waits and block["loading_s"] > WAITS * block["seconds"]
        taken = (LOADING.samples - samples) * run.ranks.world_size / (NOW.step - steps)
        done = {"steps": block["steps"], "seconds": block["seconds"], "samples": taken or None}
    yield Turn("ended", 0, "", 0, 0)


class Ranks:
    """Ranks of the default process group; a process that has none, or is alone in it, is rank 0 of one.

    Raises TimeoutError where another rank does not come. Where rank 0 waits for another script, others are `patient`:
    they wait as long as it does, and ask rarely, since that script is timed meanwhile.
    """

    def __init__(self, patient: bool = False) -> None:
        self._patience_s, self._pause_s = (math.inf, 0.05) if patient else (PATIENCE_S, 0.001)
        self.rank, self.world_size = 0, 1
        self.backend: str | None = None
        self._store: Any = None
        if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
            from torch.distributed.distributed_c10d import PrefixStore, _get_default_store

            self.rank, self.world_size, self.backend = dist.get_rank(), dist.get_world_size(), dist.get_backend()
            self._store = PrefixStore("dpscale", _get_default_store())
            self._store.add("here", 1)

    def next(self, number: int, plan: Iterator[Turn]) -> Turn:
        """The turn of this number: rank 0 takes it out of its plan."""
        key = f"turn {number}"
        if self.rank == 0:
            turn = next(plan)
            if self._store is not None:
                self._store.set(key, json.dumps(turn))
            return turn
        # Asked again and again: to wait in the store would keep it from torch's own threads.
        _wait(lambda: self._store.check([key]), self._patience_s, self._pause_s)
        return Turn(*json.loads(self._store.get(key)))

    def all_here(self) -> bool:
        """Whether every rank has made a step under these hooks: a rank without them would wait for others for ever."""
        return self._counted("here", 10.0)

    def leave(self) -> None:
        """Rank 0 may keep the store: it goes last."""
        if self._store is not None:
            self._store.add("left", 1)
        if self.rank == 0:
            self._counted("left", 10.0)

    def _counted(self, key: str, patience_s: float) -> bool:
        if self._store is None:
            return True
        try:
            _wait(lambda: self._store.add(key, 0) >= self.world_size, patience_s, 0.01)
        except TimeoutError:
            return False
        return True


def _wait(come: Callable[[], bool], patience_s: float, pause_s: float) -> None:
    until = time.monotonic() + patience_s
    while not come():
        if time.monotonic() > until:
            raise TimeoutError("ranks do not step together")
        time.sleep(pause_s)

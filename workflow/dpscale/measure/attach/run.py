"""The run inside one process: from turn to turn, as rank 0 plans them, until time is up."""

from __future__ import annotations

import atexit
import gc
import os
import platform
import socket
import time
from functools import partial
from multiprocessing import util
from pathlib import Path
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from . import calls, hooks, loader, probes, report, schedule
from .calls import EVENTS, NETWORK
from .hooks import NOW, Json, Sampler
from .loader import LOADING
from .report import Flops, Profile
from .schedule import AS_IT_IS, AttachJob, Ranks, Turn
from .steps import Optimisers, StepClock

clock = time.perf_counter
TOOLS: dict[str, type[Flops | Profile]] = {"flops_per_step": Flops, "profile": Profile}


class Ended(SystemExit):
    """All is measured: the script ends as if it were done."""


class WatchedRun:
    """From the first optimiser step of a process to its end, block by block, and what was found."""

    def __init__(self, job: AttachJob, folder: Path, optimiser: Any) -> None:
        self.job, self.folder = job, folder
        self.pace = job.mode == "pace"
        self.began = clock()
        self.timing_began: float | None = None
        self.warm_up_steps = 0
        self.optimisers = Optimisers(optimiser)
        self.ranks = Ranks()
        self.why: str | None = None  # it is only watched
        self.blocks: list[Json] = []
        self.found: Json = {}  # by tools
        self.processor: Any = None
        self.sampler = None if self.pace else Sampler()
        EVENTS.start()
        LOADING.seconds = 0.0
        self.clock = StepClock(self.optimisers.on_gpu, self.sampler)
        self.plan = schedule.plan(self)
        self.heard = 0
        self.block = StepBlock(self, Turn("warm-up", 0, "as_it_is", 0, schedule.WARM_UP_STEPS))
        if self.sampler:
            hooks.add(self.sampler.start, self.sampler.stop)
            hooks.put(calls.WAITS if self.optimisers.on_gpu else ())
            hooks.put(calls.SEARCHES if any(ddp.find_unused_parameters for ddp in NETWORK.ddp) else ())
        self.pid = os.getpid()
        self.refused = 0  # times that the script was to end
        self.tell_progress("warm-up")
        # Children of multiprocessing end without atexit, others without multiprocessing's end.
        util.Finalize(None, self.at_exit, exitpriority=0)
        atexit.register(self.at_exit)

    def stepped(self, optimiser: Any) -> None:
        """One call of an optimiser. Raises Ended where all is measured."""
        turn = self.block.turn
        if not self.optimisers.ends_step(optimiser, turn.phase == "warm-up"):
            return
        # The first step after some interventions holds what they begin with.
        is_first = not self.block.counting and not self.clock.times
        self.clock.stepped(turn, may_be_pause=not is_first or turn.skip < schedule.SKIPPED_AFTER_SWITCHES)
        if self.clock.left <= 0:
            try:
                self._border()
            except Exception as error:  # this rank would no longer do as the others do
                if self.phase != "profiling":  # all blocks are there
                    self.why = str(error) or type(error).__name__
                self.end()
            self.clock.since = clock()

    def _border(self) -> None:
        if not self.block.counting and self.block.turn.steps:
            self.block.count()
            return
        self.block.close()
        if self.heard == 0:  # the very first steps were no measure
            self.clock.recent.clear()
        self.heard += 1
        turn = self.ranks.next(self.heard, self.plan)
        if turn.phase == "timing" and self.timing_began is None:
            self._begin_timing()
        if turn.phase == "ended":
            self.end()
        self.tell_progress(turn.phase, turn.left_s)
        if turn.phase == "profiling":
            report.write(self.folder, "process", self.report())  # what follows could fail
        self.block = StepBlock(self, turn)

    def _begin_timing(self) -> None:
        self.timing_began, self.warm_up_steps = clock(), NOW.step
        self.optimisers.choose()
        self.processor = report.processor_time()
        EVENTS.start()
        LOADING.worker_starts.clear()
        self.why = self.why or (None if self.pace else probes.hindrance(self.scene()))

    def scene(self) -> probes.Scene:
        seconds = clock() - self.began
        return probes.Scene(self.optimisers.living(), self.optimisers.on_gpu, self.ranks.world_size, seconds)

    def offer(self, seconds: float) -> list[str]:
        """The interventions that this run gets in so many seconds. The plan asks it, on rank 0."""
        if self.pace:
            return []
        self.why = probes.hindrance(self.scene()) or self._others()
        left_out = probes.PROBES if self.why else self.job.leave_out
        offered = [name for name in probes.offered(self.scene()) if name not in left_out]
        return schedule.that_fit(offered, self.clock.pace_s, seconds)

    def _others(self) -> str | None:
        if not self.ranks.all_here():
            return "not every rank has these hooks"
        more_processes = len(list(self.folder.glob("progress-*.json"))) - 1
        return "several processes that are no ranks" if self.ranks.world_size == 1 and more_processes > 0 else None

    def end(self, *_arguments: Any) -> None:
        """End the script, whose run is measured and written down. Raises Ended."""
        self.refused += 1
        if self.refused == 1:
            NOW.counting = NOW.as_it_is = False
            hooks.take_out()
            hooks.leave_out_of_graphs(WatchedRun.end)
            register_optimizer_step_post_hook(self.end)  # for a script that goes on
            report.write(self.folder, "process", self.report())
            self.ranks.leave()
            self.tell_progress("ended")
        if self.refused > 100:  # a script that catches every exception
            os._exit(0)
        raise Ended(0)

    def at_exit(self) -> None:
        """Write down the run of a script that ends before its time."""
        if not self.refused and os.getpid() == self.pid:
            self.refused = 1
            report.write(self.folder, "process", self.report())

    def tell_progress(self, phase: str, left_s: float = 0.0) -> None:
        self.phase = phase
        report.write(self.folder, "progress", {"phase": phase, "left_s": left_s})

    def report(self) -> Json:
        """Return all findings: the file of this process."""
        values = {
            "host": socket.gethostname(),
            "pid": self.pid,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "environment": {name: value for name, value in sorted(os.environ.items()) if name.startswith(report.READ)},
            "rank": self.ranks.rank,
            "world_size": self.ranks.world_size,
            "backend": self.ranks.backend,
            "device": "cuda" if self.optimisers.on_gpu else "cpu",
            "status": self._status(),
            "why": self.why,
            "steps": NOW.step,
            "wall_s": clock() - self.began,
            "warm_up_s": self.timing_began and self.timing_began - self.began,
            "warm_up_steps": self.warm_up_steps,
            "counted_steps": self.clock.counted_steps,
            "blocks": self.blocks,
            "machine": report.machine(self.processor, self.folder),
        }
        if self.sampler is None:
            return values
        seen = report.seen(self.scene())
        seen["strategy"] = probes.SHARDED.get(self.why or "", seen["strategy"])
        return {**values, **seen, **self.found, "gaps": self.clock.gaps, "lines": self.sampler.report()}

    def _status(self) -> str:
        if self.why:
            return "observed"
        names = {block["probe"] for block in self.blocks if block["round"] == 0}
        return "measured" if names.issuperset(AS_IT_IS) else "few steps"


class StepBlock:
    """A turn while it runs: its intervention or tool, then steps that are thrown away, then those that count."""

    def __init__(self, run: WatchedRun, turn: Turn) -> None:
        self.run, self.turn = run, turn
        self.tool = TOOLS[turn.probe]() if turn.phase == "profiling" and not run.ranks.rank else None
        self.undo = probes.begin(turn.probe, run.scene())
        self.counting = False
        run.clock.begin(turn.skip)
        if not turn.skip:
            self.count()

    def count(self) -> None:
        """From now on steps count."""
        self.run.optimisers.synchronise()
        self.counting = True
        NOW.counting = self.turn.phase == "timing"
        NOW.as_it_is = NOW.counting and self.turn.probe in AS_IT_IS
        NOW.border = ""
        self.run.clock.begin(self.turn.steps)
        self.counted_from = clock()

    def close(self) -> None:
        """Undoes the intervention, and notes what the steps took."""
        run, turn, steps = self.run, self.turn, self.run.clock
        run.optimisers.synchronise()
        seconds = clock() - self.counted_from
        as_it_is, NOW.as_it_is, NOW.counting = NOW.as_it_is, False, False
        self.undo.close()
        if turn.phase == "timing":
            run.blocks.append(steps.block(turn, seconds))
        if as_it_is or turn.phase == "warm-up":
            steps.end_as_it_is(seconds, turn.phase == "warm-up")
        if self.tool:
            run.found[turn.probe] = self.tool.end(turn.steps, steps.counted_s / max(1, steps.counted_steps))


class Beginning:
    """Begins a run where an optimiser steps for the first time in a process. A forked process begins anew."""

    def __init__(self, job: AttachJob, folder: Path) -> None:
        self.job, self.folder = job, folder
        self.run: WatchedRun | None = None
        self.tried = False

    def listen(self) -> None:
        self.listening = register_optimizer_step_post_hook(self.stepped)

    def stepped(self, optimiser: Any, *_arguments: Any) -> None:
        if self.run is not None:
            self.run.stepped(optimiser)
        elif not self.tried:
            self.tried = True
            NOW.step = 1
            try:
                self.run = WatchedRun(self.job, self.folder, optimiser)
            except Exception as error:
                report.write(self.folder, "problem", {"why": f"{type(error).__name__}: {error}"})

    def forget(self) -> None:
        """In a child of os.fork: a worker of a DataLoader, or a rank."""
        self.run, self.tried = None, False
        NOW.counting, NOW.as_it_is, NOW.step = False, False, 0


def install(job: AttachJob, folder: Path) -> None:
    """Puts all hooks in; for `pace` those of optimisers alone."""
    beginning = Beginning(job, folder)
    hooks.leave_out_of_graphs(Beginning.stepped)
    os.register_at_fork(after_in_child=beginning.forget)
    hooks.add(beginning.listen, lambda: beginning.listening.remove())
    if job.mode != "pace":
        hooks.add(partial(gc.callbacks.append, EVENTS.collected), partial(gc.callbacks.remove, EVENTS.collected))
        hooks.put((*calls.PLACES, *loader.PLACES))

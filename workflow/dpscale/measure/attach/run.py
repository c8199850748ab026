"""The run inside one process: it counts optimiser steps, goes from block to block, and ends where time is up."""

from __future__ import annotations

import atexit
import os
import statistics
import threading
import time
from multiprocessing import util
from pathlib import Path
from typing import Any
from weakref import ref

from torch.optim.optimizer import register_optimizer_step_post_hook

from . import calls, events, loader, network, probes, ranks, report, schedule
from .calls import COLLECTIVE
from .events import EVENTS, Flops, Profile
from .hooks import NOW, leave_out_of_graphs
from .lines import Gaps, Sampler
from .loader import LOADING
from .network import NETWORK
from .schedule import Turn

clock = time.perf_counter
MOST_TIMES = 2000
LONG = 3.0  # times the median


class Ended(SystemExit):
    """All is measured: the script ends as if it were done."""


class WatchedRun:
    """From the first optimiser step of a process to its end.

    A step lasts from one call of the main optimiser to the next: of several optimisers that is the one with the fewest
    calls, so that a step holds all of them.
    """

    def __init__(self, job: dict[str, Any], folder: Path, optimiser: Any) -> None:
        self.job, self.folder = job, folder
        self.pace = job.get("mode") == "pace"
        self.began = self.since = clock()
        self.main = id(optimiser)
        self.optimisers = {self.main: ref(optimiser)}
        self.calls = {self.main: 1}
        self.ranks = ranks.ranks_here()
        parameter = next(iter(probes.parameters([optimiser])), None)
        self.on_gpu = parameter is not None and parameter.is_cuda
        self.why: str | None = None
        self.not_offered: dict[str, str] = {}
        self.blocks: list[dict[str, Any]] = []
        self.step_s: list[float] = []
        self.steady_steps, self.steady_s, self.counted_s, self.counted_steps = 0, 0.0, 0.0, 0
        self.timing_began: float | None = None
        self.processor: Any = None
        self.flops: float | None = None
        self.profile: dict[str, Any] | None = None
        self.tool: Any = None
        self.sampler = None if self.pace else Sampler(threading.get_ident())
        self.gaps = Gaps(self.sampler)
        self.limit = float("inf")
        self.known = self._known()
        self.plan = schedule.plan(self)
        self.heard = 0
        self.undo: Any = None
        self.refused = 0
        self.rounds_done = self.rounds = 0
        self.written = False
        self.pid = os.getpid()
        self.block = Turn("warm-up", 0, "as_it_is", 0, schedule.WARM_UP_STEPS)
        self._count()
        if self.on_gpu and not self.pace:
            calls.install_waits()
        if self.sampler:
            self.sampler.start()
        self.tell_progress()
        # Children of multiprocessing end without atexit, others without multiprocessing's end.
        util.Finalize(None, self.write_at_exit, exitpriority=0)
        atexit.register(self.write_at_exit)

    # Steps

    def stepped(self, optimiser: Any) -> None:
        """One call of an optimiser. Raises Ended where all is measured."""
        key = id(optimiser)
        if self.block.phase == "warm-up":
            self.calls[key] = self.calls.get(key, 0) + 1
            self.optimisers.setdefault(key, ref(optimiser))
        if key != self.main:
            if self.optimisers[self.main]() is None:  # a script that makes itself a new one
                self.main, self.optimisers = key, {key: ref(optimiser)}
            return
        now = clock()
        self._note(now - self.since)
        self.left -= 1
        self.since = now
        if self.left <= 0:
            self._border()
            self.since = clock()

    def _note(self, seconds: float) -> None:
        NOW.step += 1
        if self.counting:
            self.times.append(seconds)
            if NOW.border:
                self.borders.append(len(self.times) - 1)
        if self.pace:
            return
        NETWORK.step_ended()
        known, self.known = self.known, self._known()
        if self.block.phase == "timing" and seconds > self.limit and (self.counting or self.skipped_times):
            parts = {name: self.known[name] - known[name] for name in known}
            self.gaps.note(seconds, NOW.step - 1, NOW.border, parts)
        elif NOW.counting:
            self.steady_steps += 1
            self.steady_s += seconds
        if not self.counting:
            self.skipped_times.append(seconds)
        if LOADING.new_shape:
            LOADING.new_shape = False
            EVENTS.shape_steps += 1
            EVENTS.shape_s += max(0.0, seconds - self.limit / LONG)
        NOW.border = ""

    def _known(self) -> dict[str, float]:
        return {
            "gc": EVENTS.gc_s,
            "loader start": LOADING.start_s,
            "checkpoint": EVENTS.save_s,
            "compile": EVENTS.compile_s(),
        }

    # Blocks

    def _border(self) -> None:
        if self.block.phase == "ended":
            self._end()
        if not self.counting and self.block.steps:
            self._count()
            return
        self._close()
        try:
            self.block = self._next()
        except Exception as error:
            self._give_up(error)
        self._open()

    def _next(self) -> Turn:
        self.heard += 1
        if self.ranks.rank:
            return self.ranks.hear(self.heard)
        block = next(self.plan)
        self.ranks.tell(self.heard, block)
        return block

    def _give_up(self, error: Exception) -> None:
        """From now on this process only watches, and nobody waits for it."""
        self.why, self.ranks = str(error) or type(error).__name__, ranks.Alone()
        self.plan = schedule.watching(self)
        self.block = next(self.plan)

    def _open(self) -> None:
        block = self.block
        if block.phase == "timing" and self.timing_began is None:
            self._begin_timing()
        if block.phase == "ended":
            self._end()
        self.rounds_done, self.rounds = max(self.rounds_done, block.round), max(self.rounds, block.rounds)
        self.tell_progress()
        self.undo = probes.begin(block.probe, self.scene())
        if block.phase == "profiling":
            self._begin_profiling()
        self.counting, NOW.counting, NOW.as_it_is = False, False, False
        self.skipped_times: list[float] = []
        self.left = block.skip
        if not block.skip:
            self._count()

    def _count(self) -> None:
        self._synchronise()
        self.counting = True
        self.times: list[float] = []
        self.borders: list[int] = []
        self.skipped_times = []
        self.left = self.block.steps
        NOW.counting = self.block.phase == "timing"
        NOW.as_it_is = NOW.counting and self.block.probe in schedule.AS_IT_IS
        NOW.border = ""
        self.loading_before, self.collectives_before = LOADING.seconds, COLLECTIVE.seconds
        self.counted_from = clock()

    def _close(self) -> None:
        self._synchronise()
        seconds = clock() - self.counted_from
        as_it_is, NOW.as_it_is, NOW.counting = NOW.as_it_is, False, False
        if self.undo:
            self.undo()
            self.undo = None
        if self.block.phase == "timing":
            self.blocks.append(self._as_block(seconds))
            if as_it_is:
                self.step_s.extend(self.times)
                self.counted_steps += len(self.times)
                self.counted_s += seconds
        if self.block.phase == "profiling":
            self._end_profiling()
        if self.block.phase == "warm-up" or as_it_is:
            self.limit = LONG * statistics.median((self.step_s or self.times)[-MOST_TIMES:])

    def _as_block(self, seconds: float) -> dict[str, Any]:
        """Steps at borders (an epoch begins, validation, a checkpoint) are left out, unless most steps are such."""
        times, borders = self.times, self.borders if 2 * len(self.borders) < len(self.times) else []
        return {
            "round": self.block.round,
            "probe": self.block.probe,
            "steps": len(times) - len(borders),
            "seconds": seconds - sum(times[place] for place in borders),
            "loading_s": LOADING.seconds - self.loading_before,
            "collectives_s": COLLECTIVE.seconds - self.collectives_before,
            "borders": borders,
            "step_s": [round(value, 6) for value in times],
        }

    def scene(self) -> probes.Scene:
        return probes.Scene(self.living(), self.on_gpu, self.ranks.world_size)

    def living(self) -> list[Any]:
        alive = [self.optimisers[self.main](), *(of() for key, of in self.optimisers.items() if key != self.main)]
        return [optimiser for optimiser in alive if optimiser is not None]

    def _synchronise(self) -> None:
        if self.on_gpu:
            for device in {p.device for p in probes.parameters(self.living())}:
                calls.real_synchronize(device)

    # What rank 0 asks for its plan (schedule.py)

    def offer(self, seconds: float) -> list[str]:
        if self.pace:
            return []
        self.why = probes.hindrance(self.scene()) or self._others()
        offered, self.not_offered = probes.offered(self.scene())
        left_out = self.job.get("leave_out", [])
        offered = [name for name in offered if name not in left_out]
        if self.why:
            self.not_offered = {**self.not_offered, **dict.fromkeys(offered, self.why)}
            return []
        fitting = schedule.that_fit(offered, self.median_s, seconds)
        self.not_offered.update(schedule.without(offered, fitting))
        return fitting

    def _others(self) -> str | None:
        if not self.ranks.all_here():
            return "not every rank has these hooks"
        others = len(list(self.folder.glob("progress-*.json"))) - 1
        return "several processes that are no ranks" if self.ranks.world_size == 1 and others > 0 else None

    @property
    def steps(self) -> int:
        return NOW.step

    def queued(self) -> int:
        return LOADING.queued()

    @property
    def median_s(self) -> float:
        """Of a step as it is, by now."""
        return self.limit / LONG

    def _begin_timing(self) -> None:
        self.timing_began = clock()
        for key in [key for key in self.optimisers if self.optimisers[key]() is None]:
            self.calls.pop(key, None)
        often = max(self.calls.values())
        self.main = min((key for key in self.calls if self.calls[key] >= 0.1 * often), key=lambda key: self.calls[key])
        self.processor = report.processor_time()
        EVENTS.reset()
        if not self.not_offered:
            self.not_offered = probes.offered(self.scene())[1]

    # The end

    def _begin_profiling(self) -> None:
        self.write()
        NOW.counting = NOW.as_it_is = False
        if self.block.probe == "flops":
            self.tool = Flops()
        elif self.ranks.rank == 0:
            self.tool = Profile()

    def _end_profiling(self) -> None:
        if self.block.probe == "flops":
            self.flops = self.tool.end()
        elif self.tool:
            self.profile = self.tool.end(self.block.steps + self.block.skip, self.counted_step())
        self.tool = None

    def counted_step(self) -> float | None:
        return self.counted_s / self.counted_steps if self.counted_steps else None

    def _end(self) -> None:
        self.left = 0
        self.refused += 1
        if self.refused == 1:
            self.written = True
            if self.sampler:
                self.sampler.stopped = True
            self.write()
            self.ranks.leave()
            self.tell_progress()
        if self.refused > 100:  # a script that catches every exception
            os._exit(0)
        raise Ended(0)

    def write_at_exit(self) -> None:
        """For a script that ends before its time."""
        if not self.written and os.getpid() == self.pid:
            self.written = True
            self.write()

    def tell_progress(self) -> None:
        phase = "ended" if self.refused else self.block.phase
        values = {"phase": phase, "rounds_done": self.rounds_done, "rounds": self.rounds, "left_s": self.block.left_s}
        report.write(self.folder, "progress", values)

    def write(self) -> None:
        report.write(self.folder, "process", report.of_run(self))


class Begun:
    """The run of this process, where an optimiser has stepped in it. A forked process begins anew."""

    def __init__(self, job: dict[str, Any], folder: Path) -> None:
        self.job, self.folder = job, folder
        self.run: WatchedRun | None = None
        self.failed = False

    def hook(self, optimiser: Any, _args: Any, _kwargs: Any) -> None:
        run = self.run
        if run is not None:
            run.stepped(optimiser)
        elif not self.failed:
            self.failed = True  # until it is there
            self.run = WatchedRun(self.job, self.folder, optimiser)
            self.failed = False

    def forget(self) -> None:
        """In a child of os.fork: a worker of a DataLoader, or a rank."""
        self.run, NOW.counting, NOW.as_it_is, NOW.step = None, False, False, 0


def install(job: dict[str, Any], folder: Path) -> None:
    """Puts all hooks in; for `pace` those of optimisers alone."""
    begun = Begun(job, folder)

    def hook(optimiser: Any, args: Any, kwargs: Any) -> None:
        begun.hook(optimiser, args, kwargs)

    leave_out_of_graphs(hook)
    register_optimizer_step_post_hook(hook)
    os.register_at_fork(after_in_child=begun.forget)
    if job.get("mode") != "pace":
        for module in (calls, events, loader, network):
            module.install()

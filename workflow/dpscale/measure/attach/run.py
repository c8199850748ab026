"""The run inside one process: it counts optimiser steps, goes from block to block, and ends where time is up."""

from __future__ import annotations

import atexit
import os
import statistics
import threading
import time
from collections import deque
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
TOOLS: dict[str, Any] = {"flops": Flops, "profile": Profile}
LONG = 3.0  # times the median


class Ended(SystemExit):
    """All is measured: the script ends as if it were done."""


class WatchedRun:
    """From the first optimiser step of a process to its end.

    A step lasts from one call of the main optimiser to the next: of several optimisers that is the one with the fewest
    calls, so that a step holds all of them.
    """

    def __init__(self, job: dict[str, Any], folder: Path, optimiser: Any) -> None:
        self.job, self.folder, self.pid = job, folder, os.getpid()
        self.pace = job.get("mode") == "pace"
        self.began = self.since = clock()
        self.main = id(optimiser)
        self.optimisers = {self.main: ref(optimiser)}
        self.calls = {self.main: 1}
        self.on_gpu = any(parameter.is_cuda for parameter in probes.parameters([optimiser]))
        self.ranks = ranks.ranks_here()
        self.why: str | None = None
        self.not_offered: dict[str, str] = {}
        self.blocks: list[dict[str, Any]] = []
        self.step_s: list[float] = []
        self.steady_steps, self.steady_s = 0, 0.0
        self.counted_steps, self.counted_s = 0, 0.0  # of blocks as they are
        # Of a GPU: the work that is queued, since a step that waits for it is no pause; and pauses beyond that.
        self.ahead_s, self.excess_s = 0.0, 0.0
        self.recent: deque[tuple[float, int]] = deque(maxlen=6)  # seconds and steps of blocks as they are
        self.limit = self.pace_s = float("inf")  # of a gap, and of a step as it is
        self.timing_began: float | None = None
        self.processor: Any = None
        self.flops: float | None = None
        self.profile: dict[str, Any] | None = None
        self.sampler = None if self.pace else Sampler(threading.get_ident())
        self.gaps = Gaps(self.sampler)
        EVENTS.gc_s = LOADING.seconds = 0.0
        self.known = self._known()
        self.plan = schedule.plan(self)
        self.heard = self.refused = 0
        self.undo: probes.Undo | None = None
        self.block = Turn("warm-up", 0, "as_it_is", 0, schedule.WARM_UP_STEPS)
        self.rounds_done = self.rounds = 0
        self._count()
        if self.sampler:
            self.sampler.start()
            if self.on_gpu:
                calls.install_waits()
        self._tell_progress()
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
            try:
                self._border()
            except Exception as error:  # this rank would no longer do as the others do
                self.why = str(error) or type(error).__name__
                self._end()
            self.since = clock()

    def _note(self, seconds: float) -> None:
        NOW.step += 1
        self.times.append(seconds)
        self.sums.append((LOADING.seconds, COLLECTIVE.seconds))
        if NOW.border:
            self.borders.append(len(self.times) - 1)
        if not self.pace:
            self._note_what_it_was(seconds)
        NOW.border = ""

    def _note_what_it_was(self, seconds: float) -> None:
        NETWORK.step_ended()
        before, self.known = self.known, self._known()
        first = len(self.times) == 1 and not self.counting  # it holds the switch of an intervention
        is_pause = seconds - self.ahead_s > self.limit and self.block.phase == "timing" and not first
        if is_pause:
            parts = {name: self.known[name] - before[name] for name in before}
            self.gaps.note(seconds - self.ahead_s, NOW.step - 1, self.block.probe, NOW.border, parts)
        elif NOW.counting:
            self.steady_steps += 1
            self.steady_s += seconds
        if self.on_gpu and self.block.phase == "timing":
            if is_pause:
                self.excess_s += max(0.0, seconds - self.ahead_s - self.pace_s)
            self.ahead_s = max(0.0, self.ahead_s + self.pace_s - seconds)
        if LOADING.new_shape:
            LOADING.new_shape = False
            EVENTS.shape_steps += 1
            EVENTS.shape_s += seconds
        elif NOW.as_it_is or (NOW.counting and EVENTS.search_off):
            EVENTS.known_shape_s.append(seconds)

    def _known(self) -> dict[str, float]:
        return {
            "gc": EVENTS.gc_s,
            "loader start": LOADING.start_s,
            "checkpoint": EVENTS.save_s,
            "compile": events.compiled()[1],
        }

    # Blocks

    def _border(self) -> None:
        if self.block.phase == "ended":
            self._end()
        if not self.counting and self.block.steps:
            self._count()
            return
        self._close()
        self.heard += 1
        if self.ranks.rank:
            self.block = self.ranks.hear(self.heard)
        else:
            self.block = next(self.plan)
            self.ranks.tell(self.heard, self.block)
        self._open()

    def _open(self) -> None:
        block = self.block
        if block.phase == "timing" and self.timing_began is None:
            self._begin_timing()
        if block.phase == "ended":
            self._end()
        self.rounds_done, self.rounds = block.round, max(self.rounds, block.rounds)
        self._tell_progress()
        if block.phase == "profiling":
            report.write_run(self)  # what follows could fail
        self.undo = probes.begin(block.probe, self.scene())
        self.tool: Any = TOOLS[block.probe](self.ranks.rank) if block.phase == "profiling" else None
        self._clear(False, block.skip)
        if not block.skip:
            self._count()

    def _count(self) -> None:
        """From now on steps count."""
        self._synchronise()
        self._clear(True, self.block.steps)
        NOW.counting = self.block.phase == "timing"
        NOW.as_it_is = NOW.counting and self.block.probe in schedule.AS_IT_IS
        NOW.border = ""
        self.counted_from = clock()

    def _clear(self, counting: bool, steps: int) -> None:
        self.counting, self.left = counting, steps
        self.times: list[float] = []
        self.ahead_s = self.excess_s = 0.0
        self.borders: list[int] = []
        self.sums = [(LOADING.seconds, COLLECTIVE.seconds)]

    def _close(self) -> None:
        self._synchronise()
        seconds = clock() - self.counted_from
        as_it_is, NOW.as_it_is, NOW.counting = NOW.as_it_is, False, False
        if self.undo:
            self.undo()
        if self.block.phase == "timing":
            self.blocks.append(self._as_block(seconds))
        if as_it_is:
            self.step_s.extend(self.times)
            self.counted_steps += len(self.times)
            self.counted_s += seconds
        if as_it_is or self.block.phase == "warm-up":
            if self.heard == 1:  # the very first steps were no measure
                self.recent.clear()
            self.recent.append((seconds, len(self.times)))
            self.pace_s = sum(of for of, _ in self.recent) / sum(steps for _, steps in self.recent)
            self.limit = LONG * max(self.pace_s, statistics.median((self.step_s or self.times)[-2000:]))
        if self.block.phase == "profiling":
            found = self.tool.end(self.block.steps, self.counted_s / max(1, self.counted_steps))
            setattr(self, self.block.probe, found)

    def _as_block(self, seconds: float) -> dict[str, Any]:
        """Steps at borders (an epoch begins, validation, a checkpoint) are left out, unless most steps are such. Of a
        GPU, whose steps the host's clock does not tell, what pauses took is left out."""
        few = 2 * len(self.borders) < len(self.times) and not self.on_gpu
        times, borders = self.times, self.borders if few else []
        return {
            "round": self.block.round,
            "probe": self.block.probe,
            "steps": len(times) - len(borders),
            "seconds": seconds - self.excess_s - sum(times[place] for place in borders),
            "loading_s": self._grown(0, borders),
            "collectives_s": self._grown(1, borders),
            "borders": borders,
            "step_s": [round(value, 6) for value in times],
        }

    def _grown(self, column: int, left_out: list[int]) -> float:
        """How much a sum grew in the steps of this block but for some."""
        grown = [after[column] - before[column] for before, after in zip(self.sums, self.sums[1:])]  # noqa: B905, for Python 3.9
        return sum(grown) - sum(grown[place] for place in left_out)

    def _synchronise(self) -> None:
        if self.on_gpu:
            for device in {parameter.device for parameter in probes.parameters(self.living())}:
                calls.real_synchronize(device)

    def living(self) -> list[Any]:
        """The optimisers that are still there, the main one first."""
        keys = sorted(self.optimisers, key=lambda key: key != self.main)
        return [optimiser for optimiser in (self.optimisers[key]() for key in keys) if optimiser is not None]

    def scene(self) -> probes.Scene:
        return probes.Scene(self.living(), self.on_gpu, self.ranks.world_size, clock() - self.began)

    def _begin_timing(self) -> None:
        self.timing_began = clock()
        counts = {key: count for key, count in self.calls.items() if self.optimisers[key]() is not None}
        often = max(counts.values())
        main = min((key for key in counts if counts[key] >= 0.1 * often), key=lambda key: counts[key])
        if main != self.main:
            self.main = main
            NETWORK.per_step.clear()
        self.processor = report.processor_time()
        EVENTS.reset()
        if not self.pace:
            self.why = self.why or probes.hindrance(self.scene())

    # What the plan (schedule.py) asks on rank 0

    def offer(self, seconds: float) -> list[str]:
        """The interventions that this run gets in so many seconds; `not_offered` says why not the others."""
        if self.pace:
            return []
        self.why = probes.hindrance(self.scene()) or self._others()
        offered, self.not_offered = probes.offered(self.scene())
        left_out = dict.fromkeys(self.job.get("leave_out", []), "left out")
        if self.why:
            left_out = dict.fromkeys(offered, self.why)
        fitting = schedule.that_fit([name for name in offered if name not in left_out], self.pace_s, seconds)
        too_long = dict.fromkeys(offered, "no time for it")
        self.not_offered.update({name: (left_out | too_long)[name] for name in offered if name not in fitting})
        self.not_offered.update({name: why for name, why in left_out.items() if name in offered})
        return fitting

    def _others(self) -> str | None:
        if not self.ranks.all_here():
            return "not every rank has these hooks"
        others = len(list(self.folder.glob("progress-*.json"))) - 1
        return "several processes that are no ranks" if self.ranks.world_size == 1 and others > 0 else None

    # The end

    def _end(self) -> None:
        self.refused += 1
        if self.refused == 1:
            NOW.counting = NOW.as_it_is = False
            if self.sampler:
                self.sampler.stopped = True
            report.write_run(self)
            self.ranks.leave()
            self._tell_progress()
        if self.refused > 100:  # a script that catches every exception
            os._exit(0)
        raise Ended(0)

    def write_at_exit(self) -> None:
        """For a script that ends before its time."""
        if not self.refused and os.getpid() == self.pid:
            self.refused = 1
            report.write_run(self)
            self._tell_progress()

    def _tell_progress(self) -> None:
        values = {
            "phase": "ended" if self.refused else self.block.phase,
            "rounds_done": self.rounds_done,
            "rounds": self.rounds,
            "left_s": self.block.left_s,
        }
        report.write(self.folder, "progress", values)


class Beginning:
    """Begins a run where an optimiser steps for the first time in a process. A forked process begins anew."""

    def __init__(self, job: dict[str, Any], folder: Path) -> None:
        self.job, self.folder = job, folder
        self.run: WatchedRun | None = None
        self.tried = False

    def stepped(self, optimiser: Any) -> None:
        if self.run is not None:
            self.run.stepped(optimiser)
        elif not self.tried:
            self.tried = True
            try:
                self.run = WatchedRun(self.job, self.folder, optimiser)
            except Exception as error:
                report.write(self.folder, "problem", {"why": f"{type(error).__name__}: {error}"})

    def forget(self) -> None:
        """In a child of os.fork: a worker of a DataLoader, or a rank."""
        self.run, self.tried = None, False
        NOW.counting, NOW.as_it_is, NOW.step = False, False, 0


def install(job: dict[str, Any], folder: Path) -> None:
    """Puts all hooks in; for `pace` those of optimisers alone."""
    beginning = Beginning(job, folder)

    def hook(optimiser: Any, _args: Any, _kwargs: Any) -> None:
        beginning.stepped(optimiser)

    leave_out_of_graphs(hook)
    register_optimizer_step_post_hook(hook)
    os.register_at_fork(after_in_child=beginning.forget)
    if job.get("mode") != "pace":
        for module in (calls, events, loader, network):
            module.install()

"""The run inside one process: from turn to turn, as rank 0 plans them, until time is up; and what it writes down."""

from __future__ import annotations

import atexit
import gc
import json
import os
import platform
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from multiprocessing import util
from pathlib import Path
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from . import calls, hooks, loader, probes, schedule
from .calls import ASKED, EMPTIED, EVENTS, EXCHANGED, NETWORK, SEARCH_LINES, SEARCHED, SYNCHRONISED
from .hooks import ACCOUNT, NOW, Json, Networks, shown
from .loader import LOADING
from .probes import TOOLS, Optimisers, Scene, parameters
from .schedule import AS_IT_IS, AttachJob, Ranks, Turn
from .steps import Sampler, StepClock

clock = time.perf_counter
SWITCH_S = 5e-4
# A profiler that the script has on in more of its steps slows them: a few that it looks at do not.
PROFILED = 0.25
READ = ("NCCL_", "GLOO_", "CUDA_LAUNCH_BLOCKING")  # variables of the environment


class Ended(SystemExit):
    """All is measured: the script ends as if it were done."""


class WatchedRun:
    """From the first optimiser step of a process to its end, block by block, and what was found."""

    def __init__(self, job: AttachJob, folder: Path, optimiser: Any) -> None:
        self.job, self.folder = job, folder
        self.pace = job.mode != "diagnose"
        self.began = clock()
        self.timing_began: float | None = None
        self.warm_up_steps = 0
        self.optimisers = Optimisers(optimiser)
        self.ranks = Ranks(patient=job.mode == "turns")
        self.why: str | None = None  # it is only watched
        self.blocks: list[Json] = []
        self.found: Json = {}  # by tools
        self.processor: Any = None
        # Threads of DataParallel would be switched oftener, and slower.
        self.sampler = None if self.pace else Sampler(sys.getswitchinterval() if NETWORK.dp else SWITCH_S)
        EVENTS.start()
        LOADING.seconds = 0.0
        self.clock = StepClock(self.optimisers.on_gpu, self.sampler, with_pauses=job.mode == "turns")
        self.plan = schedule.turns(self) if job.mode == "turns" else schedule.plan(self)
        self.heard = 0
        self.block = StepBlock(self, Turn("warm-up", 0, "as_it_is", 0, schedule.WARM_UP_STEPS))
        trained = parameters(self.optimisers.living())
        ACCOUNT.start(next((parameter.device for parameter in trained if parameter.is_cuda), None))
        if self.sampler:
            self.networks = Networks(trained)
            hooks.add(lambda: None, self.networks.take_out)
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
        try:
            self._stepped(optimiser)
        except Exception as error:  # ours, not the script's; and this rank would no longer do as the others do
            if self.phase != "profiling":  # all blocks are there
                self.why = str(error) or type(error).__name__
            self.end()

    def _stepped(self, optimiser: Any) -> None:
        turn = self.block.turn
        if self.sampler:
            ACCOUNT.end("optimiser")
        if not self.optimisers.ends_step(optimiser, turn.phase == "warm-up"):
            return
        # The first step after some interventions holds what they begin with.
        is_first = not self.block.counting and not self.clock.times
        self.clock.stepped(turn, may_be_pause=not is_first or turn.skip < schedule.SKIPPED_AFTER_SWITCHES)
        if self.clock.left <= 0:
            self._border()
            self.clock.since = clock()

    def _border(self) -> None:
        if not self.block.counting and self.block.turn.steps:
            self.block.count()
            return
        self.block.close()
        if self.heard == 0:  # the very first steps were no measure
            self.clock.recent.clear()
        if self.sampler and self.block.turn.phase == "warm-up":
            self.networks.settle()
        self.heard += 1
        turn = self.ranks.next(self.heard, self.plan)
        if turn.phase == "timing" and self.timing_began is None:
            self._begin_timing()
        if turn.phase == "ended":
            self.end()
        self.tell_progress(turn.phase)
        if turn.phase == "profiling":
            EVENTS.profiling = True
            write(self.folder, "process", self.report())  # what follows could fail
        self.block = StepBlock(self, turn)

    def _begin_timing(self) -> None:
        self.timing_began, self.warm_up_steps = clock(), NOW.step
        self.optimisers.choose()
        self.processor = processor_time()
        EVENTS.start()
        LOADING.worker_starts.clear()
        self.why = self.why or (None if self.pace else probes.hindrance(self.scene()))

    def scene(self) -> Scene:
        seconds = clock() - self.began
        return Scene(self.optimisers.living(), self.optimisers.on_gpu, self.ranks.world_size, seconds)

    def offer(self, seconds: float) -> list[str]:
        """The interventions that this run gets in so many seconds. The plan asks it, on rank 0."""
        if self.pace:
            return []
        self.why = probes.hindrance(self.scene()) or self._others()
        left_out = set(probes.PROBES) - {probes.SHARDS_KEPT} if self.why else self.job.leave_out
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
            self._write_down()
            hooks.leave_out_of_graphs(WatchedRun.end)
            register_optimizer_step_post_hook(self.end)  # for a script that goes on
            self.ranks.leave()
            self.tell_progress("ended")
        if self.refused > 100:  # a script that catches every exception
            os._exit(0)
        raise Ended(0)

    def at_exit(self) -> None:
        """Write down the run of a script that ends before its time."""
        if not self.refused and os.getpid() == self.pid:
            self.refused = 1
            self._write_down()

    def _write_down(self) -> None:
        NOW.counting = NOW.as_it_is = False
        hooks.take_out()
        write(self.folder, "process", self.report())

    def tell_progress(self, phase: str) -> None:
        self.phase = phase
        write(self.folder, "progress", {"phase": phase})

    def report(self) -> Json:
        """Return all findings: the file of this process."""
        values = {
            "host": socket.gethostname(),
            "pid": self.pid,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "environment": {name: value for name, value in sorted(os.environ.items()) if name.startswith(READ)},
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
            "machine": machine(self.processor),
        }
        if self.sampler is None:
            return values
        findings = seen(self.scene())
        findings["strategy"] = probes.SHARDED.get(self.why or "", findings["strategy"])
        gaps = [{**gap, **place} for gap, samples in self.clock.gaps for place in self.sampler.places(samples)]
        lines = self.sampler.statements(self.sampler.steady)
        return {**values, **findings, **self.found, "gaps": gaps, "lines": lines}

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
        if self.run.sampler and self.turn.phase == "timing":
            ACCOUNT.record(self.run.clock.step_s, self.turn.steps)
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


def write(folder: Path, kind: str, values: Json) -> None:
    """Write KIND-HOST-PID.json, whole or not at all. A folder that is gone is no error of the script."""
    path = folder / f"{kind}-{socket.gethostname()}-{os.getpid()}.json"
    temporary = path.with_suffix(".tmp")
    with suppress(OSError):
        temporary.write_text(json.dumps(values))
        temporary.replace(path)


def seen(scene: Scene) -> Json:
    """Return what hooks have found, and what they found it in."""
    optimisers, on_gpu = scene.optimisers, scene.on_gpu
    tensors, per_step, starts_s = parameters(optimisers), NETWORK.each_step(), LOADING.worker_starts
    # Processes that train in the same memory (Hogwild). Of a GPU all tensors say so.
    is_shared = not on_gpu and any(tensor.is_shared() for tensor in tensors)
    return {
        "device_model": torch.cuda.get_device_name() if on_gpu else None,
        "devices": torch.cuda.device_count() if on_gpu else 0,
        "gpu": _gpu(tensors) if on_gpu else None,
        "device_bytes": torch.cuda.mem_get_info()[1] if on_gpu else None,
        "optimiser": {"class": type(optimisers[0]).__name__, "count": len(optimisers)} if optimisers else None,
        "parameter_bytes": _bytes_of(tensors),
        "gradient_bytes": _bytes_of([tensor for tensor in tensors if tensor.requires_grad]),
        "dtypes": probes.dtypes(optimisers),
        "strategy": "other" if is_shared else NETWORK.strategy(scene.ranks),
        "micro_batches_per_step": per_step and per_step[0],
        "exchanges_per_step": per_step and per_step[2],
        **LOADING.report(),
        "collectives": EXCHANGED.report(),
        "waits": ASKED.report() + SYNCHRONISED.report(),
        "emptyings": EMPTIED.report(),
        "events": {**EVENTS.report(), "worker_start": {"count": len(starts_s), "seconds": sum(starts_s)}},
        "switches": {  # as they are read at the end, or were seen to be on
            "autocast": EVENTS.autocast,
            "cudnn_benchmark": torch.backends.cudnn.benchmark,
            "cudnn_benchmark_line": shown(SEARCH_LINES[0]) if SEARCH_LINES else {},
            "debugger": sys.gettrace() is not None
            or bool({"pydevd", "debugpy"} & sys.modules.keys())
            or EVENTS.profiled_steps > PROFILED * EVENTS.steps,
            "search_s": sum(seconds for _, seconds in SEARCHED.lines.values()),
            "tf32": _tf32(),
        },
    }


def _gpu(tensors: Sequence[Any]) -> str | None:
    """Return the UUID of the GPU that the parameters are on; where torch does not tell it, the user's name of it."""
    numbers = [tensor.device.index for tensor in tensors if tensor.device.type == "cuda"]
    if not numbers:
        return None
    uuid = getattr(torch.cuda.get_device_properties(numbers[0]), "uuid", None)
    names = dict(enumerate(os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")))
    return str(uuid or names.get(numbers[0]) or numbers[0])


def _bytes_of(tensors: Sequence[Any]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _tf32() -> bool | None:
    try:
        return bool(torch.backends.cuda.matmul.allow_tf32)
    except RuntimeError:  # set in another of torch's two ways
        return None


def processor_time() -> tuple[int, int]:
    """Busy and all ticks of the cores that this process may use."""
    cores = {f"cpu{core}" for core in os.sched_getaffinity(0)}
    lines = [line.split() for line in Path("/proc/stat").read_text().splitlines()]
    ticks = [sum(int(line[column]) for line in lines if line[:1] and line[0] in cores) for column in range(1, 9)]
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)


def machine(before: tuple[int, int] | None) -> Json:
    """Return the cores of this machine, and how busy they were since `before`."""
    (busy, ticks), (busy_before, ticks_before) = processor_time(), before or (0, 0)
    usable = sorted(os.sched_getaffinity(0))
    return {
        "cores": os.cpu_count(),
        "cores_usable": len(usable),
        "numbers_of_cores": usable,
        "busy_share": (busy - busy_before) / (ticks - ticks_before) if ticks > ticks_before > 0 else None,
    }


class Beginning:
    """Begins a run where an optimiser steps for the first time in a process. A forked process begins anew."""

    def __init__(self, job: AttachJob, folder: Path) -> None:
        self.job, self.folder = job, folder
        self.run: WatchedRun | None = None
        self.tried = False

    def listen(self) -> None:
        self.listening = [
            register_optimizer_step_pre_hook(lambda *_step: ACCOUNT.begin("optimiser")),
            register_optimizer_step_post_hook(self.stepped),
        ]

    def unlisten(self) -> None:
        for handle in self.listening:
            handle.remove()

    def stepped(self, optimiser: Any, *_arguments: Any) -> None:
        if self.run is not None:
            self.run.stepped(optimiser)
        elif not self.tried:
            self.tried = True
            NOW.step = 1
            try:
                self.run = WatchedRun(self.job, self.folder, optimiser)
            except Exception as error:
                write(self.folder, "problem", {"why": f"{type(error).__name__}: {error}"})

    def exits(self, *_code: Any) -> None:
        """A script that leaves without the end of its interpreter."""
        if self.run is not None:
            self.run.at_exit()

    def forget(self) -> None:
        """In a child of os.fork: a worker of a DataLoader, or a rank."""
        self.run, self.tried = None, False
        ACCOUNT.thread, ACCOUNT.recording = 0, False
        NOW.counting, NOW.as_it_is, NOW.step = False, False, 0


def install(job: AttachJob, folder: Path) -> None:
    """Puts all hooks in; for `pace` and `turns` those of optimisers and batches alone: a wait is no pause."""
    beginning = Beginning(job, folder)
    hooks.leave_out_of_graphs(Beginning.stepped)
    os.register_at_fork(after_in_child=beginning.forget)
    hooks.add(beginning.listen, beginning.unlisten)
    if job.mode != "diagnose":
        hooks.put(loader.BATCHES)
    else:
        hooks.add(partial(gc.callbacks.append, EVENTS.collected), partial(gc.callbacks.remove, EVENTS.collected))
        hooks.put((*calls.PLACES, *loader.PLACES))
    hooks.put(((os, "_exit", hooks.noting(beginning.exits)),))

"""The files of a process: what was seen, where it ran, how everything was switched, and profiles of its last steps."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from .calls import ASKED, EMPTIED, EVENTS, EXCHANGED, NETWORK, SEARCHED, SYNCHRONISED
from .hooks import Json
from .loader import LOADING
from .probes import Scene, dtypes, parameters

READ = ("NCCL_", "GLOO_", "CUDA_LAUNCH_BLOCKING")


def write(folder: Path, kind: str, values: Json) -> None:
    """Write KIND-HOST-PID.json, whole or not at all. A folder that is gone is no error of the script."""
    path = folder / f"{kind}-{socket.gethostname()}-{os.getpid()}.json"
    temporary = path.with_suffix(".tmp")
    try:
        temporary.write_text(json.dumps(values))
        temporary.replace(path)
    except OSError:
        pass


def seen(scene: Scene) -> Json:
    """Return what hooks have found, and what they found it in."""
    optimisers, on_gpu = scene.optimisers, scene.on_gpu
    tensors, per_step, starts_s = parameters(optimisers), NETWORK.each_step(), LOADING.worker_starts
    return {
        "device_model": torch.cuda.get_device_name() if on_gpu else None,
        "devices": torch.cuda.device_count() if on_gpu else 0,
        "device_bytes": torch.cuda.mem_get_info()[1] if on_gpu else None,
        "optimiser": {"class": type(optimisers[0]).__name__, "count": len(optimisers)} if optimisers else None,
        "parameter_bytes": _bytes_of(tensors),
        "gradient_bytes": _bytes_of([tensor for tensor in tensors if tensor.requires_grad]),
        "dtypes": dtypes(optimisers),
        "strategy": NETWORK.strategy(scene.ranks),
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
            "debugger": sys.gettrace() is not None or bool({"pydevd", "debugpy"} & sys.modules.keys()),
            "search_s": sum(seconds for _, seconds in SEARCHED.lines.values()),
            "tf32": _tf32(),
        },
    }


def _bytes_of(tensors: Sequence[Any]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _tf32() -> bool | None:
    try:
        return bool(torch.backends.cuda.matmul.allow_tf32)
    except RuntimeError:  # set in another of torch's two ways
        return None


def processor_time() -> tuple[int, int] | None:
    """Busy and all ticks of the cores that this process may use. None where the system does not say."""
    try:
        cores = {f"cpu{core}" for core in os.sched_getaffinity(0)}
        lines = [line.split() for line in Path("/proc/stat").read_text().splitlines() if line]
        ticks = [sum(int(line[column]) for line in lines if line[0] in cores) for column in range(1, 9)]
    except (OSError, ValueError):
        return None
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)


def machine(before: tuple[int, int] | None, folder: Path) -> Json:
    """Return the cores of this machine, and how busy they were since `before`."""
    now = processor_time()
    usable = sorted(os.sched_getaffinity(0))
    return {
        "cores": os.cpu_count(),
        "cores_usable": len(usable),
        "numbers_of_cores": usable,
        "busy_share": (now[0] - before[0]) / (now[1] - before[1]) if now and before and now[1] > before[1] else None,
        "same_command": same_command(folder),
    }


def same_command(folder: Path) -> int:
    """Other processes with this one's command line that do not write into this run's folder: one left over, say."""
    mine, own_folder = _read("/proc/self/cmdline"), str(folder).encode()
    pids = Path("/proc").glob("[0-9]*") if mine else ()
    return sum(_read(str(pid / "cmdline")) == mine and own_folder not in _read(str(pid / "environ")) for pid in pids)


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


class Profile:
    """Kernels of a few steps, the last thing that is done: a profiler that ran once slows what the host limits."""

    def __init__(self) -> None:
        self._profiler: Any = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA])
        self._profiler.__enter__()

    def end(self, steps: int, step_s: float) -> dict[str, float] | None:
        """Busy share of the GPU, of the step as it is without a profiler. None where no kernel was seen."""
        self._profiler.__exit__(None, None, None)
        spans = sorted(
            (event.start_ns(), event.start_ns() + event.duration_ns())
            for event in self._profiler.profiler.kineto_results.events()
            if "CUDA" in str(event.device_type())
        )
        if not spans or not step_s:
            return None
        busy, until = 0, 0
        for start, end in spans:
            busy += max(0, end - max(start, until))
            until = max(until, end)
        return {"busy_share": min(1.0, busy / 1e9 / steps / step_s), "kernels_per_step": len(spans) / steps}


class Flops:
    """Operations of one step, counted as torch dispatches them."""

    def __init__(self) -> None:
        from torch.utils.flop_counter import FlopCounterMode

        self._mode = FlopCounterMode(display=False)
        self._mode.__enter__()

    def end(self, _steps: int, _step_s: float) -> float | None:
        self._mode.__exit__(None, None, None)
        return float(self._mode.get_total_flops()) or None

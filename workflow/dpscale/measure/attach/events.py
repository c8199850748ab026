"""What happens now and then (garbage collection, compilation, saving, the allocator), and the last steps' profile."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch

from .hooks import NOW, wrap

clock = time.perf_counter


class Events:
    """Totals since warm-up ended."""

    def __init__(self) -> None:
        self.gc_s = 0.0
        self.save_s = 0.0
        self.saves = 0
        self.autocasts: dict[tuple[str, str], int] = {}
        self.anomaly = False  # has been on
        self.anomaly_off = False
        self.gc_off = False
        self.search_off = False
        self.reset()

    def reset(self) -> None:
        self.collections = [0, 0, 0]
        self.gc_total_s = self.gc_longest_s = 0.0
        self.shape_steps = 0
        self.shape_s = 0.0
        self.known_shape_s: list[float] = []
        self.compiled_before = compiled()
        self.memory_before = allocations()

    def collected(self, phase: str, info: dict[str, int]) -> None:
        """One of gc.callbacks."""
        if phase == "start":
            self.gc_began = clock()
            return
        seconds = clock() - self.gc_began
        self.gc_s += seconds
        self.gc_total_s += seconds
        self.gc_longest_s = max(self.gc_longest_s, seconds)
        self.collections[info["generation"]] += 1

    def facts(self) -> dict[str, Any]:
        count, seconds = compiled()
        memory = allocations()
        usual_s = median(self.known_shape_s) if self.known_shape_s else 0.0
        return {
            "gc": {
                "count": sum(self.collections),
                "full": self.collections[2],
                "seconds": self.gc_total_s,
                "longest_s": self.gc_longest_s,
            },
            "compile": {"count": count - self.compiled_before[0], "seconds": seconds - self.compiled_before[1]},
            "cuda_malloc": memory and {name: memory[name] - (self.memory_before or {}).get(name, 0) for name in memory},
            "cudnn_search": {
                "new_shapes": self.shape_steps,
                "seconds": max(0.0, self.shape_s - self.shape_steps * usual_s),
            },
            "save": {"count": self.saves, "seconds": self.save_s},
        }


def install() -> None:
    gc.callbacks.append(EVENTS.collected)
    wrap(gc, "collect", _collect)
    wrap(torch, "save", _save)
    wrap(torch, "set_anomaly_enabled", _set_anomaly_enabled)
    wrap(torch.amp.autocast_mode.autocast, "__enter__", _autocast)


def compiled() -> tuple[int, float]:
    """Graphs that torch.compile has made, and their seconds. Nothing is loaded for it."""
    utils = sys.modules.get("torch._dynamo.utils")
    times = getattr(utils, "compilation_time_metrics", {})
    seconds: list[float] = times.get("_compile.compile_inner") or times.get("_compile") or []
    return len(seconds), sum(seconds)


def allocations() -> dict[str, int] | None:
    """Retries and calls of the driver by torch's allocator. None without a GPU in use."""
    if not torch.cuda.is_initialized():
        return None
    stats = torch.cuda.memory_stats()
    names = {"retries": "num_alloc_retries", "mallocs": "num_device_alloc", "frees": "num_device_free"}
    return {short: int(stats.get(name, 0)) for short, name in names.items()}


EVENTS = Events()


def _collect(real: Callable[..., int]) -> Callable[..., int]:
    return lambda *args, **kwargs: 0 if EVENTS.gc_off else real(*args, **kwargs)


def _save(real: Callable[..., Any]) -> Callable[..., Any]:
    def save(*args: Any, **kwargs: Any) -> Any:
        NOW.border = NOW.border or "checkpoint"
        began = clock()
        try:
            return real(*args, **kwargs)
        finally:
            EVENTS.saves += 1
            EVENTS.save_s += clock() - began

    return save


def _set_anomaly_enabled(real: Callable[..., Any]) -> Callable[..., Any]:
    def hook(enabled: bool, check_nan: bool = True) -> None:
        EVENTS.anomaly |= bool(enabled)
        real(bool(enabled) and not EVENTS.anomaly_off, check_nan)

    return hook


def _autocast(real: Callable[..., Any]) -> Callable[..., Any]:
    def enter(self: Any) -> Any:
        if self._enabled:
            key = str(self.device), str(self.fast_dtype)
            EVENTS.autocasts[key] = EVENTS.autocasts.get(key, 0) + 1
        return real(self)

    return enter


class Profile:
    """Kernels of a few steps, the last thing that is done: a profiler that ran once slows what the host limits."""

    def __init__(self, rank: int) -> None:
        """Of rank 0 alone."""
        activities = [torch.profiler.ProfilerActivity.CUDA]
        self._profiler: Any = torch.profiler.profile(activities=activities) if rank == 0 else None
        if self._profiler:
            self._profiler.__enter__()

    def end(self, steps: int, step_s: float) -> dict[str, Any] | None:
        """Busy share of the GPU, of the step as it is without a profiler. None where no kernel was seen."""
        if self._profiler is None:
            return None
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
        return {
            "steps": steps,
            "busy_share": min(1.0, busy / 1e9 / steps / step_s),
            "kernels_per_step": len(spans) / steps,
        }


class Flops:
    """Operations of one step, counted as torch dispatches them."""

    def __init__(self, _rank: int) -> None:
        from torch.utils.flop_counter import FlopCounterMode

        # Compiled graphs would be compiled anew.
        self._mode: Any = None if compiled()[0] else FlopCounterMode(display=False)
        if self._mode:
            self._mode.__enter__()

    def end(self, _steps: int, _step_s: float) -> float | None:
        if self._mode is None:
            return None
        self._mode.__exit__(None, None, None)
        return float(self._mode.get_total_flops()) or None

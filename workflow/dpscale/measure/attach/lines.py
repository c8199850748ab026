"""What runs: the line of the script, seen in samples of its stack; kernels and operations of the last steps."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter, deque
from typing import Any

import torch

from .hooks import NOW, Json, Line, line_of, shown

PAUSE_S = 0.025


class Sampler:
    """Looks 40 times a second at the thread that makes it."""

    def __init__(self) -> None:
        self._watched = threading.get_ident()
        self.latest: deque[tuple[int, Line | None, str]] = deque(maxlen=4000)  # step, line, function
        self.steady: Counter[Line | None] = Counter()

    def start(self) -> None:
        self.stopped = False
        threading.Thread(target=self._watch, name="dpscale", daemon=True).start()

    def stop(self) -> None:
        self.stopped = True

    def _watch(self) -> None:
        while not self.stopped:
            self._look()
            time.sleep(PAUSE_S)

    def _look(self) -> None:
        frame = sys._current_frames().get(self._watched)
        if frame is None:
            return
        step, steady = NOW.step, NOW.as_it_is and not NOW.border
        line = line_of(frame)
        self.latest.append((step, line, f"{frame.f_globals.get('__name__')}.{frame.f_code.co_name}"))
        if steady:
            self.steady[line] += 1

    def of_step(self, step: int) -> Json:
        """The line most often seen in a step, and the function it was in most often."""
        seen = [(line, inside) for number, line, inside in list(self.latest) if number == step and line]
        if not seen:
            return {}
        line = Counter(line for line, _ in seen).most_common(1)[0][0]
        inside = Counter(inside for outer, inside in seen if outer == line).most_common(1)[0][0]
        return {**shown(line), "inside": inside}

    def report(self) -> list[Json]:
        """Return the lines where counted steps as they are spend their time, by samples."""
        seen = sum(self.steady.values())
        return [{**shown(line), "share": count / seen} for line, count in self.steady.most_common(12) if line]


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

"""The steps of a script: which call of an optimiser ends one, how long each took, and which were pauses."""

from __future__ import annotations

import statistics
import time
from collections import deque
from typing import Any
from weakref import ref

from . import calls
from .calls import EVENTS, EXCHANGED, NETWORK
from .hooks import NOW, Json
from .loader import LOADING
from .probes import parameters
from .schedule import Turn

clock = time.perf_counter
LONG = 3.0  # times the median: a pause
MOST_GAPS = 3000  # what is beyond them would count as no pause


class Optimisers:
    """Optimisers of the script. The main one ends a step: the least called of several, so that a step has all."""

    def __init__(self, first: Any) -> None:
        self.main = id(first)
        self.refs = {self.main: ref(first)}
        self.calls = {self.main: 1}
        self.on_gpu = any(parameter.is_cuda for parameter in parameters([first]))

    def ends_step(self, optimiser: Any, learning: bool) -> bool:
        """Whether this call does. While `learning`, all that are called get known."""
        key = id(optimiser)
        if learning:
            self.calls[key] = self.calls.get(key, 0) + 1
            self.refs.setdefault(key, ref(optimiser))
        if key != self.main and self.refs[self.main]() is None:  # a script that makes itself a new one
            self.main, self.refs, self.calls = key, {key: ref(optimiser)}, {key: 1}
            return False
        return key == self.main

    def choose(self) -> None:
        """Choose the main one among those that are called often enough."""
        counts = {key: self.calls[key] for key, reference in self.refs.items() if reference() is not None}
        often = max(counts.values())
        main = min((key for key in counts if counts[key] >= 0.1 * often), key=lambda key: counts[key])
        if main != self.main:
            self.main = main
            NETWORK.per_step.clear()

    def living(self) -> list[Any]:
        """Return the optimisers that are still there, the main one first."""
        keys = sorted(self.refs, key=lambda key: key != self.main)
        return [optimiser for optimiser in (self.refs[key]() for key in keys) if optimiser is not None]

    def synchronise(self) -> None:
        if self.on_gpu:
            for device in {parameter.device for parameter in parameters(self.living()) if parameter.is_cuda}:
                calls.real_synchronize(device)


class StepClock:
    """Seconds of steps: of the turn that runs, and of all as they are."""

    def __init__(self, on_gpu: bool, sampler: Any) -> None:
        self.on_gpu, self.sampler = on_gpu, sampler
        self.since = clock()
        self.usual: deque[float] = deque(maxlen=2000)  # steps as they are
        self.counted_steps, self.counted_s = 0, 0.0  # of blocks as they are
        self.recent: deque[tuple[float, float, int]] = deque(maxlen=6)  # seconds, without pauses, and steps of them
        self.limit = self.pace_s = float("inf")  # of a pause, and of a step as it is
        self.step_s = 0.0  # without pauses
        self.gaps: list[Json] = []
        self.compiled_s = calls.compiled()[1]  # up to the last pause
        self.begin(0)

    def begin(self, steps: int) -> None:
        """A turn, or the part of it that counts."""
        self.left = steps
        self.times: list[float] = []
        self.borders: list[int] = []
        self.loading = [LOADING.seconds]
        self.exchanged_s = EXCHANGED.seconds
        # Of a GPU: the work that is queued, since a step that waits for it is no pause.
        self.ahead_s = 0.0
        self.excess_s = 0.0  # that is no part of the block: pauses on a GPU; in a rank's own pace, waits for others
        self.since = clock()

    def stepped(self, turn: Turn, may_be_pause: bool) -> None:
        now = clock()
        seconds, self.since = now - self.since, now
        exchanged, self.exchanged_s = EXCHANGED.seconds - self.exchanged_s, EXCHANGED.seconds
        if NETWORK.no_allreduce and not self.on_gpu:
            self.excess_s += exchanged
            seconds -= exchanged
        self.left -= 1
        NOW.step += 1
        self.times.append(seconds)
        self.loading.append(LOADING.seconds)
        if NOW.border:
            self.borders.append(len(self.times) - 1)
        if self.sampler:
            NETWORK.stepped()
            EVENTS.stepped(seconds)
        own_s = seconds - self.ahead_s
        if may_be_pause and own_s > self.limit:
            if self.sampler and turn.phase == "timing":
                self._note_gap(own_s)
            if self.on_gpu:
                self.excess_s += max(0.0, own_s - self.step_s)
        if self.on_gpu:
            self.ahead_s = max(0.0, self.ahead_s + self.step_s - seconds)
        NOW.border = ""
        NOW.spent.clear()

    def _note_gap(self, seconds: float) -> None:
        """Note a pause, named after what is known to have taken most of it, where that is half."""
        compiled_s, self.compiled_s = self.compiled_s, calls.compiled()[1]
        NOW.spent["compile"] = self.compiled_s - compiled_s
        longest_s, name = max((seconds, name) for name, seconds in NOW.spent.items())
        cause = name if longest_s >= 0.5 * seconds else "script"
        if len(self.gaps) < MOST_GAPS:
            line = self.sampler.of_step(NOW.step - 1)
            gap = {
                "seconds": round(seconds, 5),
                "after_step": NOW.step - 1,
                "what": cause,
                "border": NOW.border or None,
            }
            self.gaps.append({**gap, **line})

    def end_as_it_is(self, seconds: float, warm_up: bool) -> None:
        """End a turn without an intervention; in the warm-up its steps tell the pace alone."""
        if not warm_up:
            self.usual.extend(self.times)
            self.counted_steps += len(self.times)
            self.counted_s += seconds - self.excess_s
        self.recent.append((seconds, seconds - self.excess_s, len(self.times)))
        steps = sum(steps for _, _, steps in self.recent)
        self.pace_s = sum(all_s for all_s, _, _ in self.recent) / steps
        self.step_s = sum(steps_s for _, steps_s, _ in self.recent) / steps
        self.limit = LONG * max(self.step_s, statistics.median(self.usual or self.times))

    def block(self, turn: Turn, seconds: float) -> Json:
        """Steps at borders (an epoch begins, validation, a checkpoint) are left out, unless most steps are such. Of a
        GPU, whose steps the host's clock does not tell, what pauses took is left out."""
        few = 2 * len(self.borders) < len(self.times) and not self.on_gpu
        left_out = self.borders if few else []
        counted = [number for number in range(len(self.times)) if number not in left_out]
        return {
            "round": turn.round,
            "probe": turn.probe,
            "steps": len(counted),
            "seconds": seconds - self.excess_s - sum(self.times[number] for number in left_out),
            "loading_s": sum(self.loading[number + 1] - self.loading[number] for number in counted),
            "step_s": [round(self.times[number], 6) for number in counted],
        }

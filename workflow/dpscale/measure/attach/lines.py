"""Which line of the script runs: a thread looks at the main thread's stack, and gaps between steps get their line."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter, deque
from typing import Any

from .hooks import NOW, Line, line_of, shown

PAUSE_S = 0.025
MOST_GAPS = 300


class Sampler(threading.Thread):
    """Looks 40 times a second."""

    def __init__(self, watched: int) -> None:
        super().__init__(name="dpscale", daemon=True)
        self._watched = watched  # the thread that trains
        self.latest: deque[tuple[int, Line | None, str]] = deque(maxlen=4000)
        self.steady: Counter[Line] = Counter()
        self.seen = 0
        self.stopped = False

    def run(self) -> None:
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
            self.seen += 1
            if line:
                self.steady[line] += 1

    def of_step(self, step: int) -> dict[str, Any]:
        """The line most often seen in a step, its share of the step's samples, and the function it was in."""
        seen = [(line, inside) for number, line, inside in list(self.latest) if number == step and line]
        if not seen:
            return {"file": None, "line": None, "code": None, "share": None, "inside": None}
        (line, count), *_ = Counter(line for line, _ in seen).most_common(1)
        inside = Counter(inside for of, inside in seen if of == line).most_common(1)[0][0]
        return {**(shown(line) or {}), "share": count / len(seen), "inside": inside}

    def lines(self) -> list[dict[str, Any]]:
        """Where counted steps as they are spend their time, by samples."""
        return [{**(shown(line) or {}), "share": count / self.seen} for line, count in self.steady.most_common(12)]


class Gaps:
    """Steps that took over three times the median, with what ran in them."""

    def __init__(self, sampler: Sampler | None) -> None:
        self._sampler = sampler
        self.found: list[dict[str, Any]] = []
        self.count, self.seconds = 0, 0.0

    def note(self, seconds: float, step: int, probe: str, border: str, parts: dict[str, float]) -> None:
        """`parts`: seconds of the step that are known, by what they were; the longest names it where it is half."""
        self.count += 1
        self.seconds += seconds
        if len(self.found) >= MOST_GAPS:
            return
        name = max(parts, key=lambda part: parts[part])
        what = name if parts[name] >= 0.5 * seconds else "script"
        line = self._sampler.of_step(step) if self._sampler else {}
        self.found.append(
            {
                "seconds": round(seconds, 5),
                "after_step": step,
                "what": what,
                "probe": probe,
                "border": border or None,
                **line,
            }
        )

"""How hooks are put in, what they ask at every call, and which line of the script called or runs."""

from __future__ import annotations

import functools
import linecache
import sys
import sysconfig
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

LOOK_EVERY_S = 0.025
Line = tuple[str, int]  # file and number
Json = dict[str, Any]  # values as the file of a process holds them
Hooked = Callable[..., Any]
# Where a hook is put: the module or class, the names of functions in it, and what makes a hook of the real one.
Places = Sequence[tuple[Any, str, Callable[[Hooked], Hooked]]]

_HERE = str(Path(__file__).resolve().parents[2])  # all of dpscale, in whose own loop a workload's file trains
_LIBRARIES = tuple({_HERE, *(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib"))})


class Now:
    """State that hooks read at every call: plain attributes, since they may cost next to nothing."""

    def __init__(self) -> None:
        self.step = 0  # optimiser steps so far
        self.counting = False  # within the steps of a block that count
        self.as_it_is = False  # the same, in a block without an intervention
        # What began since the last step that belongs between steps: an epoch, validation, a checkpoint.
        self.border = ""
        # Seconds since then that are known, by what they were: a pause is named after them.
        self.spent: defaultdict[str, float] = defaultdict(float)


NOW = Now()


_ALL: list[tuple[Callable[[], Any], Callable[[], Any]]] = []  # what puts each in, and takes it out


def add(put_in: Callable[[], Any], take_out: Callable[[], Any]) -> None:
    """A hook of any kind."""
    put_in()
    _ALL.append((put_in, take_out))


def put(places: Places) -> None:
    """Puts hooks where there is something to hook. torch.compile leaves them out of its graphs."""
    for owner, names, make in places:
        for name in names.split():
            real, defined = getattr(owner, name, None), vars(owner).get(name) if owner else None
            if real is not None and not hasattr(real, "dpscale_hook"):
                hook: Any = functools.wraps(real)(make(real))
                hook.dpscale_hook = True
                leave_out_of_graphs(hook)
                as_it_was = partial(delattr, owner, name) if defined is None else partial(setattr, owner, name, defined)
                add(partial(setattr, owner, name, hook), as_it_was)


def noting(note: Callable[..., None]) -> Callable[[Hooked], Hooked]:
    """Makes a hook that hands `note` the arguments of the real one first."""

    def make(real: Hooked) -> Hooked:
        def hook(*args: Any, **kwargs: Any) -> Any:
            note(*args, **kwargs)
            return real(*args, **kwargs)

        return hook

    return make


def take_out() -> None:
    """All of them: torch is as it was."""
    for _, take in _ALL:
        take()


def put_back() -> None:
    for put_in, _ in _ALL:
        put_in()


def leave_out_of_graphs(hook: Any) -> None:
    """Do as torch.compiler.disable(hook, recursive=False) does, without loading the compiler (2 s)."""
    try:
        from torch._C._dynamo.eval_frame import skip_code  # type: ignore[attr-defined]

        skip_code(hook.__code__)
        hook._torchdynamo_disable = True
    except (ImportError, AttributeError):
        pass


@functools.cache
def of_script(file: str) -> bool:
    """Whether it is one of the user's files: no library's, and nothing made up as `<string>`."""
    path = str(Path(file).resolve())
    return not file.startswith("<") and not path.startswith(_LIBRARIES) and "site-packages" not in path


def line_of(frame: FrameType | None) -> Line | None:
    """The innermost line of the user's files; of `__main__` where a library is run as the script."""
    main = None
    while frame is not None:
        if of_script(frame.f_code.co_filename):
            return frame.f_code.co_filename, frame.f_lineno
        if frame.f_globals.get("__name__") == "__main__" and not frame.f_code.co_filename.startswith(_HERE):
            main = frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
    return main


def shown(line: Line | None) -> Json:
    """A line as it stands in the file of a process; nothing where no line of the script called."""
    return {"file": line[0], "line": line[1], "code": linecache.getline(*line).strip()} if line else {}


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
            time.sleep(LOOK_EVERY_S)

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

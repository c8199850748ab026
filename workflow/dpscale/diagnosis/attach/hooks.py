"""How hooks are put in, what they ask at every call, which line of the script called; and the account of a step that
they keep: its wall time divided without rest into parts that exclude each other."""

from __future__ import annotations

import functools
import gc
import linecache
import os
import random
import sys
import sysconfig
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import torch
from torch import nn

clock = time.perf_counter
OWN = "own"  # the script's code, where no part has begun
MOST_STEPS = 400  # of a block, that are noted
# An event takes the host some 10 microseconds. So of a GPU's shorter steps not all are divided into parts, but of each
# block about so many.
ALL_DIVIDED_S, LEAST_DIVIDED = 0.05, 8

Line = tuple[str, int]  # file and number
Json = dict[str, Any]  # values as the file of a process holds them
Hooked = Callable[..., Any]
# Where a hook is put: the module or class, the names of functions in it, and what makes a hook of the real one.
Places = Sequence[tuple[Any, str, Callable[[Hooked], Hooked]]]

_HERE = str(Path(__file__).resolve().parents[2])  # all of dpscale
_LIBRARIES = tuple({_HERE, *(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib"))})


class Now:
    """State that hooks read at every call: plain attributes, since they may cost next to nothing."""

    def __init__(self) -> None:
        self.step = 0  # optimiser steps so far
        self.counting = False  # within the steps of a block that count
        self.as_it_is = False  # the same, in a block without an intervention
        # What began since the last step that belongs between steps: an epoch, validation, a checkpoint.
        self.border = ""
        # Since the last step a network was told to, and none to train again; or another loader than that of training
        # was read without gradients.
        self.evaluates = False
        # Seconds since then that are known, by what they were: a pause is named after them.
        self.spent: defaultdict[str, float] = defaultdict(float)


NOW = Now()


ALL: list[tuple[Callable[[], Any], Callable[[], Any]]] = []  # what puts each in, and takes it out


def add(put_in: Callable[[], Any], take_out: Callable[[], Any]) -> None:
    """A hook of any kind."""
    put_in()
    ALL.append((put_in, take_out))


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


def in_part(part: str) -> Callable[[Hooked], Hooked]:
    """Makes a hook that lets every call be a part of a step."""

    def make(real: Hooked) -> Hooked:
        def hook(*args: Any, **kwargs: Any) -> Any:
            ACCOUNT.begin(part)
            try:
                return real(*args, **kwargs)
            finally:
                ACCOUNT.end(part)

        return hook

    return make


def take_out() -> None:
    """All of them: torch is as it was."""
    for _, take in ALL:
        take()


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


def user_lines(frame: FrameType | None, most: int) -> tuple[Line, ...]:
    """Return lines of the user's files, the innermost first; of `__main__` where a library is run as the script."""
    lines: list[Line] = []
    main = None
    while frame is not None and len(lines) < most:
        line = frame.f_code.co_filename, _number_of_line(frame)
        if of_script(line[0]):
            lines.append(line)
        elif frame.f_globals.get("__name__") == "__main__" and not line[0].startswith(_HERE):
            main = line
        frame = frame.f_back
    return tuple(lines) or ((main,) if main else ())


def _number_of_line(frame: FrameType) -> int:
    """Return the line that a frame is in; of an instruction without one, such as the jump at the end of a loop of
    Python 3.11, the one before it."""
    code, number = frame.f_code, frame.f_lineno
    if number is None:
        before = [line for start, _, line in code.co_lines() if line and start <= frame.f_lasti]
        number = before[-1] if before else code.co_firstlineno
    return number


def line_of(frame: FrameType | None) -> Line | None:
    """Return the innermost line of the user's files."""
    return next(iter(user_lines(frame, 1)), None)


def shown(line: Line | None) -> Json:
    """A line as it stands in the file of a process; nothing where no line of the script called."""
    if not line:
        return {}
    return {"file": _short(line[0]), "line": line[1], "code": linecache.getline(*line).strip()}


def _short(file: str) -> str:
    """Return a file's name from the folder of the script, or from the user's own."""
    script = Path(getattr(sys.modules["__main__"], "__file__", None) or "").parent
    folders = {f"{script}/": "", f"{os.environ.get('HOME')}/": "~/"}
    return next((short + file[len(folder) :] for folder, short in folders.items() if file.startswith(folder)), file)


class NotedStep(NamedTuple):
    """A step's seconds, and those of its parts. Empty where the step was not divided."""

    seconds: float
    parts: dict[str, float]


class StepParts:
    """The part that the training thread is in, and the time of every step by part.

    A part that begins inside another interrupts it. On a CPU the host's clock tells the time of parts. On a GPU events
    in its stream do: what the host does while the GPU still works takes no time there, and what the GPU waits for does.
    """

    def __init__(self) -> None:
        self.thread = 0
        self.device: Any = None  # GPU whose stream is timed
        self.open = [OWN]
        self.waits = False  # the host for a number of the GPU
        self.recording = False
        self._divides = False  # the step into parts
        self._share = 1.0  # of steps that are divided
        self._random = random.Random(0)
        self._events: list[Any] = []  # that can be used again
        self._marks: list[tuple[str, Any]] = []  # each part that ended, and when
        self._ends: list[tuple[int, bool]] = []  # marks at which steps ended, and whether the step was divided

    def start(self, device: Any) -> None:
        """Begin to keep the account of the thread that calls."""
        self.thread, self.device = threading.get_ident(), device

    def is_elsewhere(self) -> bool:
        """Whether another thread calls than the one that trains."""
        return self.thread not in (0, threading.get_ident())

    def begin(self, part: str) -> None:
        """Begin a part, which another thread's calls do not."""
        if threading.get_ident() == self.thread:
            if self._divides:
                self._mark()
            self.open.append(part)

    def end(self, part: str) -> None:
        """End a part that was begun, and what was begun in it and never ended."""
        if threading.get_ident() == self.thread and part in self.open[1:]:
            if self._divides:
                self._mark()
            while self.open.pop() != part:
                pass

    def step_ended(self) -> None:
        if self.recording:
            self._mark()
            self._next_step()
            self.recording = len(self._ends) < MOST_STEPS
            self._divides &= self.recording

    def record(self, step_s: float = 0.0, steps: int = 1) -> None:
        """Begin a block of so many steps, of about so many seconds each."""
        self._events += [moment for _, moment in self._marks if self.device]
        self._marks, self._ends, self.recording = [], [], True
        self._share = max(step_s / ALL_DIVIDED_S, LEAST_DIVIDED / steps) if self.device else 1.0
        self._mark()
        self._next_step()

    def _next_step(self) -> None:
        self._ends.append((len(self._marks), self._divides))
        self._divides = self._random.random() < self._share

    def steps(self) -> list[NotedStep]:
        """Return the steps of the block. On a GPU it must have been synchronised."""
        self.recording = self._divides = False
        steps: list[NotedStep] = []
        for number in range(1, len(self._ends)):
            end, is_divided = self._ends[number]
            parts: defaultdict[str, float] = defaultdict(float)
            for mark in range(self._ends[number - 1][0], end):
                (_, before), (part, moment) = self._marks[mark - 1 : mark + 1]
                parts[part] += before.elapsed_time(moment) / 1e3 if self.device else moment - before
            steps.append(NotedStep(sum(parts.values()), parts if is_divided else {}))
        return steps

    def _mark(self) -> None:
        moment: Any
        if self.device is None:
            moment = clock()
        elif torch.cuda.is_current_stream_capturing():
            return
        else:
            moment = self._events.pop() if self._events else torch.cuda.Event(enable_timing=True)
            moment.record(torch.cuda.current_stream(self.device))
        self._marks.append((self.open[-1], moment))


ACCOUNT = StepParts()


def outermost(trained: Collection[int]) -> list[nn.Module]:
    """Return the outermost modules of the script that hold parameters of these identities."""
    holders = [thing for thing in gc.get_objects() if issubclass(type(thing), nn.Module) and holds(thing, trained)]
    inner = {id(child) for holder in holders for child in list(holder.modules())[1:]}
    return [holder for holder in holders if id(holder) not in inner]


def holds(module: nn.Module, trained: Collection[int]) -> bool:
    return any(id(parameter) in trained for parameter in module.parameters())


class Networks:
    """The networks that are trained, whose forward passes are parts: the outermost modules that are called.

    Without gradients a pass validates, but for that of a network in training: it makes data to train on, such as a
    rollout or the samples of a generator. With gradients that nobody asks for it validates too, where the network
    trained and was told to evaluate since the last step. An attack in that mode asks for those of inputs.
    """

    def __init__(self, parameters: Sequence[Any]) -> None:
        self._trained = {id(parameter) for parameter in parameters}
        self._called: set[int] = set()
        self._handles: dict[nn.Module, list[Any]] = {}
        for network in outermost(self._trained):
            self._hook(network)

    def settle(self) -> None:
        """In place of a network that was not called, take those inside it: others than the outermost may be."""
        for network in [network for network in self._handles if id(network) not in self._called]:
            children = [child for child in network.children() if holds(child, self._trained)]
            if children:
                self._unhook(network)
            for child in children:
                self._hook(child)

    def take_out(self) -> None:
        for network in list(self._handles):
            self._unhook(network)

    def _hook(self, network: nn.Module) -> None:
        if getattr(network, "_compiled_call_impl", None) is None:  # hooks would be compiled with it
            self._handles[network] = [
                network.register_forward_pre_hook(self._begins),
                network.register_forward_hook(self._ends, always_call=True),
            ]

    def _unhook(self, network: nn.Module) -> None:
        for handle in self._handles.pop(network):
            handle.remove()

    def _begins(self, network: nn.Module, inputs: tuple[Any, ...]) -> None:
        self._called.add(id(network))
        ACCOUNT.begin("forward" if _trains(network, inputs) else "evaluation")

    def _ends(self, *_call: Any) -> None:
        ACCOUNT.end(next((part for part in reversed(ACCOUNT.open) if part in ("forward", "evaluation")), OWN))


def _trains(network: nn.Module, inputs: tuple[Any, ...]) -> bool:
    """Return whether a pass is a part of training."""
    if not torch.is_grad_enabled():
        return network.training and not NOW.evaluates
    validates = not network.training and NOW.border == "evaluation"
    return not validates or any(getattr(value, "requires_grad", False) for value in inputs)

"""Calls of a script: each kind counted and timed by its line, or answered at once by an intervention.

Beside them: collections of garbage, graphs that are compiled, and batches of new shapes, which cuDNN searches for; and
forward and backward of its network: how often ranks synchronise in a step, and the same without it.
"""

from __future__ import annotations

import builtins
import copy
import gc
import sys
import time
from collections import Counter
from collections.abc import Callable
from statistics import median
from types import FrameType
from typing import Any
from weakref import WeakSet

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DataParallel, DistributedDataParallel

from .hooks import ACCOUNT, NOW, OWN, Hooked, Json, Line, Places, in_part, line_of, noting, shown

clock = time.perf_counter
real_synchronize = torch.cuda.synchronize

LARGE = 100_000  # elements: an answer that is larger is not kept
PLAIN = (Tensor, nn.Parameter)


class Calls:
    """Calls of one kind: how many, how long, and those of counted steps as they are by the line that called.

    While they are `left_out` they answer `answer` at once. Each is a `part` of a step, if that is named, and begins a
    `border` between steps.
    """

    def __init__(self, answer: Any = None, part: str = "", border: str = "") -> None:
        self.answer, self.part, self.border = answer, part, border
        self.left_out = self.inside = False
        self.count, self.seconds = 0, 0.0
        self.lines: dict[Line | None, list[float]] = {}  # calls and seconds

    def hook(self, real: Hooked) -> Hooked:
        def hook(*args: Any, **kwargs: Any) -> Any:
            self.count += 1
            if self.left_out:
                return self.answer
            return self.timed(sys._getframe(1), real, args, kwargs)

        return hook

    def timed(self, by: FrameType, real: Hooked, args: Any, kwargs: Any) -> Any:
        """Return the answer of the real call; note who called it and how long it took."""
        if self.inside:  # one of these calls another
            return real(*args, **kwargs)
        NOW.border = NOW.border or self.border
        if self.part:
            ACCOUNT.begin(self.part)
        self.inside, began = True, clock()
        try:
            return real(*args, **kwargs)
        finally:
            self.inside, seconds = False, clock() - began
            if self.part:
                ACCOUNT.end(self.part)
            self.seconds += seconds
            if self.border:
                NOW.spent[self.border] += seconds
            if NOW.as_it_is:
                sums = self.lines.setdefault(line_of(by), [0, 0.0])
                sums[0] += 1
                sums[1] += seconds

    def report(self) -> list[Json]:
        """A row per line, those that take longest first."""
        rows = [{**shown(line), "calls": calls, "seconds": seconds} for line, (calls, seconds) in self.lines.items()]
        return sorted(rows, key=lambda row: -row["seconds"])[:100]


class Numbers(Calls):
    """Numbers that are asked of a GPU. While left out, the last true one is the answer, by the place that asks."""

    def __init__(self) -> None:
        super().__init__()
        self.last: dict[Any, Any] = {}

    def timed(self, by: FrameType, real: Hooked, args: Any, kwargs: Any) -> Any:
        ACCOUNT.waits = True
        try:
            return super().timed(by, real, args, kwargs)
        finally:
            ACCOUNT.waits = False

    def hook(self, real: Hooked) -> Hooked:
        def hook(*args: Any, **kwargs: Any) -> Any:
            tensor: Any = args[0] if args else kwargs.get("input")
            if self.inside or type(tensor) not in PLAIN or not tensor.is_cuda:
                return real(*args, **kwargs)
            self.count += 1
            if not NOW.counting:
                return real(*args, **kwargs)
            by = sys._getframe(1)
            key = by.f_code, by.f_lasti, real, tensor.shape, tensor.dtype
            if self.left_out and key in self.last:
                return copied(self.last[key])
            value = self.timed(by, real, args, kwargs)
            if not (isinstance(value, Tensor) and value.requires_grad) and tensor.numel() <= LARGE:
                self.last[key] = copied(value)
            return value

        return hook


def copied(answer: Any) -> Any:
    """For a script may write into its answer. deepcopy looks at every number of a list: 0.2 ms for 1,000 of them."""
    if not isinstance(answer, list):
        return copy.deepcopy(answer)
    return [copied(inner) for inner in answer] if answer and isinstance(answer[0], list) else answer[:]


def _elapsed_time(real: Hooked) -> Hooked:
    """Events of the script are there where it asks for their time, also while its synchronising is left out."""

    def hook(self: Any, end: Any) -> Any:
        if SYNCHRONISED.left_out:
            end.synchronize()
        return real(self, end)

    return hook


class Events:
    """Totals since the warm-up ended, until the last steps are profiled, and what was switched on."""

    def __init__(self) -> None:
        self.autocast = self.anomaly = False  # has been on
        self.anomaly_off = self.search_off = False  # by an intervention
        self.new_shape = False  # of a batch since the last step
        self.gc_began = 0.0
        self.start()

    def start(self) -> None:
        self.profiling = False  # which loads modules: a collection then is none of the script
        self.collections, self.gc_s, self.longest_s = 0, 0.0, 0.0
        self.steps = self.steps_with_gc = self.profiled_steps = 0
        self.new_shape_s: list[float] = []
        self.known_shape_s: list[float] = []
        self.compiled_before = compiled()

    def collected(self, phase: str, info: dict[str, int]) -> None:
        """One of gc.callbacks. A part is a collection of all objects alone: of the youngest there are hundreds in a
        step, and each is short."""
        is_of_all = info["generation"] == 2
        if phase == "start":
            if is_of_all:
                ACCOUNT.begin("garbage collection")
            self.gc_began = clock()
            return
        if is_of_all:
            ACCOUNT.end("garbage collection")
        if self.profiling:
            return
        seconds = clock() - self.gc_began
        self.collections += 1
        self.gc_s += seconds
        NOW.spent["gc"] += seconds
        self.longest_s = max(self.longest_s, seconds)

    def stepped(self, seconds: float) -> None:
        self.steps += 1
        self.steps_with_gc += not COLLECTED.left_out
        self.profiled_steps += torch.autograd._profiler_enabled()  # type: ignore[attr-defined]
        if self.new_shape:
            self.new_shape = False
            self.new_shape_s.append(seconds)
        elif NOW.as_it_is or (NOW.counting and self.search_off):
            self.known_shape_s.append(seconds)

    def report(self) -> Json:
        (count, seconds), (count_before, seconds_before) = compiled(), self.compiled_before
        gc_s = self.gc_s * self.steps / max(1, self.steps_with_gc)  # as if no block had been without
        usual_s = median(self.known_shape_s or [0.0])
        searched_s = max(0.0, sum(self.new_shape_s) - len(self.new_shape_s) * usual_s)
        return {
            "gc": {"count": self.collections, "seconds": gc_s, "longest_s": self.longest_s},
            "compile": {"count": count - count_before, "seconds": seconds - seconds_before},
            "cudnn_search": {"count": len(self.new_shape_s), "seconds": searched_s},
        }


def compiled() -> tuple[int, float]:
    """Graphs that torch.compile has made, and their seconds. Nothing is loaded for it."""
    utils = sys.modules.get("torch._dynamo.utils")
    times = getattr(utils, "compilation_time_metrics", {})
    seconds: list[float] = times.get("_compile.compile_inner") or times.get("_compile") or []
    return len(seconds), sum(seconds)


def _set_anomaly_enabled(real: Hooked) -> Hooked:
    def hook(enabled: bool, check_nan: bool = True) -> None:
        EVENTS.anomaly |= bool(enabled)
        real(bool(enabled) and not EVENTS.anomaly_off, check_nan)

    return hook


def _autocast(self: Any) -> None:
    EVENTS.autocast |= self._enabled


EVENTS = Events()
SEARCH_LINES: list[Line | None] = []  # which switched cuDNN's search on: the script's first, then interventions'


def _benchmark(real: Hooked) -> Hooked:
    def hook(value: bool) -> None:
        if value:
            SEARCH_LINES.append(line_of(sys._getframe(1)))
        real(value)

    return hook


EXCHANGED, ASKED, SYNCHRONISED, EMPTIED, SEARCHED = Calls(part="collectives"), Numbers(), Calls(), Calls(), Calls()
SAVED, COLLECTED = Calls(part="checkpoint", border="checkpoint"), Calls(answer=0)


class Forwards:
    """Calls of the script's networks, and the work that the next forwards leave out."""

    def __init__(self) -> None:
        self.ddp: WeakSet[Any] = WeakSet()
        self.dp: WeakSet[Any] = WeakSet()
        self.fsdp: WeakSet[Any] = WeakSet()  # of fully_shard
        self.no_allreduce = self.no_buffers = False
        self.own_exchange = False  # the script has told DDP how gradients are exchanged
        self.on_one_device = ""  # DataParallel: `all samples` of a batch, or `its share` of them
        self.only_last = 0  # of so many forwards per step, the last alone synchronises
        self.backwards = self.forwards = self.synchronised = 0  # since the last step
        self.per_step: list[tuple[int, int, int]] = []  # the same of the first steps

    def stepped(self) -> None:
        if len(self.per_step) < 200:
            self.per_step.append((self.backwards, self.forwards, self.synchronised))
        self.backwards = self.forwards = self.synchronised = 0

    def each_step(self) -> tuple[int, int, int] | None:
        """Backwards, forwards and synchronised forwards per step. None where their numbers change."""
        seen = self.per_step[1:]
        usual = Counter(seen).most_common(1)
        return usual[0][0] if usual and usual[0][1] >= 0.9 * len(seen) else None

    def strategy(self, ranks: int) -> str:
        """Name how the processes train together: ddp, dp, other or single."""
        if self.ddp:
            return "ddp"
        if any(len(network.device_ids) > 1 for network in self.dp):
            return "dp"
        return "other" if ranks > 1 else "single"


NETWORK = Forwards()


def _ddp_forward(real: Hooked) -> Hooked:
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        NETWORK.ddp.add(self)
        synchronises = self.require_backward_grad_sync
        if torch.is_grad_enabled():
            NETWORK.forwards += 1
            NETWORK.synchronised += synchronises
        # A script may set this before every forward: what it has set is put back.
        if NETWORK.no_allreduce or NETWORK.forwards < NETWORK.only_last:
            self.__dict__["require_backward_grad_sync"] = False
        try:
            return real(self, *args, **kwargs)
        finally:
            self.__dict__["require_backward_grad_sync"] = synchronises

    return forward


def _sends_buffers(real: Hooked) -> Hooked:
    return lambda self: not (NETWORK.no_allreduce or NETWORK.no_buffers) and bool(real(self))


def _dp_forward(real: Hooked) -> Hooked:
    """DataParallel as it is, on one device, or on one device with the samples of one."""

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        NETWORK.dp.add(self)
        devices = self.device_ids
        if not NETWORK.on_one_device or len(devices) < 2:
            return real(self, *args, **kwargs)
        self.device_ids = devices[:1]
        try:
            if NETWORK.on_one_device == "all samples":
                return real(self, *args, **kwargs)
            samples = max((t.shape[0] for t in tensors_of((*args, *kwargs.values())) if t.dim()), default=0)
            share = -(-samples // len(devices))
            args, kwargs = _with_rows([args, kwargs], samples, lambda tensor: tensor[:share])
            output = real(self, *args, **kwargs)
            # As if every device had given this one's answer: the script computes a loss of as many samples.
            repeat = [*range(share)] * len(devices)
            return _with_rows(output, share, lambda tensor: tensor[repeat[:samples]])
        finally:
            self.device_ids = devices

    return forward


def tensors_of(batch: Any, depth: int = 0) -> list[Tensor]:
    if isinstance(batch, Tensor):
        return [batch]
    if depth == 3:
        return []
    if not isinstance(batch, (list, tuple)):
        batch = batch.values() if callable(getattr(batch, "values", None)) else ()
    return [tensor for value in batch for tensor in tensors_of(value, depth + 1)]


def in_new_containers(values: Any, change: Callable[[Any], Any]) -> Any:
    """Return values in containers of their own, each of the values changed."""
    if isinstance(values, dict):
        changed = copy.copy(values)
        changed.update({key: in_new_containers(value, change) for key, value in values.items()})
        return changed
    if type(values) in (list, tuple):
        return type(values)(in_new_containers(value, change) for value in values)
    return change(values)


def _with_rows(values: Any, rows: int, change: Callable[[Tensor], Tensor]) -> Any:
    """Return the same in containers of its own, with a change of those tensors that have so many rows."""

    def changed(value: Any) -> Any:
        return change(value) if isinstance(value, Tensor) and value.dim() and value.shape[0] == rows else value

    return in_new_containers(values, changed)


def _backward(real: Hooked) -> Hooked:
    def backward(*args: Any, **kwargs: Any) -> Any:
        NETWORK.backwards += 1
        EXCHANGED.inside = NETWORK.own_exchange  # what is sent here are the gradients
        ACCOUNT.begin("backward")
        try:
            return real(*args, **kwargs)
        finally:
            ACCOUNT.end("backward")
            EXCHANGED.inside = False

    return backward


def _register(*_args: Any, **_kwargs: Any) -> None:
    NETWORK.own_exchange = True


def _copies(real: Hooked) -> Hooked:
    """Let a copy of a batch to the GPU be a part of its own."""
    copies = in_part("copy")(real)
    return lambda self, *args, **kwargs: (real if ACCOUNT.open[-1] != OWN or self.is_cuda else copies)(
        self, *args, **kwargs
    )


def _train(self: Any, mode: bool = True) -> None:
    """A teacher is told in every step to evaluate as it does already, and so are single layers that are kept as they
    are: that is no validation."""
    if mode:
        NOW.evaluates = False
    elif self.training and list(self.children()):
        NOW.evaluates = True
        NOW.border = NOW.border or "evaluation"


# The property `torch.backends.cudnn.benchmark`, whose setter is called where a script sets it.
_BENCHMARK = vars(type(torch.backends.cudnn)).get("benchmark")
COLLECTIVES = """
    all_reduce all_reduce_coalesced broadcast reduce all_gather all_gather_into_tensor _all_gather_base reduce_scatter
    reduce_scatter_tensor gather scatter all_to_all all_to_all_single barrier monitored_barrier all_gather_object
    gather_object broadcast_object_list scatter_object_list send recv
"""
c10d: Any = getattr(dist, "distributed_c10d", None)  # not in every build of torch
PLACES: Places = (
    (dist, COLLECTIVES, EXCHANGED.hook),
    (c10d, COLLECTIVES, EXCHANGED.hook),
    (getattr(c10d, "Work", None), "wait", EXCHANGED.hook),  # for one that was only begun
    (torch.cuda, "empty_cache", EMPTIED.hook),
    (torch, "save", SAVED.hook),
    (_BENCHMARK, "setter", _benchmark),
    (gc, "collect", COLLECTED.hook),
    (torch, "set_anomaly_enabled", _set_anomaly_enabled),
    (torch.amp.autocast_mode.autocast, "__enter__", noting(_autocast)),
    (DistributedDataParallel, "forward", _ddp_forward),
    (DistributedDataParallel, "will_sync_module_buffers", _sends_buffers),
    (DistributedDataParallel, "register_comm_hook _register_builtin_comm_hook", noting(_register)),
    (DataParallel, "forward", _dp_forward),
    (DataParallel, "scatter", in_part("scatter")),
    (DataParallel, "replicate", in_part("replicate")),
    (DataParallel, "gather", in_part("gather")),
    (builtins, "print", in_part("logging")),  # it has no frame that a sample could see
    (torch.autograd, "backward", _backward),
    (nn.Module, "train", noting(_train)),
)
SEARCHES: Places = ((DistributedDataParallel, "_post_forward", SEARCHED.hook),)  # where DDP is told to
# Where the script computes on a GPU: on a CPU nobody waits.
WAITS: Places = (
    (Tensor, "item tolist __bool__ __float__ __int__ __index__ cpu nonzero", ASKED.hook),
    (torch, "nonzero", ASKED.hook),
    (torch.cuda, "synchronize", SYNCHRONISED.hook),
    (torch.cuda.Event, "elapsed_time", _elapsed_time),
    (Tensor, "to cuda", _copies),
)

"""Calls that wait, with their lines: the script's own collectives, numbers asked of a GPU, the allocator's emptying."""

from __future__ import annotations

import copy
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from .hooks import NOW, line_of, of_script, shown, wrap

clock = time.perf_counter
real_synchronize = torch.cuda.synchronize

COLLECTIVES = {
    "all_reduce": "allreduce",
    "all_reduce_coalesced": "allreduce",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "all_gather": "allgather",
    "all_gather_into_tensor": "allgather",
    "_all_gather_base": "allgather",
    "reduce_scatter": "reduce_scatter",
    "reduce_scatter_tensor": "reduce_scatter",
    "gather": "gather",
    "scatter": "scatter",
    "all_to_all": "alltoall",
    "all_to_all_single": "alltoall",
    "barrier": "barrier",
    "monitored_barrier": "barrier",
    "all_gather_object": "object",
    "gather_object": "object",
    "broadcast_object_list": "object",
    "scatter_object_list": "object",
    "send": "send",
    "recv": "recv",
}
NUMBERS = ("item", "tolist", "__bool__", "__float__", "__int__", "__index__", "cpu", "nonzero")
LARGE = 100_000  # elements: an answer that is larger is not kept
PLAIN = (Tensor, torch.nn.Parameter)


class Calls:
    """Counted steps of blocks as they are, by the place that called."""

    def __init__(self) -> None:
        self.rows: dict[Any, list[Any]] = {}
        self.seconds = 0.0  # in counted steps of any block
        self.asked = 0  # calls in others
        self.inside = False

    def add(self, kind: str, by: Any, seconds: float, size: int = 0) -> None:
        self.seconds += seconds
        if not NOW.as_it_is:
            return
        key = (by.f_code, by.f_lasti, kind)
        row = self.rows.get(key)
        if row is None:
            who = "script" if of_script(by.f_code.co_filename) else "library"
            row = self.rows[key] = [kind, who, 0, 0, 0.0, line_of(by)]
        row[2] += 1
        row[3] += size
        row[4] += seconds

    def merged(self) -> list[dict[str, Any]]:
        """A row per kind and line, those that take longest first."""
        rows: dict[Any, dict[str, Any]] = {}
        for kind, by, calls, size, seconds, line in self.rows.values():
            row = rows.setdefault(
                (kind, by, line),
                {"kind": kind, "by": by, "calls": 0, "bytes": 0, "seconds": 0.0, "line": shown(line)},
            )
            row["calls"] += calls
            row["bytes"] += size
            row["seconds"] += seconds
        return sorted(rows.values(), key=lambda row: (-row["seconds"], -row["calls"]))[:100]


COLLECTIVE, WAIT, EMPTYING = Calls(), Calls(), Calls()


class Answers:
    """The last true answers, by the place that asked."""

    def __init__(self) -> None:
        self.at_once = False
        self.no_emptying = False
        self.emptied = 0  # times
        self.last: dict[Any, tuple[Any, Any]] = {}


ANSWERS = Answers()


def install() -> None:
    for name, kind in COLLECTIVES.items():
        for module in (dist.distributed_c10d, dist) if dist.is_available() else ():
            wrap(module, name, lambda real, kind=kind: _collective(real, kind))  # type: ignore[misc]
    wrap(torch.cuda, "empty_cache", _empty_cache)


def install_waits() -> None:
    """Where the script computes on a GPU: on a CPU nobody waits."""
    for name in NUMBERS:
        wrap(Tensor, name, lambda real, name=name: _number(real, name))  # type: ignore[misc]
    wrap(torch, "nonzero", lambda real: _number(real, "nonzero"))
    wrap(torch.cuda, "synchronize", _synchronize)


def _size(value: Any) -> int:
    if isinstance(value, Tensor):
        return value.numel() * value.element_size()
    return sum(map(_size, value)) if isinstance(value, (list, tuple)) else 0


def _collective(real: Callable[..., Any], kind: str) -> Callable[..., Any]:
    def hook(*args: Any, **kwargs: Any) -> Any:
        if COLLECTIVE.inside or not NOW.counting:
            return real(*args, **kwargs)
        COLLECTIVE.inside = True
        began = clock()
        try:
            return real(*args, **kwargs)
        finally:
            COLLECTIVE.inside = False
            first = args[0] if args else next(iter(kwargs.values()), None)
            COLLECTIVE.add(kind, sys._getframe(1), clock() - began, _size(first))

    return hook


def _number(real: Callable[..., Any], kind: str) -> Callable[..., Any]:
    def hook(self: Any, *args: Any, **kwargs: Any) -> Any:
        if WAIT.inside or type(self) not in PLAIN or not self.is_cuda:
            return real(self, *args, **kwargs)
        if not NOW.counting:
            WAIT.asked += 1
            return real(self, *args, **kwargs)
        by = sys._getframe(1)
        key = (by.f_code, by.f_lasti, kind, self.shape, self.dtype)
        if ANSWERS.at_once and key in ANSWERS.last:
            return _copy(ANSWERS.last[key])
        WAIT.inside = True
        began = clock()
        try:
            value = real(self, *args, **kwargs)
        finally:
            WAIT.inside = False
        WAIT.add(kind, by, clock() - began)
        if not (isinstance(value, Tensor) and value.requires_grad) and self.numel() <= LARGE:
            ANSWERS.last[key] = _copy(value)
        return value

    return hook


def _copy(value: Any) -> Any:
    """So that a script may write into its answer."""
    if isinstance(value, Tensor):
        return value.clone()
    return copy.deepcopy(value) if isinstance(value, list) else value


def _synchronize(real: Callable[..., Any]) -> Callable[..., Any]:
    def hook(*args: Any, **kwargs: Any) -> Any:
        if not NOW.counting:
            WAIT.asked += 1
            return real(*args, **kwargs)
        if ANSWERS.at_once:
            return None
        began = clock()
        real(*args, **kwargs)
        WAIT.add("synchronize", sys._getframe(1), clock() - began)
        return None

    return hook


def _empty_cache(real: Callable[..., Any]) -> Callable[..., Any]:
    def hook() -> None:
        ANSWERS.emptied += 1
        if ANSWERS.no_emptying:
            return
        began = clock()
        real()
        if NOW.counting:
            EMPTYING.add("empty_cache", sys._getframe(1), clock() - began)

    return hook

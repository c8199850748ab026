"""Forward and backward of a script's network: how often ranks synchronise, and the same without it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

import torch
from torch import nn
from torch.nn.parallel import DataParallel, DistributedDataParallel

from .hooks import NOW, wrap

clock = time.perf_counter


class Forwards:
    """What was called, and what the next forwards leave out."""

    def __init__(self) -> None:
        self.ddp: WeakSet[Any] = WeakSet()
        self.dp: WeakSet[Any] = WeakSet()
        self.synchronised = 0  # forwards whose backward ends in an allreduce, over counted steps as they are
        self.broadcasts = 0  # forwards that begin with a broadcast of buffers, likewise
        self.search_s = 0.0  # for parameters without a gradient
        self.backwards_of_step = self.forwards_of_step = self.synchronised_of_step = 0
        self.no_allreduce = False
        self.no_buffers = False
        self.only_last = 0  # of so many forwards per step, the last alone synchronises
        self.per_step: list[tuple[int, int, int]] = []  # backwards, forwards, synchronised ones of the first steps

    def step_ended(self) -> None:
        if len(self.per_step) < 200:
            self.per_step.append((self.backwards_of_step, self.forwards_of_step, self.synchronised_of_step))
        self.backwards_of_step = self.forwards_of_step = self.synchronised_of_step = 0

    def each_step(self) -> tuple[int, int, int] | None:
        """Backwards, forwards and synchronised forwards per step. None where their numbers change."""
        seen = self.per_step[1:]
        usual = Counter(seen).most_common(1)
        return usual[0][0] if usual and usual[0][1] >= 0.9 * len(seen) else None


NETWORK = Forwards()


def install() -> None:
    wrap(DistributedDataParallel, "forward", _ddp_forward)
    wrap(DistributedDataParallel, "will_sync_module_buffers", _sends_buffers)
    wrap(DistributedDataParallel, "_sync_buffers", _sync_buffers)
    wrap(DistributedDataParallel, "_post_forward", _post_forward)
    wrap(DataParallel, "forward", _dp_forward)
    wrap(torch.autograd, "backward", _backward)
    wrap(nn.Module, "train", _train)


def _ddp_forward(real: Callable[..., Any]) -> Callable[..., Any]:
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        NETWORK.ddp.add(self)
        synchronises = self.require_backward_grad_sync
        if torch.is_grad_enabled():
            NETWORK.forwards_of_step += 1
            NETWORK.synchronised_of_step += synchronises
            NETWORK.synchronised += synchronises and NOW.as_it_is
        # A script may set this before every forward: what it has set is put back.
        if NETWORK.no_allreduce or NETWORK.forwards_of_step < NETWORK.only_last:
            self.__dict__["require_backward_grad_sync"] = False
        try:
            return real(self, *args, **kwargs)
        finally:
            self.__dict__["require_backward_grad_sync"] = synchronises

    return forward


def _sends_buffers(real: Callable[..., Any]) -> Callable[..., Any]:
    def will_sync_module_buffers(self: Any) -> bool:
        if NETWORK.no_allreduce or NETWORK.no_buffers:
            return False
        return bool(real(self))

    return will_sync_module_buffers


def _sync_buffers(real: Callable[..., Any]) -> Callable[..., Any]:
    def hook(self: Any) -> Any:
        NETWORK.broadcasts += NOW.as_it_is
        return real(self)

    return hook


def _post_forward(real: Callable[..., Any]) -> Callable[..., Any]:
    def hook(self: Any, output: Any) -> Any:
        began = clock()
        try:
            return real(self, output)
        finally:
            if self.find_unused_parameters and NOW.as_it_is:
                NETWORK.search_s += clock() - began

    return hook


def _dp_forward(real: Callable[..., Any]) -> Callable[..., Any]:
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        NETWORK.dp.add(self)
        return real(self, *args, **kwargs)

    return forward


def _backward(real: Callable[..., Any]) -> Callable[..., Any]:
    def backward(*args: Any, **kwargs: Any) -> Any:
        NETWORK.backwards_of_step += 1
        return real(*args, **kwargs)

    return backward


def _train(real: Callable[..., Any]) -> Callable[..., Any]:
    def train(self: Any, mode: bool = True) -> Any:
        if not mode and self.training:
            NOW.border = NOW.border or "evaluation"
        return real(self, mode)

    return train


def bytes_of(tensors: Any) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def rows(steps: int) -> list[dict[str, Any]]:
    """What DDP sends, which Python does not see: by its forwards, over the counted steps as they are."""
    if not NETWORK.ddp or not steps:
        return []
    gradients = sum(bytes_of(p for p in ddp.parameters() if p.requires_grad) for ddp in NETWORK.ddp)
    buffers = sum(bytes_of(ddp.modules_buffers) for ddp in NETWORK.ddp)
    per_network = len(NETWORK.ddp)
    of = {"by": "ddp", "seconds": None, "line": None}
    found = [
        {"kind": "allreduce", "calls": NETWORK.synchronised, "bytes": gradients * NETWORK.synchronised / per_network},
        {"kind": "broadcast", "calls": NETWORK.broadcasts, "bytes": buffers * NETWORK.broadcasts / per_network},
    ]
    return [{**row, **of} for row in found if row["calls"]]

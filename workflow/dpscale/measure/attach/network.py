"""Forward and backward of a script's network: how often ranks synchronise in a step, and the same without it."""

from __future__ import annotations

from collections import Counter
from typing import Any
from weakref import WeakSet

import torch
from torch import nn
from torch.nn.parallel import DataParallel, DistributedDataParallel

from .calls import EXCHANGED
from .hooks import NOW, Hooked, Places, noting


class Forwards:
    """Calls of the script's networks, and the work that the next forwards leave out."""

    def __init__(self) -> None:
        self.ddp: WeakSet[Any] = WeakSet()
        self.dp: WeakSet[Any] = WeakSet()
        self.no_allreduce = self.no_buffers = False
        self.own_exchange = False  # the script has told DDP how gradients are exchanged
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


def _dp_forward(self: Any, *_args: Any, **_kwargs: Any) -> None:
    NETWORK.dp.add(self)


def _backward(real: Hooked) -> Hooked:
    def backward(*args: Any, **kwargs: Any) -> Any:
        NETWORK.backwards += 1
        EXCHANGED.inside = NETWORK.own_exchange  # what is sent here are the gradients
        try:
            return real(*args, **kwargs)
        finally:
            EXCHANGED.inside = False

    return backward


def _register(*_args: Any, **_kwargs: Any) -> None:
    NETWORK.own_exchange = True


def _train(self: Any, mode: bool = True) -> None:
    if not mode and self.training:
        NOW.border = NOW.border or "evaluation"


PLACES: Places = (
    (DistributedDataParallel, "forward", _ddp_forward),
    (DistributedDataParallel, "will_sync_module_buffers", _sends_buffers),
    (DistributedDataParallel, "register_comm_hook _register_builtin_comm_hook", noting(_register)),
    (DataParallel, "forward", noting(_dp_forward)),
    (torch.autograd, "backward", _backward),
    (nn.Module, "train", noting(_train)),
)

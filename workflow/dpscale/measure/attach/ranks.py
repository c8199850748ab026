"""How ranks of one process group agree: rank 0 tells each block, the others ask for it, through the default store."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from .schedule import Turn

PATIENCE_S = 60.0


class Alone:
    """One process, or one that is no rank."""

    rank: int = 0
    world_size: int = 1
    backend: str | None = None

    def tell(self, number: int, block: Turn) -> None:
        pass

    def hear(self, number: int) -> Turn:
        raise NotImplementedError

    def all_here(self) -> bool:
        return True

    def leave(self) -> None:
        pass


class Ranks(Alone):
    """Of an initialised process group. Raises TimeoutError where another rank does not come."""

    def __init__(self) -> None:
        from torch.distributed.distributed_c10d import PrefixStore, _get_default_store

        self.rank, self.world_size, self.backend = dist.get_rank(), dist.get_world_size(), dist.get_backend()
        self._store: Any = PrefixStore("dpscale", _get_default_store())
        self._store.add("here", 1)

    def tell(self, number: int, block: Turn) -> None:
        self._store.set(f"block {number}", json.dumps(block.as_list()))

    def hear(self, number: int) -> Turn:
        key = f"block {number}"
        _wait(lambda: self._has(key), PATIENCE_S, 0.001)
        return Turn(*json.loads(self._store.get(key)))

    def all_here(self) -> bool:
        """Whether every rank has made a step under these hooks: a rank without them would wait for others for ever."""
        return self._counted("here", 10.0)

    def leave(self) -> None:
        """Rank 0 may keep the store: it goes last."""
        self._store.add("left", 1)
        if self.rank == 0:
            self._counted("left", 10.0)

    def _counted(self, key: str, patience_s: float) -> bool:
        try:
            _wait(lambda: self._store.add(key, 0) >= self.world_size, patience_s, 0.01)
        except TimeoutError:
            return False
        return True

    def _has(self, key: str) -> bool:
        """Asked again and again: to wait in the store would keep it from torch's own threads."""
        if hasattr(self._store, "check"):
            return bool(self._store.check([key]))
        try:
            self._store.wait([key], timedelta(milliseconds=20))
        except Exception:
            return False
        return True


def _wait(come: Callable[[], bool], patience_s: float, pause_s: float) -> None:
    until = time.monotonic() + patience_s
    while not come():
        if time.monotonic() > until:
            raise TimeoutError("ranks do not step together")
        time.sleep(pause_s)


def ranks_here() -> Alone:
    """Those of the default process group, where there is one with others in it."""
    if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
        return Ranks()
    return Alone()

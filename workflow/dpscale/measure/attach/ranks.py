"""How ranks of one process group agree: rank 0 tells each block, the others ask for it, through the default store."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch.distributed as dist

from .schedule import Turn

PATIENCE_S = 60.0


class Ranks:
    """Ranks of the default process group; a process that has none, or is alone in it, is rank 0 of one.

    Raises TimeoutError where another rank does not come.
    """

    def __init__(self) -> None:
        self.rank, self.world_size = 0, 1
        self.backend: str | None = None
        self._store: Any = None
        if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
            from torch.distributed.distributed_c10d import PrefixStore, _get_default_store

            self.rank, self.world_size, self.backend = dist.get_rank(), dist.get_world_size(), dist.get_backend()
            self._store = PrefixStore("dpscale", _get_default_store())
            self._store.add("here", 1)

    def next(self, number: int, plan: Iterator[Turn]) -> Turn:
        """The turn of this number: rank 0 takes it out of its plan."""
        key = f"turn {number}"
        if self.rank == 0:
            turn = next(plan)
            if self._store is not None:
                self._store.set(key, json.dumps(turn))
            return turn
        # Asked again and again: to wait in the store would keep it from torch's own threads.
        _wait(lambda: self._store.check([key]), PATIENCE_S, 0.001)
        return Turn(*json.loads(self._store.get(key)))

    def all_here(self) -> bool:
        """Whether every rank has made a step under these hooks: a rank without them would wait for others for ever."""
        return self._counted("here", 10.0)

    def leave(self) -> None:
        """Rank 0 may keep the store: it goes last."""
        if self._store is not None:
            self._store.add("left", 1)
        if self.rank == 0:
            self._counted("left", 10.0)

    def _counted(self, key: str, patience_s: float) -> bool:
        if self._store is None:
            return True
        try:
            _wait(lambda: self._store.add(key, 0) >= self.world_size, patience_s, 0.01)
        except TimeoutError:
            return False
        return True


def _wait(come: Callable[[], bool], patience_s: float, pause_s: float) -> None:
    until = time.monotonic() + patience_s
    while not come():
        if time.monotonic() > until:
            raise TimeoutError("ranks do not step together")
        time.sleep(pause_s)

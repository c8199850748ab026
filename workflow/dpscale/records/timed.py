"""Times as timing records hold them, of every version."""

from collections.abc import Mapping
from typing import Any


def epochs_s(scope: Mapping[str, Any]) -> list[float]:
    """Seconds of every timed epoch of a record's scope: what the slowest rank's own clock says.

    That clock stops when the rank's devices are idle. In version 1 `epoch_s` holds the barrier after it too, which is no
    part of an epoch; later versions have the same in both.
    """
    return [max(ranks_s) for ranks_s in scope["rank_epoch_s"]]

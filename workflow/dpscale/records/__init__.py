"""Versions of the measurements, by kind of record.

A version is raised whenever measuring code changes in a way that can change a number: every cell of that kind is then
measured again. Tables still show records of the older versions that are named here, and name their version. Records of
different versions are never pooled.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True)
class Version:
    """The version that is measured now, and the older ones that tables can still read."""

    current: int
    still_readable: frozenset[int] = frozenset()

    def reads(self, version: int) -> bool:
        """Whether tables can show a record of this version."""
        return version == self.current or version in self.still_readable


VERSIONS: Mapping[str, Version] = MappingProxyType(
    {
        # 2: a baseline in every job; the closing barrier outside of the clock; a fixed number of epochs.
        "timing": Version(2, still_readable=frozenset({1})),
        # 2: a ladder of rungs in random order, a control of the hook that does nothing.
        # 3: in dp's rung `threads` the loss is computed in the threads too.
        "communication": Version(3, still_readable=frozenset({1, 2})),
        # 2: the GPU is held until all calls are queued.
        "collectives": Version(2, still_readable=frozenset({1})),
        # 2: order and crops draw from seeds of their own; the clock starts after warm-up steps.
        "training": Version(2, still_readable=frozenset({1})),
        "script": Version(1),
        "versus": Version(1),
    }
)

# What is to be known of records of an older version, as a part of a sentence.
OLDER: Mapping[str, str] = MappingProxyType(
    {
        "timing 1": "one {device} alone was timed in jobs of its own, not in the parallel ones",
        "communication 1": "steps have no ladder",
        "communication 2": "dp's threads did not compute the loss",
        "collectives 1": "nothing shows that calls never waited for the host",
        "training 1": "first epochs hold the start-up",
    }
)

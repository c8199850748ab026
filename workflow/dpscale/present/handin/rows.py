"""The rows that the assignment's tables are made of."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

from dpscale.present.text.words import in_order
from dpscale.tables.communication import BandwidthRow, CommunicationRow, LadderRow
from dpscale.tables.tables import Tables
from dpscale.tables.timing import SpeedupRow, TimesRow


@dataclass(frozen=True)
class AssignmentRows:
    """In the order in which people read them."""

    times: Sequence[TimesRow]
    speedup: Sequence[SpeedupRow]
    communication: Sequence[CommunicationRow]
    bandwidth: Sequence[BandwidthRow]
    ladder: Sequence[LadderRow]

    @classmethod
    def of(cls, tables: Tables) -> Self:
        return cls(*(in_order(getattr(tables, item.name)) for item in fields(cls)))

    def where(self, keep: Callable[[Any], bool]) -> Self:
        """These of them alone."""
        return type(self)(*(list(filter(keep, rows)) for rows in vars(self).values()))

    def in_environment(self, letter: str) -> Self:
        """With those that were not measured: they are of none, and belong to each."""
        return self.where(lambda row: row.environment in ("", letter))

"""The rows that the assignment's tables are made of."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

from dpscale.present.text.words import in_order
from dpscale.tables.communication import BandwidthRow, CommunicationRow, LadderRow
from dpscale.tables.tables import Tables
from dpscale.tables.timing import SpeedupRow, TimesRow


class AssignmentRows(NamedTuple):
    """In the order in which people read them."""

    times: Sequence[TimesRow]
    speedup: Sequence[SpeedupRow]
    communication: Sequence[CommunicationRow]
    bandwidth: Sequence[BandwidthRow]
    ladder: Sequence[LadderRow]

    @classmethod
    def of(cls, tables: Tables) -> Self:
        rows: Any = (in_order(getattr(tables, name)) for name in cls._fields)
        return cls(*rows)

    def where(self, keep: Callable[[Any], bool]) -> Self:
        """These of them alone."""
        kept: Any = (list(filter(keep, rows)) for rows in self)
        return type(self)(*kept)

    def in_environment(self, letter: str) -> Self:
        """With those that were not measured: they are of none, and belong to each."""
        return self.where(lambda row: row.environment in ("", letter))

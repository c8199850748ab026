"""What of several studies is evidence: records that stand in one of them alone.

The same file in two studies says nothing of how they differ, and would make any interval of their ratio too narrow.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from dpscale.analyse.comparison import Side
from dpscale.analyse.tables import build_tables
from dpscale.errors import ComparisonError
from dpscale.plan.cells import AnyCell
from dpscale.plan.study import Study
from dpscale.records.collect import Collected


@dataclass(frozen=True)
class Named:
    """A study and its records, under the name that it has beside others."""

    name: str
    study: Study
    collected: Collected


def sides(studies: Sequence[Named]) -> list[Side]:
    """The studies with their tables, made of the records that no other of them has.

    Raises ComparisonError where a study has no record but those of others.
    """
    same: list[set[AnyCell]] = [set() for _ in studies]
    for (one, first), (other, second) in combinations(enumerate(studies), 2):
        for cell in _same_records(first.collected, second.collected):
            same[one].add(cell)
            same[other].add(cell)
    for named, cells in zip(studies, same, strict=True):
        if cells and len(cells) == len(named.collected.records):
            raise ComparisonError(
                f"{named.name}: all of its {len(cells)} records stand in another of the studies too. "
                "The same file in both studies is no evidence of a difference"
            )
    return [_side(named, cells) for named, cells in zip(studies, same, strict=True)]


def _same_records(first: Collected, second: Collected) -> Iterator[AnyCell]:
    """The cells whose records are the same in all they hold: when and where they were measured, and every time."""
    return (cell for cell, record in first.records.items() if record == second.records.get(cell))


def _side(named: Named, same: set[AnyCell]) -> Side:
    collected = named.collected
    own = {cell: record for cell, record in collected.records.items() if cell not in same}
    reasons = dict.fromkeys(same, "the same record is in another study")
    rejected = {**collected.rejected, **reasons}
    tables = build_tables(named.study, replace(collected, records=own, rejected=rejected))
    return Side(named.name, named.study, dict(tables), len(same))

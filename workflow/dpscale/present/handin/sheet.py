"""A table of text: what a page shows of the assignment, and what is handed in."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class RowGroup:
    """Rows of a table that belong together, such as those of a strategy."""

    name: str
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Sheet:
    """All rows have as many cells as there are columns.

    The caption gives definitions and units, `notes` what the words in the table mean, `paragraphs` what the numbers
    say, by what it is about. `grouped_by` heads the groups' names where they stand in a column.
    """

    id: str
    title: str
    caption: str
    columns: Sequence[str] = ()
    groups: Sequence[RowGroup] = ()
    notes: Sequence[str] = ()
    paragraphs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    grouped_by: str = "Strategy"

    @property
    def rows(self) -> list[Sequence[str]]:
        """The rows of all groups, each below the name of its group."""
        return [[group.name, *row] for group in self.groups for row in group.rows]

    @property
    def headings(self) -> list[str]:
        return [self.grouped_by, *self.columns]

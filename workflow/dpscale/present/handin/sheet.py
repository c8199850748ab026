"""A table of text: what a page shows of the assignment, and what is handed in."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Sheet:
    """All rows have as many cells as there are columns; their groups are by strategy.

    The caption gives definitions and units, `notes` what the words in the table mean, `paragraphs` what the numbers
    say, by what it is about.
    """

    id: str
    title: str
    caption: str
    columns: Sequence[str]
    groups: Mapping[str, Sequence[Sequence[str]]]
    notes: Sequence[str]
    paragraphs: Mapping[str, Sequence[str]]

    @property
    def rows(self) -> list[Sequence[str]]:
        """The rows of all groups, each with the name of its group before it."""
        return [[name, *row] for name, rows in self.groups.items() for row in rows]

    @property
    def headings(self) -> list[str]:
        return ["Strategy", *self.columns]

"""The assignment's Tables 1 to 3 as figures of configurations, and their two forms: rows by batch beside columns for
every number of devices, as a page shows them, and one configuration per row, as they are handed in."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from dpscale.present.handin.cells import PrintedCell, words
from dpscale.present.handin.sentences import Paragraphs
from dpscale.present.handin.sheet import Sheet
from dpscale.present.text.words import Terms, capitalised, joined, on_nodes, rank, state
from dpscale.strategies.known import BASELINE
from dpscale.tables.column import Unit
from dpscale.tables.timing import TimesRow
from dpscale.vocabulary.states import NOT_PLANNED


class PrintedPlace(NamedTuple):
    """A configuration."""

    strategy: str
    gpus: int
    batch: int


@dataclass(frozen=True)
class Quantity:
    """What stands in a column, such as `speedup`."""

    name: str
    unit: Unit
    cells: Mapping[PrintedPlace, PrintedCell]

    @property
    def heading(self) -> str:
        """`time, s`."""
        return f"{self.name}, {self.unit.shown}"


@dataclass(frozen=True)
class Grid:
    """A table of the assignment, and what is said beside it."""

    id: str
    title: str
    caption: str
    quantities: Sequence[Quantity]
    paragraphs: Paragraphs = field(default_factory=dict)

    @property
    def spots(self) -> list[PrintedPlace]:
        """In the order in which people read them."""
        found = {spot for quantity in self.quantities for spot in quantity.cells}
        return sorted(found, key=lambda spot: (rank(spot.strategy), spot.gpus, spot.batch))

    @property
    def has_results(self) -> bool:
        """Whether anything was measured on several devices; that it tells no bandwidth is a result too."""
        cells = [cell for spot in self.spots if spot.gpus > 1 for cell in self.row(spot)]
        return any(cell.value or "not resolvable" in cell.states for cell in cells)

    def row(self, spot: PrintedPlace) -> list[PrintedCell]:
        return [quantity.cells.get(spot, PrintedCell()) for quantity in self.quantities]

    def by_configuration(self, terms: Terms) -> Sheet:
        """One row per configuration, with its state in words."""
        groups: dict[str, list[list[str]]] = {}
        for spot in self.spots:
            cells = self.row(spot)
            states = words(each for cell in cells for each in cell.states)
            row = [str(spot.gpus), f"{spot.batch:,}", *(cell.brief for cell in cells), states]
            groups.setdefault(spot.strategy, []).append(row)
        headings = [capitalised(quantity.heading) for quantity in self.quantities]
        return self._sheet([terms.heading, "Batch", *headings, "State"], groups, terms)

    def by_batch(self, times: Sequence[TimesRow], terms: Terms) -> Sheet:
        """One row per strategy and batch of `times`, with columns for every number of devices."""
        batches = sorted({row.batch_per_gpu for row in times if row.strategy == BASELINE})
        numbers = sorted({spot.gpus for spot in self.spots})
        columns = [
            (gpus, quantity)
            for gpus in numbers
            for quantity in self.quantities
            if any(spot.gpus == gpus for spot in quantity.cells)
        ]
        groups = {
            strategy: [
                [f"{batch:,}", *(_shown(quantity, strategy, gpus, batch) for gpus, quantity in columns)]
                for batch in batches
            ]
            for strategy in dict.fromkeys(spot.strategy for spot in self.spots if spot.gpus > 1)
        }
        nodes = {gpus: on_nodes(row.nodes for row in times if row.gpus == gpus) for gpus in numbers}
        headings = [f"{terms.count(gpus)}{nodes[gpus]}: {quantity.heading}" for gpus, quantity in columns]
        sheet = self._sheet([f"Batch per {terms.device}", *headings], groups, terms)
        of_two = [cell.figure.kind for spot in self.spots for cell in self.row(spot) if cell.figure.is_of_two]
        if not of_two:
            return sheet
        units = joined([state(kind) for kind in dict.fromkeys(of_two)])
        return replace(sheet, caption=f"{sheet.caption} In parentheses the values of {units}.")

    def _sheet(self, columns: Sequence[str], groups: Mapping[str, list[list[str]]], terms: Terms) -> Sheet:
        rows = (row for rows in groups.values() for row in rows)
        notes = terms.notes_of([word.rstrip(")") for cell in row for word in cell.split(", ")] for row in rows)
        has_intervals = any(cell.figure.has_interval for spot in self.spots for cell in self.row(spot))
        caption = f"{self.caption}.{' In brackets 95 % intervals.' if has_intervals else ''}"
        return Sheet(self.id, self.title, caption, columns, groups, notes, self.paragraphs)


def _shown(quantity: Quantity, strategy: str, gpus: int, batch: int) -> str:
    """The number, or the word for its absence."""
    spot = PrintedPlace(strategy if gpus > 1 else BASELINE, gpus, batch)
    cell = quantity.cells.get(spot, PrintedCell(states=(NOT_PLANNED,)))
    return cell.brief if cell.value or cell.low else words(cell.states)

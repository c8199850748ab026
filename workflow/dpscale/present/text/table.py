"""Tables as people read them: headings and cells of text, for pages, hand-ins and terminals."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from operator import attrgetter
from typing import Any, Generic, Self, TypeVar

from dpscale.formulas.figure import Figure
from dpscale.present.text.numbers import ABSENT, estimate, in_unit, printed, whole
from dpscale.present.text.words import Terms, in_order, left_out, state, states_of, text
from dpscale.tables.column import Column
from dpscale.tables.row import Row, grouped
from dpscale.tables.tables import TABLES, Tables
from dpscale.vocabulary.states import NOT_RESOLVABLE

ROWS_SHOWN = 200
_WIDE_CHARACTERS = 40
_WITH_REASON = ("ok", "no baseline", NOT_RESOLVABLE)
_TABLE_OF = {kind: name for name, kind in TABLES.items()}
_POINT = ("scope", "environment", "strategy", "gpus", "nodes", "batch_per_gpu")

R = TypeVar("R", bound=Row)
T = TypeVar("T")
Shows = TypeVar("Shows", contravariant=True)


@dataclass(frozen=True)
class ShownColumn(Generic[Shows]):
    """A heading with its unit, and what stands under it for a row of the table; of a table that has its cells already
    the heading alone."""

    heading: str
    cell: Callable[[Shows], str] = str
    is_number: bool = True


class Flagged(str):
    """The text of a cell, and a word behind it that stands out, such as the severity of a fault; "" where there is
    none."""

    __slots__ = ("flag",)
    flag: str

    @classmethod
    def of(cls, text: str, flag: str) -> Self:
        cell = cls(text)
        cell.flag = flag
        return cell


@dataclass(frozen=True)
class ShownTable:
    """A table of text: what a page, a hand-in and a terminal show.

    All rows have as many cells as there are columns. `source` is the CSV table that it is made of, where it is made of
    one, and `rows_left_out` says how many of its rows are not shown. The title is of tables that are handed in; `notes`
    say what words in the table mean, and `paragraphs` what the numbers say, by what it is about.
    """

    name: str
    caption: str
    columns: Sequence[ShownColumn[Any]]
    cells: Sequence[Sequence[str]]
    source: str = ""
    rows_left_out: int = 0
    title: str = ""
    notes: Sequence[str] = ()
    paragraphs: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def rows(self) -> list[tuple[Sequence[str], int]]:
        """The cells of every row without the dashes at its end, and how many dashes these are."""
        return [(row[: len(row) - blank], blank) for row in self.cells for blank in [_dashes_at_end(row)]]

    @property
    def groups(self) -> dict[str, list[list[str]]]:
        """The rows by their first cell, without that cell."""
        by_first = grouped(self.cells, lambda row: row[0])
        return {first: [list(row[1:]) for row in rows] for first, rows in by_first.items()}

    @property
    def css_classes(self) -> str:
        """`t2 w5`: the second column is text, the fifth text that is long. Said once a table, not once a cell."""
        named = []
        for number, column in enumerate(self.columns, start=1):
            if not column.is_number:
                is_wide = any(len(row[number - 1]) > _WIDE_CHARACTERS for row in self.cells)
                named.append(f"{'w' if is_wide else 't'}{number}")
        return " ".join(named)

    @property
    def lines(self) -> list[str]:
        """The table as a terminal shows it: headings, then rows, numbers to the right and text to the left."""
        rows = [[column.heading for column in self.columns], *self.cells]
        widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
        sides = [">" if column.is_number else "<" for column in self.columns]
        return [
            "  ".join(f"{cell:{side}{width}}" for cell, side, width in zip(row, sides, widths, strict=True)).rstrip()
            for row in rows
        ]


def _dashes_at_end(row: Sequence[str]) -> int:
    return sum(1 for _ in takewhile(lambda cell: cell == ABSENT, reversed(row)))


def table_of(
    name: str, caption: str, rows: Sequence[T], columns: Sequence[ShownColumn[T]], source: str = ""
) -> ShownTable:
    """Return the table of `rows`, of configurations in the order in which people read them."""
    ordered: Sequence[Any] = in_order(rows) if rows and _is_of_configurations(rows[0]) else rows
    cells = [[column.cell(row) for column in columns] for row in ordered[:ROWS_SHOWN]]
    return ShownTable(name, caption, columns, cells, source, left_out(rows, len(cells)))


def _is_of_configurations(row: object) -> bool:
    return all(getattr(row, name, None) for name in ("strategy", "gpus", "batch_per_gpu"))


@dataclass(frozen=True)
class TableOfRows(Generic[R]):
    """A table of the page: the columns of a table of the study that are shown there, and those of its rows.

    Columns of `lead` come first, then others that are shown, in the order of the file; a `further` table of the same
    rows has those of `lead` alone. In `lead`, `point` stands for what tells configurations apart, `where` for the
    environment where there are several, `state` for the status with a reason that is this table's own, and `outcome`
    for the status with any reason. The caption names devices and samples as labels of columns do, and says the unit
    where `units` are not in headings. `cells` writes some columns in another way; figures of `marked` have a mark where
    the printed times are of other runs. `source` is the table on disk that has all of it, by default that of the rows.
    """

    kind: type[R]
    name: str
    caption: str
    lead: Sequence[str] = ("point",)
    cells: Mapping[str, Callable[[R], str]] = field(default_factory=dict)
    rows: Callable[[Sequence[R]], Sequence[R]] = lambda rows: rows
    marked: str = ""
    units: bool = True
    source: str = ""
    further: bool = False

    def of(self, tables: Tables, terms: Terms) -> ShownTable:
        """Return the table of a study's rows."""
        return self.of_rows(getattr(tables, _TABLE_OF[self.kind]), terms)

    def of_rows(self, rows: Sequence[R], terms: Terms) -> ShownTable:
        """Return the table of these rows."""
        shown_too = () if self.further else (name for name, column in self.kind.columns().items() if column.is_shown)
        names = dict.fromkeys((*self.lead, *shown_too))
        columns = [column for name in names for column in self._columns(name, rows, terms)]
        source = self.source or _TABLE_OF[self.kind]
        return table_of(self.name, terms.filled(self.caption), self.rows(rows), columns, source)

    def _columns(self, name: str, rows: Sequence[R], terms: Terms) -> list[ShownColumn[Any]]:
        if name == "point":
            return point(self.kind, rows, terms)
        if name == "where":
            return [shown(self.kind.column("environment"), terms)] if terms.several_environments else []
        if name in _STATUS:
            return [shown(self.kind.column("status"), terms, _STATUS[name])]
        column = self.kind.column(name)
        cell = _marked(column) if name == self.marked else self.cells.get(name)
        return [shown(column, terms, cell, self.units)]


def shown(
    column: Column, terms: Terms, cell: Callable[[Any], str] | None = None, units: bool = True
) -> ShownColumn[Any]:
    """Return a column under its own label."""
    heading = terms.heading_of(column) if units else terms.filled(column.label)
    return ShownColumn(heading, cell or written(column), is_number=column.kind != "text")


def _state(row: Any) -> str:
    """Return the word for a state, with its reason only where that is this table's own: Not run has why there is no
    time."""
    return outcome(row) if row.status in _WITH_REASON else state(row.status)


def outcome(row: Any) -> str:
    """Return the word for a state, with its reason where the table has one: an `ok` can have one too."""
    return ": ".join(filter(None, (state(row.status), row.reason)))


_STATUS = {"state": _state, "outcome": outcome}


def written(column: Column, digits: int = 0) -> Callable[[Any], str]:
    """Return how the entry of a row is written: a figure with its interval, or without it with so many `digits`; other
    numbers with as many as the column has by default."""
    entry = attrgetter(column.name)
    if column.kind == "text":
        return lambda row: text(entry(row))
    if column.kind == "count":
        return lambda row: whole(entry(row))
    if column.kind == "number":
        return lambda row: in_unit(entry(row), column.unit, digits or column.digits)
    if digits:
        return lambda row: in_unit(entry(row).value, column.unit, digits)
    return lambda row: estimate(entry(row), column.unit)


def _marked(column: Column) -> Callable[[Any], str]:
    """Return how a figure is written with its mark where the printed times are of other runs."""

    def cell(row: Any) -> str:
        entry = getattr(row, column.name)
        figure = entry if isinstance(entry, Figure) else Figure(entry)
        return printed(figure, column.unit, states=states_of(row)).text

    return cell


def point(kind: type[Row], rows: Iterable[Row], terms: Terms) -> list[ShownColumn[Any]]:
    """Return the columns that tell the configurations of a table apart: the scope and the environment where there are
    several, the nodes where one has several."""
    entries = {name: {getattr(row, name) for row in rows} for name in ("scope", "nodes") if name in kind.columns()}
    differs = {
        "scope": len(entries.get("scope", ())) > 1,
        "environment": terms.several_environments,
        "nodes": any(number and number > 1 for number in entries.get("nodes", ())),
    }
    names = [name for name in _POINT if name in kind.columns() and differs.get(name, True)]
    return [shown(kind.column(name), terms) for name in names]

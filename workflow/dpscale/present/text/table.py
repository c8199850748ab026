"""Tables as people read them: headings and cells of text, for pages, hand-ins and terminals."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import attrgetter
from typing import Any, Generic, Self, TypeVar

from dpscale.formulas.figure import Figure
from dpscale.present.text.numbers import estimate, in_unit, printed, whole
from dpscale.present.text.words import Terms, capitalised, in_order, left_out, state, states_of, text
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
Shows = TypeVar("Shows", contravariant=True)


@dataclass(frozen=True)
class ShownColumn(Generic[Shows]):
    """A heading with its unit, and what stands under it for a row of the table; of a table that has its cells already
    the heading alone."""

    heading: str
    cell: Callable[[Shows], str] = str
    is_number: bool = True
    over: str = ""
    """What stands above it and the columns beside it that have the same there."""


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

    def with_legend(self) -> Self:
        """Return the table with a caption that says what brackets and parentheses of its cells mean, if it has some."""
        cells = "".join(cell for row in self.cells for cell in row)
        legend = {"[": "in brackets 95 % intervals", "(": "in parentheses two values, of two machines or two runs"}
        meanings = ", ".join(meaning for mark, meaning in legend.items() if mark in cells)
        return replace(self, caption=f"{self.caption}. {capitalised(meanings)}") if meanings else self

    @property
    def groups(self) -> dict[str, list[list[str]]]:
        """The rows by their first cell, without that cell."""
        by_first = grouped(self.cells, lambda row: row[0])
        return {first: [list(row[1:]) for row in rows] for first, rows in by_first.items()}

    @property
    def spans(self) -> list[tuple[str, int]]:
        """Return the headings above those of the columns, each with the number of columns below it."""
        return [(over, len(list(columns))) for over, columns in groupby(self.columns, lambda column: column.over)]

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


@dataclass(frozen=True)
class TableOfRows(Generic[R]):
    """A table of the page: the columns of a table of the study that are shown there, and those of its rows.

    Columns of `lead` come first, then, unless it `has_lead_alone`, others that are shown, in the order of the file. In
    `lead`, `point` stands for what tells configurations apart, and `state` for the status with a reason that is this
    table's own. The caption names devices and samples as labels of columns do. `cells` writes some columns in another
    way; figures of `marked` have a mark where the printed times are of other runs.
    """

    kind: type[R]
    name: str
    caption: str
    lead: Sequence[str] = ("point",)
    cells: Mapping[str, Callable[[R], str]] = field(default_factory=dict)
    rows: Callable[[Sequence[R]], Sequence[R]] = lambda rows: rows
    marked: str = ""
    has_lead_alone: bool = False

    def of(self, tables: Tables, terms: Terms) -> ShownTable:
        """Return the table of a study's rows, of configurations in the order in which people read them."""
        table = _TABLE_OF[self.kind]
        rows: Sequence[Any] = self.rows(getattr(tables, table))
        shown = [name for name, column in self.kind.columns().items() if column.is_shown]
        names = dict.fromkeys((*self.lead, *([] if self.has_lead_alone else shown)))
        columns = [column for name in names for column in self._columns(name, rows, terms)]
        ordered = in_order(rows) if rows and _is_of_configurations(rows[0]) else rows
        cells = [[column.cell(row) for column in columns] for row in ordered[:ROWS_SHOWN]]
        return ShownTable(self.name, terms.filled(self.caption), columns, cells, table, left_out(rows, len(cells)))

    def _columns(self, name: str, rows: Sequence[R], terms: Terms) -> list[ShownColumn[Any]]:
        if name == "point":
            return _point(self.kind, rows, terms)
        if name == "state":
            return [_shown(self.kind.column("status"), terms, _state)]
        column = self.kind.column(name)
        return [_shown(column, terms, _marked(column) if name == self.marked else self.cells.get(name))]


def _is_of_configurations(row: object) -> bool:
    return all(getattr(row, name, None) for name in ("strategy", "gpus", "batch_per_gpu"))


def _shown(column: Column, terms: Terms, cell: Callable[[Any], str] | None = None) -> ShownColumn[Any]:
    """Return a column under its own label."""
    return ShownColumn(terms.heading_of(column), cell or _written(column), is_number=column.kind != "text")


def _state(row: Any) -> str:
    """Return the word for a state, with its reason only where that is this table's own: Not run has why there is no
    time."""
    return f"{state(row.status)}: {row.reason}" if row.reason and row.status in _WITH_REASON else state(row.status)


def _written(column: Column) -> Callable[[Any], str]:
    """Return how the entry of a row is written: a figure with its interval."""
    entry = attrgetter(column.name)
    if column.kind == "text":
        return lambda row: text(entry(row))
    if column.kind == "count":
        return lambda row: whole(entry(row))
    if column.kind == "number":
        return lambda row: in_unit(entry(row), column.unit, column.digits)
    return lambda row: estimate(entry(row), column.unit)


def _marked(column: Column) -> Callable[[Any], str]:
    """Return how a figure is written with its mark where the printed times are of other runs."""

    def cell(row: Any) -> str:
        entry = getattr(row, column.name)
        figure = entry if isinstance(entry, Figure) else Figure(entry)
        return printed(figure, column.unit, states=states_of(row)).text

    return cell


def _point(kind: type[Row], rows: Iterable[Row], terms: Terms) -> list[ShownColumn[Any]]:
    """Return the columns that tell the configurations of a table apart: the scope and the environment where there are
    several, the nodes where one has several."""
    entries = {name: {getattr(row, name) for row in rows} for name in ("scope", "nodes") if name in kind.columns()}
    differs = {
        "scope": len(entries.get("scope", ())) > 1,
        "environment": terms.several_environments,
        "nodes": any(number and number > 1 for number in entries.get("nodes", ())),
    }
    return [_shown(kind.column(name), terms) for name in _POINT if name in kind.columns() and differs.get(name, True)]

"""A table as the page shows it: headings, cells of text, and a link to all of it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from operator import attrgetter
from typing import Any, Generic, TypeVar

from dpscale.present.text.downloads import csv_link
from dpscale.present.text.numbers import ABSENT, estimate, in_unit, whole
from dpscale.present.text.words import Terms, in_order, left_out, state, text
from dpscale.tables.column import Column
from dpscale.tables.row import Row
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
    """A heading with its unit, and what stands under it for a row of the table."""

    heading: str
    cell: Callable[[Shows], str]
    is_number: bool = True


@dataclass(frozen=True)
class View:
    """A table as the page shows it: text only. `source` is the CSV table it is made of; `csv_link`, a data URL of that
    in a ZIP file, is None where it is large, or where another view has it."""

    name: str
    source: str
    caption: str
    columns: Sequence[ShownColumn[Any]]
    cells: Sequence[Sequence[str]]
    rows_left_out: int
    csv_link: str | None

    @property
    def rows(self) -> list[tuple[Sequence[str], int]]:
        """The cells of every row without the dashes at its end, and how many dashes these are."""
        return [(row[: len(row) - blank], blank) for row in self.cells for blank in [_dashes_at_end(row)]]

    @property
    def css_classes(self) -> str:
        """`t2 w5`: the second column is text, the fifth text that is long. Said once a table, not once a cell."""
        named = []
        for number, column in enumerate(self.columns, start=1):
            if not column.is_number:
                is_wide = any(len(row[number - 1]) > _WIDE_CHARACTERS for row in self.cells)
                named.append(f"{'w' if is_wide else 't'}{number}")
        return " ".join(named)


def _dashes_at_end(row: Sequence[str]) -> int:
    return sum(1 for _ in takewhile(lambda cell: cell == ABSENT, reversed(row)))


def view_of(
    name: str,
    caption: str,
    rows: Sequence[T],
    columns: Sequence[ShownColumn[T]],
    source: str = "",
    all_rows: Sequence[Row] | None = None,
) -> View:
    """A view of `rows`, of configurations in the order in which people read them. The link, if any, is to `all_rows`
    of the table `source`, by default of the view's name."""
    ordered: Sequence[Any] = in_order(rows) if rows and _is_of_configurations(rows[0]) else rows
    cells = [[column.cell(row) for column in columns] for row in ordered[:ROWS_SHOWN]]
    link = None if all_rows is None else csv_link(source or name, all_rows)
    return View(name, source or name, caption, columns, cells, left_out(rows, len(cells)), link)


def _is_of_configurations(row: object) -> bool:
    return all(getattr(row, name, None) for name in ("strategy", "gpus", "batch_per_gpu"))


@dataclass(frozen=True)
class Shown(Generic[R]):
    """A table of the page: the columns of a table of the study that are shown there, and those of its rows.

    Columns of `lead` come first, then others that are shown, in the order of the file; a `further` table of the same
    rows has those of `lead` alone. In `lead`, `point` stands for what tells configurations apart, `where` for the
    environment where there are several, `state` for the status with a reason that is this table's own, and `outcome`
    for the status with any reason. The caption names devices and samples as labels of columns do, and says the unit
    where `units` are not in headings. `cells` writes some columns in another way. The link is to the whole table, or to
    the table `whole`; one of several views of a table has it.
    """

    kind: type[R]
    name: str
    caption: str
    lead: Sequence[str] = ("point",)
    cells: Mapping[str, Callable[[R], str]] = field(default_factory=dict)
    rows: Callable[[Sequence[R]], Sequence[R]] = lambda rows: rows
    units: bool = True
    links: bool = True
    whole: str = ""
    further: bool = False

    def of(self, tables: Tables, terms: Terms) -> View:
        """Of the rows of a study."""
        rows = getattr(tables, _TABLE_OF[self.kind])
        return self.view(rows, terms, getattr(tables, self.whole) if self.whole else rows)

    def view(self, rows: Sequence[R], terms: Terms, all_rows: Sequence[Row] = ()) -> View:
        """Of these rows, with a link to `all_rows`."""
        shown_too = () if self.further else (name for name, column in self.kind.columns().items() if column.is_shown)
        named = dict.fromkeys((*self.lead, *shown_too))
        columns = [column for name in named for column in self._columns(name, rows, terms)]
        source, whole = self.whole or _TABLE_OF[self.kind], all_rows if self.links else None
        return view_of(self.name, terms.filled(self.caption), self.rows(rows), columns, source, whole)

    def _columns(self, name: str, rows: Sequence[R], terms: Terms) -> list[ShownColumn[Any]]:
        if name == "point":
            return point(self.kind, rows, terms)
        if name == "where":
            return [shown(self.kind.column("environment"), terms)] if terms.several_environments else []
        if name in _STATUS:
            return [shown(self.kind.column("status"), terms, _STATUS[name])]
        return [shown(self.kind.column(name), terms, self.cells.get(name), self.units)]


def shown(
    column: Column, terms: Terms, cell: Callable[[Any], str] | None = None, units: bool = True
) -> ShownColumn[Any]:
    """A column under its own label."""
    heading = terms.heading_of(column) if units else terms.filled(column.label)
    return ShownColumn(heading, cell or written(column), is_number=column.kind != "text")


def _state(row: Any) -> str:
    """The state's word, with its reason only where that is this table's own: why there is no time is under Not run."""
    return outcome(row) if row.status in _WITH_REASON else state(row.status)


def outcome(row: Any) -> str:
    """The state's word, with its reason where the table has one: an `ok` can have one too."""
    return ": ".join(filter(None, (state(row.status), row.reason)))


_STATUS = {"state": _state, "outcome": outcome}


def written(column: Column, digits: int = 0) -> Callable[[Any], str]:
    """How the entry of a row is written: a figure with its interval, or with so many `digits` without; other numbers
    with as many as the column has by default."""
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


def point(kind: type[Row], rows: Iterable[Row], terms: Terms) -> list[ShownColumn[Any]]:
    """What tells the configurations of a table apart; the scope and the environment where there are several, the nodes
    where one has several."""
    found = {name: {getattr(row, name) for row in rows} for name in ("scope", "nodes") if name in kind.columns()}
    said = {
        "scope": len(found.get("scope", ())) > 1,
        "environment": terms.several_environments,
        "nodes": any(number and number > 1 for number in found.get("nodes", ())),
    }
    names = [name for name in _POINT if name in kind.columns() and said.get(name, True)]
    return [shown(kind.column(name), terms) for name in names]

"""A table as the page shows it: headings, cells of text, and a link to all of it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Generic, TypeVar

from dpscale.present.text.downloads import csv_link
from dpscale.present.text.numbers import ABSENT, estimate, in_unit, whole
from dpscale.present.text.words import Terms, in_order, left_out, text
from dpscale.tables.column import Column
from dpscale.tables.row import Row

ROWS_SHOWN = 200
_WIDE_CHARACTERS = 40
# Lengths of bars, in %: each has a class of its own in the style of pages, as the page's policy lets no other style in.
BAR_LENGTHS = range(0, 101, 5)
_POINT = ("scope", "environment", "strategy", "gpus", "nodes", "batch_per_gpu")

R = TypeVar("R")
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


def bar(share: float) -> str:
    """The class of a bar with the length nearest to a share of the cell."""
    nearest = min(BAR_LENGTHS, key=lambda length: abs(length - 100 * share))
    return f"bar p{nearest}"


def view_of(
    name: str,
    caption: str,
    rows: Sequence[R],
    columns: Sequence[ShownColumn[R]],
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
    return all(hasattr(row, name) for name in ("strategy", "gpus", "batch_per_gpu"))


def shown_columns(
    kind: type[Row],
    view: str,
    terms: Terms,
    first: Sequence[str] = (),
    cells: Mapping[str, Callable[[Any], str]] | None = None,
    units: bool = True,
) -> list[ShownColumn[Any]]:
    """The columns of a table, by the class of its rows, that the page's table `view` shows.

    Those of `first` come first, others in the order of the file. `cells` writes some columns in another way. Without
    `units` the caption says the unit.
    """
    described = [column for column in kind.columns().values() if view in column.views]
    place = {name: number for number, name in enumerate(first)}
    described.sort(key=lambda column: place.get(column.name, len(place)))
    return [shown(column, terms, (cells or {}).get(column.name), units) for column in described]


def shown(
    column: Column, terms: Terms, cell: Callable[[Any], str] | None = None, units: bool = True
) -> ShownColumn[Any]:
    """A column under its own label."""
    heading = terms.heading_of(column) if units else terms.label(column)
    return ShownColumn(heading, cell or written(column), is_number=column.kind != "text")


def written(column: Column, digits: int = 0) -> Callable[[Any], str]:
    """How the entry of a row is written: a figure with its interval, or with so many `digits` without; other numbers
    with as many as the column has by default."""
    name = column.name
    if column.kind == "text":
        return lambda row: text(getattr(row, name))
    if column.kind == "count":
        return lambda row: whole(getattr(row, name))
    if column.kind == "number":
        return lambda row: in_unit(getattr(row, name), column.unit, digits or column.digits)
    if digits:
        return lambda row: in_unit(getattr(row, name).value, column.unit, digits)
    return lambda row: estimate(getattr(row, name), column.unit)


def point(kind: type[Row], rows: Iterable[Row], terms: Terms, without: Sequence[str] = ()) -> list[ShownColumn[Any]]:
    """What tells the configurations of a table apart; the scope and the environment where there are several, the nodes
    where one has several."""
    found = {name: {getattr(row, name) for row in rows} for name in ("scope", "nodes") if name in kind.columns()}
    said = {
        "scope": len(found.get("scope", ())) > 1,
        "environment": terms.several_environments,
        "nodes": any(number and number > 1 for number in found.get("nodes", ())),
    }
    names = [name for name in _POINT if name in kind.columns() and name not in without and said.get(name, True)]
    return [shown(kind.column(name), terms) for name in names]

"""A table as the page shows it: headings, cells of text, and a link to all of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

import pandas as pd

from dpscale.present import words
from dpscale.present.downloads import csv_link
from dpscale.present.words import Row, Terms
from dpscale.vocabulary import quantities
from dpscale.vocabulary.quantities import Quantity, columns_of_view

ROWS_SHOWN = 200
_WIDE_CHARACTERS = 40
# Lengths of bars, in %: each has a class of its own in the style of pages, as the page's policy lets no other style in.
BAR_LENGTHS = range(0, 101, 5)

Cell = Callable[[Row], str]


@dataclass(frozen=True)
class Column:
    """A heading with its unit, and what stands under it for a row of the table."""

    heading: str
    cell: Cell
    is_number: bool = True


@dataclass(frozen=True)
class View:
    """A table as the page shows it: text only. `source` is the CSV table it is made of; `csv_link`, a data URL of that
    in a ZIP file, is None where it is large, or where another view has it."""

    name: str
    source: str
    caption: str
    columns: Sequence[Column]
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
    return sum(1 for _ in takewhile(lambda cell: cell == words.ABSENT, reversed(row)))


def bar(share: float) -> str:
    """The class of a bar with the length nearest to a share of the cell."""
    nearest = min(BAR_LENGTHS, key=lambda length: abs(length - 100 * share))
    return f"bar p{nearest}"


def view_of(
    name: str,
    caption: str,
    table: pd.DataFrame,
    columns: Sequence[Column],
    source: str = "",
    whole: pd.DataFrame | None = None,
) -> View:
    """A view of `table`. Where that is a part of the table `source`, the link, if any, is to the `whole` of it."""
    ordered = words.in_order(table) if set(words.POINT_COLUMNS) <= set(table) else table
    shown = ordered.head(ROWS_SHOWN)
    cells = [[column.cell(row) for column in columns] for row in words.rows(shown)]
    downloaded = whole if source else table
    link = None if downloaded is None else csv_link(source or name, downloaded)
    return View(name, source or name, caption, columns, cells, words.left_out(table, len(shown)), link)


def shown_columns(
    table: str,
    terms: Terms,
    view: str = "",
    first: Sequence[str] = (),
    cells: Mapping[str, Cell] | None = None,
    units: bool = True,
) -> list[Column]:
    """The columns of `table` that the page's table `view` (by default of the same name) shows.

    Those of `first` come first, others in the order of the file. `cells` writes some columns in another way. Without
    `units` the caption says the unit.
    """
    described = list(columns_of_view(view or table, table))
    place = {name: number for number, name in enumerate(first)}
    described.sort(key=lambda column: place.get(column.quantity.column, len(place)))
    return [
        column_of(column.quantity, terms, (cells or {}).get(column.quantity.column), column.has_interval, units)
        for column in described
    ]


def column_of(
    quantity: Quantity, terms: Terms, cell: Cell | None = None, has_interval: bool = False, units: bool = True
) -> Column:
    """A column under the quantity's own label."""
    heading = terms.heading_of(quantity) if units else terms.label(quantity)
    written = cell or (estimate(quantity) if has_interval else plain(quantity))
    return Column(heading, written, is_number=quantity.kind != "text")


def plain(quantity: Quantity, digits: int = 0) -> Cell:
    """How an entry without an interval is written; figures with as many `digits` as the quantity has by default."""
    name = quantity.column
    if quantity.kind == "text":
        return lambda row: words.text(row[name])
    if quantity.kind == "count":
        return lambda row: words.whole(row[name])
    return lambda row: words.in_unit(row[name], quantity.unit, digits or quantity.digits)


def estimate(quantity: Quantity) -> Cell:
    """How an entry with its interval is written."""
    return lambda row: words.estimate(row, quantity.column, quantity.unit)


def text(heading: str, name: str) -> Column:
    """A column of text that is no quantity of a table."""
    return Column(heading, lambda row: words.text(row[name]), is_number=False)


def environment(terms: Terms) -> list[Column]:
    """The environment's column, where there are several."""
    return [column_of(quantities.ENVIRONMENT, terms)] if terms.several_environments else []


def point(table: pd.DataFrame, terms: Terms, with_environment: bool = True) -> list[Column]:
    """What tells the configurations of a table apart; the scope where there are several, the nodes where one has
    several."""
    several_nodes = "nodes" in table and bool((table["nodes"] > 1).any())
    several_scopes = "scope" in table and table["scope"].nunique() > 1
    return [
        *([column_of(quantities.SCOPE, terms)] if several_scopes else []),
        *(environment(terms) if with_environment else []),
        column_of(quantities.STRATEGY, terms),
        *([column_of(quantities.GPUS, terms)] if "gpus" in table else []),
        *([column_of(quantities.NODES, terms)] if several_nodes else []),
        column_of(quantities.BATCH, terms),
    ]

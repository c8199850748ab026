"""What findings share: their form, the rows and counts of their claims, and how a figure and its place are written."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from dpscale.analyse.answer.claims import CLAIMS
from dpscale.analyse.claims import is_range
from dpscale.present import words
from dpscale.present.words import Row, Tables, Terms
from dpscale.tables.tables import Tables as TypedTables
from dpscale.vocabulary.quantities import PERCENT, quantity

_CELLS_NAMED = 6


@dataclass(frozen=True)
class Finding:
    """A sentence with its numbers, and the cells it rests on: `rows` rows of the page's table `view`."""

    sentence: str
    view: str
    rows: int
    cells: Sequence[str]

    @property
    def rests_on(self) -> str:
        """The cells, and how many more where there are too many for a line or two."""
        return words.listed(self.cells, _CELLS_NAMED, "; ")


@dataclass(frozen=True)
class Count:
    """Of how many rows something holds, and how many were asked."""

    number: int
    of: int

    def among(self, noun: str, several: str = "") -> str:
        """`8 of 40 comparisons`."""
        return f"{self.number:,} of {words.plural(self.of, noun, several)}"

    def __str__(self) -> str:
        return f"{self.number:,} of {self.of:,}"


Predicate = Callable[[Tables, Terms], Finding | None]


def finding(sentence: str, view: str, rows: Sequence[Row], terms: Terms) -> Finding:
    """A finding that rests on these rows of configurations."""
    return Finding(sentence, view, len(rows), _places(rows, terms))


def holding(tables: Tables, claim: str) -> list[Row]:
    """The rows for which a claim holds."""
    return list(CLAIMS[claim].of(_rows(tables, claim)).holding)


def asked(tables: Tables, claim: str) -> list[Row]:
    """The rows that a claim asks."""
    return list(CLAIMS[claim].of(_rows(tables, claim)).asked)


def _rows(tables: Tables, claim: str) -> Sequence[Any]:
    table = CLAIMS[claim].table
    typed = TypedTables.of({table: tables[table]} if isinstance(tables, dict) else tables)
    return list(getattr(typed, table))


def count(tables: Tables, claim: str) -> Count:
    """Of how many rows a claim holds, as the table of counts has it."""
    counts = tables["counts"]
    (row,) = words.rows(counts[counts["what"] == claim])
    return Count(int(row["number"]), int(row["of"]))


def _places(rows: Sequence[Row], terms: Terms) -> list[str]:
    """`ddp × 4 at 32, 128 (compute scope)`: batches stand together. Tables of ddp alone have no column for it."""
    batches: dict[tuple[str, str], dict[str, None]] = {}
    for row in rows:
        scope = f" ({words.scope(row['scope'])})" if "scope" in row else ""
        place = f"{row.get('strategy', 'ddp')} × {row['gpus']}", f"{scope}{terms.environment(row)}"
        batches.setdefault(place, {})[f"{int(row['batch_per_gpu']):,}"] = None
    return [f"{who} at {words.listed(list(found))}{where}" for (who, where), found in batches.items()]


def with_interval(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """The rows whose quantity `name` has a 95 % interval. The range of two runs is none."""
    known = table.dropna(subset=[name, f"{name}_low", f"{name}_high"])
    return known[pd.Series([not is_range(row, name) for row in words.rows(known)], index=known.index, dtype=bool)]


def headline(table: pd.DataFrame) -> pd.DataFrame:
    """The rows whose epochs have steps enough for findings, headings and verdict to speak of them."""
    return table[words.are_true(table["is_headline"])]


def extreme(rows: pd.DataFrame | Sequence[Row], name: str, largest: bool, by_size: bool = False) -> Row:
    """The row with the largest or smallest entry of `name`, `by_size` without its sign; of several the first."""
    known = [row for row in (words.rows(rows) if isinstance(rows, pd.DataFrame) else rows) if words.is_known(row[name])]
    return (max if largest else min)(known, key=lambda row: abs(row[name]) if by_size else row[name])


def place(row: Row, terms: Terms) -> str:
    return f"{terms.point(row)} ({words.scope(row['scope'])})"


def multiple(row: Row, name: str) -> str:
    """`2.31× [2.30, 2.32]`."""
    return with_unit(row, name)


def with_unit(row: Row, name: str, table: str = "") -> str:
    """`7.23 ms [7.20, 7.26]`: a quantity with its interval and unit."""
    return words.estimate(row, name, quantity(name, table).unit, with_unit=True)


def percent(value: float, digits: int = 3) -> str:
    """`12.5 %` of a share, without its sign."""
    return words.measured(abs(value), PERCENT, digits)

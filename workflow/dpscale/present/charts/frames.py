"""Only until every topic takes typed rows: markers and parts from pandas' tables."""

from collections.abc import Iterator, Sequence
from math import nan

import pandas as pd

from dpscale.analyse.claims import is_range
from dpscale.formulas.figure import Figure
from dpscale.present import words
from dpscale.present.charts.panel import Marker
from dpscale.present.words import Row
from dpscale.vocabulary.quantities import PLAIN, Unit


def parts(table: pd.DataFrame, columns: Sequence[str]) -> Iterator[tuple[Row, pd.DataFrame]]:
    """The table's parts that have results. Rows without a record have no environment: they belong to each."""
    ordered = words.in_order(table)
    for key in words.rows(words.ok(ordered)[list(columns)].drop_duplicates()):
        part = ordered
        for name in columns:
            same = part[name] == key[name]
            part = part[same | part[name].isna()] if name == "environment" else part[same]
        yield key, part


def points(table: pd.DataFrame, x: str, y: str, unit: Unit = PLAIN) -> list[Marker]:
    """The known values of `y` with their intervals, as `unit` shows them, by `x`."""
    known = table.dropna(subset=[y]).sort_values(x)
    return [point(row, x, y, unit) for row in words.rows(known)]


def point(row: Row, x: str, y: str, unit: Unit = PLAIN, marked: bool = True) -> Marker:
    """The value of `y` in a row with its 95 % interval, if it has one, as `unit` shows them, at the row's `x`."""
    low, high = (nan if is_range(row, y) else row.get(f"{y}{end}", nan) for end in ("_low", "_high"))
    ends = (nan if end is None else unit.of(end) for end in (low, high))
    return Marker(float(row[x]), Figure.of(unit.of(row[y]), *ends), marked)

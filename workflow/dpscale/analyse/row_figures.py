"""Figures of rows that are mappings of the file's columns. Only until all rows have fields."""

from math import isfinite, nan

from dpscale.analyse.claims import NewRow, Row, has_interval, is_known
from dpscale.formulas.figure import Figure


def figure_of(row: Row, name: str) -> Figure:
    """A figure of a row with its 95 % interval; the range of two runs is none."""
    low, high = (row[f"{name}_low"], row[f"{name}_high"]) if has_interval(row, name) else (nan, nan)
    return Figure.of(float(row[name]) if is_known(row.get(name)) else nan, float(low), float(high))


def known_columns(name: str, figure: Figure) -> NewRow:
    """A figure and its interval as columns of a table; None for what is not known."""
    ends = {"": figure.value, "_low": figure.low, "_high": figure.high}
    return {f"{name}{end}": value if isfinite(value) else None for end, value in ends.items()}

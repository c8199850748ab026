"""Figures of rows with their intervals, and what follows from two of them. Rows are mappings, as in `claims`."""

from math import isfinite, nan

import numpy as np

from dpscale.analyse.claims import NewRow, Row, has_interval, is_known
from dpscale.formulas.statistics import Bounded, SmallSample, bounded_difference, bounded_ratio

Figure = SmallSample


def figure_of(row: Row, name: str) -> Figure:
    """A figure of a row with its 95 % interval; the range of two runs is none."""
    low, high = (row[f"{name}_low"], row[f"{name}_high"]) if has_interval(row, name) else (nan, nan)
    return Figure(float(row[name]) if is_known(row.get(name)) else nan, float(low), float(high))


def known_columns(name: str, figure: Figure) -> NewRow:
    """A figure and its interval as columns of a table; None for what is not known."""
    ends = {"": figure.value, "_low": figure.low, "_high": figure.high}
    return {f"{name}{end}": value if isfinite(value) else None for end, value in ends.items()}


def _bounded(figure: Figure) -> Bounded:
    return Bounded(np.array([figure.value]), np.array([figure.low]), np.array([figure.high]))


def _of(bounded: Bounded) -> Figure:
    return Figure(float(bounded.value[0]), float(bounded.low[0]), float(bounded.high[0]))


def less(figure: Figure, other: Figure) -> Figure:
    """Of independent figures."""
    return _of(bounded_difference(_bounded(figure), _bounded(other)))


def ratio(figure: Figure, other: Figure) -> Figure:
    """Of independent figures above zero."""
    return _of(bounded_ratio(_bounded(figure), _bounded(other)))


def multiplied(figure: Figure, factor: float) -> Figure:
    """`factor` is above zero."""
    return Figure(figure.value * factor, figure.low * factor, figure.high * factor)


def plus(figure: Figure, other: Figure) -> Figure:
    negative = Figure(-other.value, -other.high, -other.low)
    return less(figure, negative)


def one_over(figure: Figure) -> Figure:
    """Of a figure above zero."""
    return Figure(1 / figure.value, 1 / figure.high, 1 / figure.low)


def one_less(figure: Figure) -> Figure:
    return Figure(1 - figure.value, 1 - figure.high, 1 - figure.low)


def share_of(cost: Figure, whole: Figure) -> Figure:
    """Of independent figures. A cost that may be nothing has no logarithm: the whole then counts as exact."""
    if cost.value <= 0 or cost.low <= 0:
        return multiplied(cost, 1 / whole.value)
    return ratio(cost, whole)

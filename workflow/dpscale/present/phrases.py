"""Phrases that findings share: which rows are compared, and how a figure and its place are written."""

import pandas as pd

from dpscale.present import words
from dpscale.present.words import Row, Words


def with_interval(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """The rows whose quantity `name` has an interval."""
    return table.dropna(subset=[name, f"{name}_low", f"{name}_high"])


def extreme(table: pd.DataFrame, name: str, largest: bool) -> Row:
    return words.rows(table.sort_values(name, ascending=not largest, kind="stable").head(1))[0]


def place(row: Row, say: Words) -> str:
    return f"{say.point(row)} ({words.scope(row['scope'])})"


def part_of(part: pd.DataFrame, whole: pd.DataFrame) -> str:
    """`8 of 40 comparisons`."""
    return f"{len(part):,} of {words.plural(len(whole), 'comparison')}"


def multiple(row: Row, name: str) -> str:
    """`2.31× [2.30, 2.32]`."""
    return words.estimate(row, name, unit="×")


def percent(value: float) -> str:
    return f"{words.figure(value * 100, 3)} %"

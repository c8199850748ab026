"""Rows as mappings: what their entries hold. Only until all rows are typed; what is claimed is in `answer.claims`."""

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

Row = Mapping[str, Any]
Rows = Mapping[str, Sequence[Row]]
NewRow = dict[str, Any]

# What a figure's columns end in: itself, and what it lies between.
ENDS = ("", "_low", "_high")


def is_known(value: Any) -> bool:
    """Whether a table's entry holds something. An infinite number is nothing either."""
    return value is not None and (not isinstance(value, float) or isfinite(value))


def is_true(value: Any) -> bool:
    """Whether an entry is a truth value that is true; files have it as text."""
    return str(value).lower() == "true"


def has_interval(row: Row, *names: str) -> bool:
    """Whether these quantities of a row have 95 % intervals. The range of two blocks is none."""
    return not any(is_range(row, name) for name in names) and all(
        is_known(row.get(f"{name}{end}")) for name in names for end in ENDS
    )


def series_of(row: Row) -> tuple[Any, ...]:
    """The series of a row: a strategy on a number of devices in an environment."""
    return row["strategy"], row["gpus"], row.get("environment")


def is_range(row: Row, name: str) -> bool:
    """Whether a quantity's low and high are the range of two blocks."""
    return has_text(row.get("ranges")) and name in str(row["ranges"]).split("; ")


def has_text(value: Any) -> bool:
    """Whether an entry is text that is not empty."""
    return is_known(value) and str(value) != ""

"""Rows of tables, picked by their fields."""

from collections.abc import Iterable
from typing import TypeVar

from dpscale.tables.row import Row

R = TypeVar("R", bound=Row)


def picked(rows: Iterable[R], **where: object) -> list[R]:
    """Those whose fields have these values."""
    return [row for row in rows if all(getattr(row, name) == value for name, value in where.items())]


def one(rows: Iterable[R], **where: object) -> R:
    """The only one."""
    (found,) = picked(rows, **where)
    return found

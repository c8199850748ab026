"""Rows of tables: read from the entries of files, and picked by their fields; and the blocks that figures are of."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from dpscale.formulas import OnServer
from dpscale.tables.row import Row
from dpscale.tables.tables import TABLES, Tables

T = TypeVar("T")
R = TypeVar("R", bound=Row)
Entries = dict[str, Any]  # of a row, as its file holds them


def picked(rows: Iterable[R], **where: object) -> list[R]:
    """Return the rows whose fields have these values."""
    return [row for row in rows if all(getattr(row, name) == value for name, value in where.items())]


def one(rows: Iterable[R], **where: object) -> R:
    """Return the only such row."""
    (row,) = picked(rows, **where)
    return row


def key(strategy: str, gpus: int, batch: int, scope: str = "compute", environment: Any = "A") -> Entries:
    """The entries of a configuration in a row's file."""
    return {
        "strategy": strategy, "gpus": gpus, "batch_per_gpu": batch, "global_batch": gpus * batch,
        "scope": scope, "environment": environment,
    }  # fmt: skip


def known(name: str, value: float, spread: float | None = 0.01) -> Entries:
    """A file's entries of a figure that is known to such a share, or without an interval."""
    if spread is None:
        return {name: value, f"{name}_low": None, f"{name}_high": None}
    return {name: value, f"{name}_low": value * (1 - spread), f"{name}_high": value * (1 + spread)}


def read_tables(entries: Mapping[str, Iterable[Any]]) -> Tables:
    """Tables of rows, or of what files hold of them; those that are not given are empty."""
    tables: dict[str, Any] = {
        name: [row if isinstance(row, Row) else TABLES[name].read(row) for row in rows]
        for name, rows in entries.items()
    }
    return Tables(**tables)


def changed(rows: Iterable[Any], where: Mapping[str, object], **values: Any) -> list[Any]:
    """Return the rows, with these values in those whose fields are as in `where`, of which there is at least one."""
    rows = list(rows)
    chosen = picked(rows, **where)
    assert chosen
    return [replace(row, **values) if row in chosen else row for row in rows]


def apart(values: Mapping[Any, T]) -> dict[OnServer, T]:
    """Every block on another server."""
    return {OnServer(str(name), number): value for number, (name, value) in enumerate(values.items(), 1)}


def together(values: Mapping[Any, T]) -> dict[OnServer, T]:
    """All blocks on one server."""
    return {OnServer(str(name), 1): value for name, value in values.items()}

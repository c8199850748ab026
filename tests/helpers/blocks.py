"""Blocks by letters, each on a server of its own, or all on one."""

from collections.abc import Mapping
from typing import TypeVar

from dpscale.formulas.figure import OnServer

T = TypeVar("T")


def apart(values: Mapping[str, T]) -> dict[OnServer, T]:
    """Every block on another server."""
    return {OnServer(name, number): value for number, (name, value) in enumerate(values.items(), 1)}


def together(values: Mapping[str, T]) -> dict[OnServer, T]:
    """All blocks on one server."""
    return {OnServer(name, 1): value for name, value in values.items()}

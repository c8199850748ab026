"""Blocks by letters, each on a server of its own, or all on one."""

from collections.abc import Mapping
from typing import Any, TypeVar

from dpscale.formulas import OnServer

T = TypeVar("T")


def apart(values: Mapping[Any, T]) -> dict[OnServer, T]:
    """Every block on another server."""
    return {OnServer(str(name), number): value for number, (name, value) in enumerate(values.items(), 1)}


def together(values: Mapping[Any, T]) -> dict[OnServer, T]:
    """All blocks on one server."""
    return {OnServer(str(name), 1): value for name, value in values.items()}

"""The answer of a study, and what it is decided of: claims, verdict, advice. Here the keys by which rows are found."""

from collections.abc import Iterable
from typing import TypeVar

from dpscale.tables.row import OfConfiguration

COMPUTE, END_TO_END = "compute", "end_to_end"
R = TypeVar("R", bound=OfConfiguration)
Configuration = tuple[str, int, int, str]


def configuration_of(row: OfConfiguration) -> Configuration:
    """Return strategy, devices, batch per device and environment of a row."""
    return row.strategy, row.gpus, row.batch_per_gpu, row.environment


def series_of(row: OfConfiguration) -> tuple[str, int, str]:
    """Return strategy, devices and environment of a row: a series has a configuration for every batch."""
    return row.strategy, row.gpus, row.environment


def of_configuration(rows: Iterable[R], like: OfConfiguration) -> list[R]:
    """Return the rows of the same configuration."""
    return [row for row in rows if configuration_of(row) == configuration_of(like)]

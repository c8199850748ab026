"""The answer of a study, and what it is decided of: claims, verdict, advice. Here the keys by which rows are found: a
series is a strategy on a number of devices in an environment, and has a configuration for every batch."""

from collections.abc import Iterable
from typing import NamedTuple, TypeVar

from dpscale.tables.row import OfConfiguration

COMPUTE, END_TO_END = "compute", "end_to_end"
R = TypeVar("R", bound=OfConfiguration)
Configuration = tuple[str, int, int, str]


class Series(NamedTuple):
    strategy: str
    gpus: int
    environment: str


def series_of(row: OfConfiguration) -> Series:
    return Series(row.strategy, row.gpus, row.environment)


def configuration_of(row: OfConfiguration) -> Configuration:
    """Return strategy, devices, batch per device and environment of a row."""
    return row.strategy, row.gpus, row.batch_per_gpu, row.environment


def of_series(rows: Iterable[R], series: Series) -> list[R]:
    """Return the rows of a series."""
    return [row for row in rows if series_of(row) == series]


def of_configuration(rows: Iterable[R], like: OfConfiguration) -> list[R]:
    """Return the rows of the same configuration."""
    return [row for row in rows if configuration_of(row) == configuration_of(like)]

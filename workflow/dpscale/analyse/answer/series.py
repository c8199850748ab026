"""Series: a strategy on a number of devices in an environment. Which rows are of one, and whether a figure rises
over it.
"""

from collections.abc import Iterable
from typing import NamedTuple, TypeVar

from dpscale.formulas.figure import Figure
from dpscale.tables.row import OfConfiguration

COMPUTE, END_TO_END = "compute", "end_to_end"


class Series(NamedTuple):
    strategy: str
    gpus: int
    environment: str


R = TypeVar("R", bound=OfConfiguration)
Configuration = tuple[str, int, int, str]


def series_of(row: OfConfiguration) -> Series:
    return Series(row.strategy, row.gpus, row.environment)


def configuration_of(row: OfConfiguration) -> Configuration:
    """A batch per device of a series."""
    return row.strategy, row.gpus, row.batch_per_gpu, row.environment


def of_series(rows: Iterable[R], series: Series) -> list[R]:
    """The rows of a series."""
    return [row for row in rows if series_of(row) == series]


def of_configuration(rows: Iterable[R], like: OfConfiguration) -> list[R]:
    """The rows of the same configuration."""
    return [row for row in rows if configuration_of(row) == configuration_of(like)]


def direction(first: Figure, last: Figure) -> str:
    """From the one to the other: `rises`, `falls` or `level`; `untold` without intervals to compare. Their intervals
    are counted by claims."""
    if not (first.has_interval and last.has_interval):
        return "untold"
    if last.exceeds(first):
        return "rises"
    return "falls" if first.exceeds(last) else "level"

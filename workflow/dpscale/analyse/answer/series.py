"""Series: a strategy on a number of devices in an environment. Which rows are of one, and where it is best."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol, TypeVar

from dpscale.formulas.figure import Figure
from dpscale.tables.timing import SpeedupRow

COMPUTE, END_TO_END = "compute", "end_to_end"


class Series(NamedTuple):
    strategy: str
    gpus: int
    environment: str


class _OfSeries(Protocol):
    @property
    def strategy(self) -> str: ...
    @property
    def gpus(self) -> int: ...
    @property
    def environment(self) -> str: ...


class OfConfiguration(_OfSeries, Protocol):
    @property
    def batch_per_gpu(self) -> int: ...


class Scoped(Protocol):
    @property
    def scope(self) -> str: ...


R = TypeVar("R", bound=_OfSeries)
Configuration = tuple[str, int, int, str]


def series_of(row: _OfSeries) -> Series:
    return Series(row.strategy, row.gpus, row.environment)


def configuration_of(row: OfConfiguration) -> Configuration:
    """A batch per device of a series."""
    return row.strategy, row.gpus, row.batch_per_gpu, row.environment


def of_series(rows: Iterable[R], series: Series | None) -> list[R]:
    """The rows of a series; of none there are none."""
    return [row for row in rows if series_of(row) == series]


def first_scope(rows: Iterable[Scoped]) -> str:
    """Compute, where there is one."""
    return min((row.scope for row in rows), default=COMPUTE)


def support(figure: Figure) -> tuple[bool, float]:
    """How well a figure is supported: by an interval or not, and its low end."""
    return figure.has_interval, figure.low if figure.has_interval else figure.value


def weak_series(speedup: Sequence[SpeedupRow]) -> dict[Series, list[SpeedupRow]]:
    """The weak speedups that speak for their configuration, of one scope."""
    weak = [row for row in speedup if row.scaling == "weak" and row.status == "ok"]
    scope = first_scope(weak)
    found: dict[Series, list[SpeedupRow]] = {}
    for row in weak:
        if row.scope == scope and row.is_headline:
            found.setdefault(series_of(row), []).append(row)
    return found

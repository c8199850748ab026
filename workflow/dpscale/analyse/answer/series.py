"""Series: a strategy on a number of devices in an environment. Which rows are of one, and where it is best."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

from dpscale.formulas.figure import Figure
from dpscale.tables.timing import SpeedupRow
from dpscale.vocabulary.states import UNDECIDED, WORTH_IT

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


def best_of(gains: Sequence[SpeedupRow]) -> SpeedupRow:
    """The batch of a series that is best supported."""
    return max(gains, key=lambda row: support(row.speedup))


@dataclass(frozen=True)
class BatchesOfSeries:
    """The weak speedups of a series in one scope, one row a batch, ascending; batches without a speedup are among
    them."""

    series: Series
    scope: str
    rows: Sequence[SpeedupRow]

    @property
    def batches(self) -> list[int]:
        return [row.batch_per_gpu for row in self.rows]

    @property
    def shown(self) -> list[SpeedupRow]:
        """Those with a speedup whose epochs have steps enough to speak of."""
        return [row for row in self.rows if row.status == "ok" and row.is_headline]

    def of(self, worth: str) -> list[SpeedupRow]:
        """The rows in this state."""
        return [row for row in self.shown if row.worth == worth]

    @property
    def best(self) -> SpeedupRow:
        """Of those shown, if any."""
        known = self.shown or [row for row in self.rows if row.status == "ok"]
        return max(known, key=lambda row: row.speedup.value)

    @property
    def rank(self) -> tuple[bool, bool, bool, int, int, float]:
        """The series that answers: one that pays, or may, on the most devices, at the most batches, by the most."""
        paying = self.of(WORTH_IT)
        states = bool(paying), bool(paying or self.of(UNDECIDED)), bool(self.shown)
        return *states, self.series.gpus, len(paying), self.best.speedup.value


Answering = tuple[BatchesOfSeries | None, list[BatchesOfSeries], BatchesOfSeries | None]


def answering(speedup: Sequence[SpeedupRow]) -> Answering:
    """The series that answers; what other strategies do on as many devices; and the same series with loading, where it
    answers without."""
    found = list(_batches_of_series(speedup))
    if not found:
        return None, [], None
    scope = first_scope(found)
    rivals = [one for one in found if one.scope == scope]
    chosen = max(rivals, key=lambda one: one.rank)
    place = chosen.series[1:]
    others = [one for one in rivals if one is not chosen and one.series[1:] == place]
    loaded = (one for one in found if one.scope != scope and one.series == chosen.series)
    return chosen, others, next(loaded, None)


def _batches_of_series(speedup: Sequence[SpeedupRow]) -> Iterator[BatchesOfSeries]:
    """Those with a speedup. Rows without a record have no environment: they belong to each."""
    weak = sorted((row for row in speedup if row.scaling == "weak"), key=lambda row: row.batch_per_gpu)
    for scope, series in dict.fromkeys((row.scope, series_of(row)) for row in weak if row.status == "ok"):
        here = (row for row in weak if (row.scope, row.strategy, row.gpus) == (scope, *series[:2]))
        yield BatchesOfSeries(series, scope, [row for row in here if row.environment in ("", series.environment)])

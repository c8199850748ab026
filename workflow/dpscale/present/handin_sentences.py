"""What the assignment's tables say: a formula with the printed numbers, the trend, the cause, and what to mind.

Which rows speak is decided here; the words are in template/handin.txt.j2.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Self, TypeVar

from dpscale.analyse.answer import COMPUTE, of_configuration, series_of
from dpscale.analyse.answer.claims import (
    BANDWIDTH_TREND,
    BELOW_THE_LINKS,
    COMMUNICATION_TREND,
    SPEEDUP_TREND,
    Trend,
)
from dpscale.errors import TableError
from dpscale.formulas.figure import Figure
from dpscale.present.findings.answer import reason
from dpscale.present.text.sentences import Paragraphs, paragraphs
from dpscale.present.text.words import Terms, headline, in_order, largest, ok, rank
from dpscale.tables.answer import CausesRow
from dpscale.tables.communication import BandwidthRow, CommunicationRow, LadderRow
from dpscale.tables.row import AGAIN, OfConfiguration, grouped
from dpscale.tables.tables import Tables
from dpscale.tables.timing import SpeedupRow, TimesRow

P = TypeVar("P", bound=OfConfiguration)
T = TypeVar("T", SpeedupRow, CommunicationRow, BandwidthRow)


class AssignmentRows(NamedTuple):
    """In the order in which people read them."""

    times: Sequence[TimesRow]
    speedup: Sequence[SpeedupRow]
    communication: Sequence[CommunicationRow]
    bandwidth: Sequence[BandwidthRow]
    ladder: Sequence[LadderRow]
    causes: Sequence[CausesRow]

    @classmethod
    def of(cls, tables: Tables) -> Self:
        rows: Any = (in_order(getattr(tables, name)) for name in cls._fields)
        return cls(*rows)

    def where(self, keep: Callable[[Any], bool]) -> Self:
        """These of them alone."""
        kept: Any = (list(filter(keep, rows)) for rows in self)
        return type(self)(*kept)

    def in_environment(self, letter: str) -> Self:
        """With those that were not measured: they are of none, and belong to each."""
        return self.where(lambda row: row.environment in ("", letter))


def of_speedup(rows: AssignmentRows, scope: str, terms: Terms) -> Paragraphs:
    """Return the sentences beside Table 1."""
    speaking = headline(ok(row for row in rows.speedup if row.scaling == "weak" and row.scope == scope))
    if not speaking:
        return {}
    row = _example(speaking)
    series = _series(speaking, row)
    causes = of_configuration(rows.causes, series[0])
    strong, weak = _strong_beside_weak(rows, scope)
    return paragraphs(
        "handin",
        "speedup",
        terms,
        row=row,
        ends=_ends(speaking, SPEEDUP_TREND),
        per_step=_paid_per_step(rows, series) if scope == COMPUTE else None,
        reasons=[
            (cause, reason(cause, terms)) for cause in causes if (cause.scope, cause.order) == (series[0].scope, 0)
        ],
        strong=strong,
        weak=weak,
        surely=_surely(strong.speedup, weak.speedup) if strong and weak else "",
        without_loading=scope == COMPUTE,
    )


def of_communication(rows: AssignmentRows, terms: Terms) -> Paragraphs:
    """Return the sentences beside Table 2."""
    speaking = headline(ok(rows.communication))
    if not speaking:
        return {}
    row = _example(speaking)
    weak = (timed for timed in rows.speedup if (timed.scaling, timed.scope) == ("weak", COMPUTE))
    timed = next(iter(of_configuration(weak, row)), None)
    if timed is None:
        raise TableError(f"speedup.csv has no row for {terms.point(row)}, as communication.csv has. {AGAIN}")
    smallest = _series(speaking, row)[0]
    return paragraphs(
        "handin",
        "communication",
        terms,
        row=row,
        timed=timed,
        ends=_ends(speaking, COMMUNICATION_TREND),
        smallest=smallest,
        rung=largest_rung(of_configuration(rows.ladder, smallest)),
    )


def of_bandwidth(bandwidth: Iterable[BandwidthRow], terms: Terms) -> Paragraphs:
    """Return the sentences beside Table 3."""
    speaking = [row for row in ok(headline(bandwidth)) if row.bandwidth_gb_s.is_known]
    if not speaking:
        return {}
    row, ends = _example(speaking), _ends(speaking, BANDWIDTH_TREND)
    return paragraphs("handin", "bandwidth", terms, row=row, ends=ends, is_below_links=BELOW_THE_LINKS.surely(row))


def largest_rung(ladder: Iterable[LadderRow]) -> LadderRow | None:
    """Return the change that adds most to a step, if there is any."""
    rungs = [rung for rung in ladder if rung.order > 0 and rung.difference_s.is_known]
    return largest(rungs, lambda rung: rung.difference_s.value) if rungs else None


def _example(rows: Sequence[P]) -> P:
    """Return the row of the largest batch, of the most devices and the last strategy."""
    return max(rows, key=lambda row: (row.gpus, rank(row.strategy), row.batch_per_gpu))


def _series(rows: Iterable[P], like: OfConfiguration) -> list[P]:
    """Return the rows of the same strategy and devices, by batch."""
    series = (row for row in rows if (row.strategy, row.gpus) == (like.strategy, like.gpus))
    return sorted(series, key=lambda row: row.batch_per_gpu)


def _ends(rows: Sequence[T], trend: Trend[T]) -> Iterator[tuple[T, T, str, Figure, Figure]]:
    """Yield for every strategy on the most devices its smallest and largest batch, how a figure goes from one to the
    other, and both figures."""
    most = max(row.gpus for row in rows)
    for series in grouped((row for row in rows if row.gpus == most), lambda row: row.strategy).values():
        first, last = series[0], series[-1]
        yield first, last, trend.way(first, last), getattr(first, trend.figure), getattr(last, trend.figure)


def _strong_beside_weak(rows: AssignmentRows, scope: str) -> tuple[SpeedupRow | None, SpeedupRow | None]:
    """Return the strong speedup of most devices, and the weak one over the same time of one device, if any."""
    known = headline(ok(row for row in rows.speedup if row.scope == scope))
    weak = {(series_of(row), row.batch_per_gpu): row for row in known if row.scaling == "weak"}
    strong = [row for row in known if row.scaling == "strong" and (series_of(row), row.global_batch) in weak]
    if not strong:
        return None, None
    row = _example(strong)
    return row, weak[series_of(row), row.global_batch]


def _surely(figure: Figure, beside: Figure) -> str:
    """Return on which side of another a figure surely is; "" where that is not sure."""
    return "lower" if beside.exceeds(figure) else "higher" if figure.exceeds(beside) else ""


def _paid_per_step(
    rows: AssignmentRows, speedups: Sequence[SpeedupRow]
) -> tuple[CommunicationRow, CommunicationRow, int | None, int | None] | None:
    """Return, where a larger batch scales better, the smallest and the largest with the steps of an epoch: fewer steps,
    each of which costs about as much more."""
    shares = _series(headline(ok(rows.communication)), speedups[0])
    if not shares or SPEEDUP_TREND.way(speedups[0], speedups[-1]) != "rises":
        return None
    first, last = shares[0], shares[-1]
    if not 0 < last.communication_share < first.communication_share:
        return None
    most, fewest = (of_configuration(ok(rows.times), end)[0].steps_per_epoch for end in (first, last))
    return first, last, most, fewest

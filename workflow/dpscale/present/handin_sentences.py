"""What the assignment's tables say: a formula with the printed numbers, the trend, the cause, and what to mind.

Which rows speak is decided here; the words are in template/handin.txt.j2.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Self, TypeVar

from dpscale.analyse.answer import COMPUTE, of_configuration
from dpscale.analyse.answer.claims import (
    BANDWIDTH_TREND,
    BELOW_THE_LINKS,
    COMMUNICATION_TREND,
    FALLS,
    RISES,
    SPEEDUP_TREND,
    STRONG_BESIDE_WEAK,
    Trend,
    strong_beside_weak,
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
    in_scope = [row for row in rows.speedup if row.scope == scope]
    pair = max(strong_beside_weak(in_scope), key=lambda strong_and_weak: _size(strong_and_weak[0]), default=None)
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
        strong_and_weak=pair,
        surely=next((side for side, claim in STRONG_BESIDE_WEAK.items() if pair and claim.surely(pair)), ""),
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
    return max(rows, key=_size)


def _size(row: OfConfiguration) -> tuple[int, int, int]:
    return row.gpus, rank(row.strategy), row.batch_per_gpu


def _series(rows: Iterable[P], like: OfConfiguration) -> list[P]:
    """Return the rows of the same strategy and devices, by batch."""
    series = (row for row in rows if (row.strategy, row.gpus) == (like.strategy, like.gpus))
    return sorted(series, key=lambda row: row.batch_per_gpu)


def _ends(rows: Sequence[T], trend: Trend[T]) -> Iterator[tuple[T, T, str, Figure, Figure]]:
    """Yield for every strategy on the most devices its smallest and largest batch, how a figure surely goes from one
    to the other, if it does, and both figures."""
    most = max(row.gpus for row in rows)
    for series in grouped((row for row in rows if row.gpus == most), lambda row: row.strategy).values():
        first, last = series[0], series[-1]
        way = trend.way(first, last)
        sure = way if way in (RISES, FALLS) else ""
        yield first, last, sure, getattr(first, trend.figure), getattr(last, trend.figure)


def _paid_per_step(
    rows: AssignmentRows, speedups: Sequence[SpeedupRow]
) -> tuple[CommunicationRow, CommunicationRow, int | None, int | None] | None:
    """Return, where a larger batch scales better, the smallest and the largest with the steps of an epoch: fewer steps,
    each of which costs about as much more."""
    shares = _series(headline(ok(rows.communication)), speedups[0])
    if not shares or SPEEDUP_TREND.way(speedups[0], speedups[-1]) != RISES:
        return None
    first, last = shares[0], shares[-1]
    if not 0 < last.communication_share < first.communication_share:
        return None
    most, fewest = (of_configuration(ok(rows.times), end)[0].steps_per_epoch for end in (first, last))
    return first, last, most, fewest

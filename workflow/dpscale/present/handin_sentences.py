"""What the assignment's tables say: a formula with the printed numbers, the trend, the cause, and what to mind."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self, TypeVar

from dpscale.analyse.answer import COMPUTE, of_configuration
from dpscale.analyse.answer.claims import (
    BANDWIDTH_TREND,
    BELOW_THE_LINKS,
    COMMUNICATION_TREND,
    SPEEDUP_TREND,
    Trend,
)
from dpscale.formulas.figure import Figure
from dpscale.present.text.numbers import estimate, measured, recomputable, whole
from dpscale.present.text.words import Terms, headline, in_order, largest, ok, rank
from dpscale.tables.column import GB_PER_S, MB, MILLISECONDS, MULTIPLES, PERCENT, SECONDS, Unit
from dpscale.tables.communication import BandwidthRow, CommunicationRow, LadderRow
from dpscale.tables.row import OfConfiguration, grouped
from dpscale.tables.tables import Tables
from dpscale.tables.timing import SpeedupRow, TimesRow

P = TypeVar("P", bound=OfConfiguration)
T = TypeVar("T", SpeedupRow, CommunicationRow, BandwidthRow)

Paragraphs = Mapping[str, Sequence[str]]
"""Sentences by what they are about: Formula, Trend, Cause, Note."""


class AssignmentRows(NamedTuple):
    """In the order in which people read them."""

    times: Sequence[TimesRow]
    speedup: Sequence[SpeedupRow]
    communication: Sequence[CommunicationRow]
    bandwidth: Sequence[BandwidthRow]
    ladder: Sequence[LadderRow]

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
    return {
        "Formula": [
            f"Speedup is T(1,b) / T(N,b): the epoch time of one {terms.device} over that of N {terms.devices}, with b "
            f"{terms.samples} per {terms.device} and step in both.",
            f"For {terms.point(row)} it is{_in_which_runs(row)} {_value(row.baseline_epoch_s, SECONDS)} / "
            f"{_value(row.epoch_s, SECONDS)} = {_value(row.speedup, MULTIPLES)}, an efficiency of "
            f"{measured(row.efficiency.value, PERCENT)}.",
        ],
        "Trend": [*_trends("The speedup", speaking, SPEEDUP_TREND, MULTIPLES, terms)],
        "Cause": [*_paid_per_step(rows, _series(speaking, row), terms)] if scope == COMPUTE else [],
        "Note": [f"Loading is {'not ' if scope == COMPUTE else ''}in these times."],
    }


def of_communication(rows: AssignmentRows, terms: Terms) -> Paragraphs:
    """Return the sentences beside Table 2."""
    speaking = headline(ok(rows.communication))
    if not speaking:
        return {}
    row = _example(speaking)
    weak = (timed for timed in rows.speedup if (timed.scaling, timed.scope) == ("weak", COMPUTE))
    timed = of_configuration(weak, row)[0]
    return {
        "Formula": [
            f"Communication is T(N,b) − T(1,b)/N: what is left of an epoch without the computation that N "
            f"{terms.devices} share equally.",
            f"For {terms.point(row)} it is{_in_which_runs(timed)} {_value(timed.epoch_s, SECONDS)} − "
            f"{_value(timed.baseline_epoch_s, SECONDS)} / {row.gpus} = {_value(row.communication_s, SECONDS)}, "
            f"{measured(row.communication_share, PERCENT)} of the epoch.",
        ],
        "Trend": [*_trends("The communication time", speaking, COMMUNICATION_TREND, SECONDS, terms)],
        "Cause": [*_where_the_time_goes(_series(speaking, row)[0], rows.ladder, terms)],
        "Note": [
            "This is inferred by subtraction, so it holds every overhead of the host too. Where an interval holds "
            "zero, there may be none.",
        ],
    }


def of_bandwidth(bandwidth: Iterable[BandwidthRow], terms: Terms) -> Paragraphs:
    """Return the sentences beside Table 3."""
    speaking = [row for row in ok(headline(bandwidth)) if row.bandwidth_gb_s.is_known]
    if not speaking:
        return {}
    row = _example(speaking)
    return {
        "Formula": [
            f"Bandwidth is the bytes that a ring allreduce sends per {terms.device} and step, times the steps, over "
            "the communication time of an epoch.",
            f"For {terms.point(row)} it is {measured(row.allreduce_bytes_per_step, MB, 4)} × "
            f"{whole(row.steps_per_epoch)} / {_value(row.communication_s, SECONDS)} = "
            f"{_value(row.bandwidth_gb_s, GB_PER_S)}.",
        ],
        "Trend": [*_trends("The bandwidth", speaking, BANDWIDTH_TREND, GB_PER_S, terms)],
        "Cause": [*_below_the_links(row, terms)],
    }


def _example(rows: Sequence[P]) -> P:
    """Return the row of the largest batch, of the most devices and the last strategy."""
    return max(rows, key=lambda row: (row.gpus, rank(row.strategy), row.batch_per_gpu))


def _series(rows: Iterable[P], like: OfConfiguration) -> list[P]:
    """Return the rows of the same strategy and devices, by batch."""
    series = (row for row in rows if (row.strategy, row.gpus) == (like.strategy, like.gpus))
    return sorted(series, key=lambda row: row.batch_per_gpu)


def _value(figure: Figure, unit: Unit) -> str:
    """`0.5898 s`, as the table prints it."""
    return f"{recomputable(figure, unit).value} {'' if unit is MULTIPLES else unit.shown}".rstrip()


def _in_which_runs(row: SpeedupRow) -> str:
    """`, in the runs that timed both,` where the times that are printed are of other runs too; otherwise nothing."""
    return ", in the runs that timed both," if row.other_runs else ""


def _trends(subject: str, rows: Sequence[T], trend: Trend[T], unit: Unit, terms: Terms) -> Iterator[str]:
    """Say for every strategy how a figure goes from the smallest to the largest batch on the most devices.

    `The speedup with ddp on 4 GPUs rises from 1.90 at batch 32 to 3.80 at batch 512.`
    """
    most = max(row.gpus for row in rows)
    for series in grouped((row for row in rows if row.gpus == most), lambda row: row.strategy).values():
        first, last = series[0], series[-1]
        before, after = (
            f"{_value(getattr(row, trend.figure), unit)} at batch {whole(row.batch_per_gpu)}" for row in (first, last)
        )
        way = trend.way(first, last)
        if way in ("rises", "falls"):
            yield f"{subject} with {terms.group(first)} {way} from {before} to {after}."
        elif first is not last:
            yield f"{subject} with {terms.group(first)} is {before} and {after}: no change is sure."


def _paid_per_step(rows: AssignmentRows, speedups: Sequence[SpeedupRow], terms: Terms) -> Iterator[str]:
    """Say why a larger batch scales better, where it does: fewer steps, each of which costs about as much more."""
    shares = _series(headline(ok(rows.communication)), speedups[0])
    if not shares or SPEEDUP_TREND.way(speedups[0], speedups[-1]) != "rises":
        return
    first, last = shares[0], shares[-1]
    if 0 < last.communication_share < first.communication_share:
        most, fewest = (whole(of_configuration(ok(rows.times), end)[0].steps_per_epoch) for end in (first, last))
        yield (
            f"An epoch has {most} steps at batch {whole(first.batch_per_gpu)} and {fewest} at "
            f"{whole(last.batch_per_gpu)}, and with {terms.group(first)} every step takes longer than on 1 "
            f"{terms.device}. What is longer takes {measured(first.communication_share, PERCENT)} of the epoch at the "
            f"smaller batch, {measured(last.communication_share, PERCENT)} at the larger."
        )


def _where_the_time_goes(row: CommunicationRow, ladder: Iterable[LadderRow], terms: Terms) -> Iterator[str]:
    """Say where the communication time goes: by intervention where that was measured, otherwise against messages."""
    point, than_one = f"With {terms.point(row)}", f"longer than on 1 {terms.device}"
    rungs = [rung for rung in of_configuration(ladder, row) if rung.order > 0 and rung.difference_s.is_known]
    if rungs:
        most = largest(rungs, lambda rung: rung.difference_s.value)
        per_step = f"{_value(most.difference_s, MILLISECONDS)} per step"
        yield f"{point}, the largest part of what makes a step {than_one} is {most.adds}, {per_step}."
    elif row.isolated_step_s.is_known and row.communication_step_s.is_known:
        longer = estimate(row.communication_step_s, MILLISECONDS, with_unit=True)
        messages = measured(row.isolated_step_s.value, MILLISECONDS)
        yield f"{point}, a step takes {longer} {than_one}, and its messages alone take {messages}."


def _below_the_links(row: BandwidthRow, terms: Terms) -> Iterator[str]:
    """Say that the links carry more than the quotient, where they surely do."""
    if BELOW_THE_LINKS.surely(row):
        yield (
            f"With nothing else running, an allreduce of the same size on {terms.count(row.gpus)} reaches a bus "
            f"bandwidth of {measured(row.bus_bandwidth_gb_s.value, GB_PER_S, 4)}: the communication time holds more "
            "than transfers."
        )

"""What the assignment's tables say: a formula with the printed numbers, the trend, the cause, and what to mind."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from dpscale.analyse.answer.claims import (
    BANDWIDTH_TREND,
    BELOW_THE_LINKS,
    COMMUNICATION_TREND,
    LONGER_THAN_MESSAGES,
    MAY_BE_NO_LONGER,
    MAY_BE_NOTHING,
    SPEEDUP_TREND,
    Trend,
)
from dpscale.analyse.answer.series import COMPUTE, END_TO_END, of_configuration
from dpscale.analyse.timing.points import HEADLINE_STEPS
from dpscale.formulas.figure import Figure
from dpscale.present.handin.rows import AssignmentRows
from dpscale.present.text.numbers import estimate, measured, recomputable, whole
from dpscale.present.text.words import Terms, headline, joined, ok, rank, state
from dpscale.tables.column import GB_PER_S, MB, MILLISECONDS, MULTIPLES, PERCENT, SECONDS, Unit
from dpscale.tables.communication import BandwidthRow, CommunicationRow, LadderRow
from dpscale.tables.row import OfConfiguration
from dpscale.tables.timing import SpeedupRow

P = TypeVar("P", bound=OfConfiguration)
T = TypeVar("T", SpeedupRow, CommunicationRow, BandwidthRow)

Paragraphs = Mapping[str, Sequence[str]]
"""Sentences by what they are about: Formula, Trend, Cause, Note."""

_WAYS = {
    "rises": "rises from {} to {}",
    "falls": "falls from {} to {}",
    "level": "is {} and {}: the two intervals overlap, so no change is shown",
    "untold": "is {} and {}: too few runs to confirm a change",
}


def of_speedup(rows: AssignmentRows, scope: str, terms: Terms) -> Paragraphs:
    """Return the sentences beside Table 1."""
    weak = ok(row for row in rows.speedup if row.scaling == "weak")
    in_scope = [row for row in weak if row.scope == scope]
    speaking = headline(in_scope)
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
        "Trend": [*_trend("The speedup", speaking, SPEEDUP_TREND, MULTIPLES, terms)],
        "Cause": [*_paid_per_step(rows, speaking, row, terms)],
        "Note": [*_loading(weak, row, scope, terms), *_few_steps(in_scope, row, terms)],
    }


def of_communication(rows: AssignmentRows, terms: Terms) -> Paragraphs:
    """Return the sentences beside Table 2."""
    speaking = headline(ok(rows.communication))
    if not speaking:
        return {}
    row = _example(speaking)
    weak = [
        speedup_row for speedup_row in rows.speedup if (speedup_row.scaling, speedup_row.scope) == ("weak", COMPUTE)
    ]
    timed = of_configuration(weak, row)[0]
    where = _in_which_runs(timed)
    zero = len(list(filter(MAY_BE_NOTHING.surely, speaking)))
    return {
        "Formula": [
            f"Communication is T(N,b) − T(1,b)/N: what is left of an epoch without the computation that N "
            f"{terms.devices} share equally.",
            f"For {terms.point(row)} it is{where} {_value(timed.epoch_s, SECONDS)} − "
            f"{_value(timed.baseline_epoch_s, SECONDS)} / {row.gpus} = {_value(row.communication_s, SECONDS)}, "
            f"{_share(row)} of the epoch.",
        ],
        "Trend": [*_trend("The communication time", speaking, COMMUNICATION_TREND, SECONDS, terms)],
        "Cause": [*_of_messages(speaking, rows.ladder, row, terms)],
        "Note": [
            "This is inferred by subtraction, so it holds every overhead of the host too.",
            *([f"In {zero} of {len(speaking)} rows the interval holds zero: there may be none."] if zero else []),
        ],
    }


def of_bandwidth(bandwidth: Iterable[BandwidthRow], terms: Terms) -> Paragraphs:
    """Return the sentences beside Table 3."""
    shown = headline(bandwidth)
    speaking = [row for row in ok(shown) if row.bandwidth_gb_s.is_known]
    notes: Paragraphs = {"Note": [*_without_bandwidth(shown)]}
    if not speaking:
        return notes
    row = _example(speaking)
    return {
        "Formula": [
            f"Bandwidth is the bytes that a ring allreduce sends per {terms.device} and step, times the steps, over "
            "the communication time of an epoch.",
            f"For {terms.point(row)} it is {measured(row.allreduce_bytes_per_step, MB, 4)} × "
            f"{whole(row.steps_per_epoch)} / {_value(row.communication_s, SECONDS)} = "
            f"{_value(row.bandwidth_gb_s, GB_PER_S)}.",
        ],
        "Trend": [*_trend("The bandwidth", speaking, BANDWIDTH_TREND, GB_PER_S, terms)],
        "Cause": [*_below_the_links(row, terms)],
        **notes,
    }


def _in_which_runs(row: SpeedupRow) -> str:
    """` in the runs that timed both`, where the times that are printed are of other runs too; otherwise nothing."""
    return ", in the runs that timed both," if row.other_runs else ""


def _value(figure: Figure, unit: Unit) -> str:
    """`0.5898 s`, as the table prints it."""
    return f"{recomputable(figure, unit).value} {'' if unit is MULTIPLES else unit.shown}".rstrip()


def _example(rows: Sequence[P]) -> P:
    """Return the row of the largest batch, of the most devices and the last strategy."""
    return max(rows, key=lambda row: (row.gpus, rank(row.strategy), row.batch_per_gpu))


def _series(rows: Iterable[P], like: OfConfiguration) -> list[P]:
    """Return the rows of the same strategy and devices, by batch."""
    series = (row for row in rows if (row.strategy, row.gpus) == (like.strategy, like.gpus))
    return sorted(series, key=lambda row: row.batch_per_gpu)


def _trend(subject: str, rows: Sequence[T], trend: Trend[T], unit: Unit, terms: Terms) -> Iterator[str]:
    """Say how a figure goes from the smallest to the largest batch on the most devices, for every strategy, with the
    batch between where it surely turns.

    `The speedup with ddp on 4 GPUs rises from 1.90 at batch 32 to 3.80 at batch 512.`
    """
    most = max(row.gpus for row in rows)
    for row in {row.strategy: row for row in rows if row.gpus == most}.values():
        series = _series(rows, row)
        first, last = series[0], series[-1]
        if first is last:
            continue

        def at(end: T) -> str:
            return f"{_value(getattr(end, trend.figure), unit)} at batch {whole(end.batch_per_gpu)}"

        turn = trend.turn(series)
        if turn is None:
            way = _WAYS[trend.way(first, last)].format(at(first), at(last))
            yield f"{subject} with {terms.group(row)} {way}."
        else:
            before, after = trend.way(first, turn), trend.way(turn, last)
            way = f"{before} from {at(first)} to {at(turn)}, and {after} to {at(last)}"
            yield f"{subject} with {terms.group(row)} {way}."


def _paid_per_step(rows: AssignmentRows, gains: Sequence[SpeedupRow], row: SpeedupRow, terms: Terms) -> Iterator[str]:
    """Say why a larger batch scales better, where it does: fewer steps, each of which costs about as much more."""
    shares = _series(headline(ok(rows.communication)), row)
    speedups = _series(gains, row)  # its own among them
    if len(shares) < 2 or row.scope != COMPUTE or SPEEDUP_TREND.way(speedups[0], speedups[-1]) != "rises":
        return
    first, last = shares[0], shares[-1]
    if not 0 < last.communication_share < first.communication_share:
        return
    most, fewest = (whole(of_configuration(ok(rows.times), end)[0].steps_per_epoch) for end in (first, last))
    yield f"An epoch has {most} steps at batch {whole(first.batch_per_gpu)} and {fewest} at " + (
        f"{whole(last.batch_per_gpu)}, and with {terms.group(row)} every step takes longer than on 1 {terms.device}."
    )
    yield f"What is longer takes {_share(first)} of the epoch at the smaller batch, {_share(last)} at the larger."


def _share(row: CommunicationRow) -> str:
    return measured(row.communication_share, PERCENT)


def _loading(speedup: Iterable[SpeedupRow], row: SpeedupRow, scope: str, terms: Terms) -> Iterator[str]:
    """Say how the DataLoader changes the example's speedup."""
    if scope != COMPUTE:
        yield "The DataLoader is in these times."
        return
    yield "Loading is not in these times."
    loaded_rows = [speedup_row for speedup_row in speedup if speedup_row.scope == END_TO_END]
    for loaded in of_configuration(loaded_rows, row):
        printed = recomputable(loaded.speedup, MULTIPLES).text
        yield f"With the DataLoader in the clock, the speedup of {terms.point(row)} is {printed}."


def _few_steps(speedup: Iterable[SpeedupRow], row: SpeedupRow, terms: Terms) -> Iterator[str]:
    """Name the rows of the table that nobody should build upon."""
    batches = sorted({few.batch_per_gpu for few in speedup if few.gpus == row.gpus and not few.is_headline})
    if batches:
        yield (
            f"On {terms.count(row.gpus)}, an epoch has fewer than {HEADLINE_STEPS} full steps at batch "
            f"{' and '.join(f'{batch:,}' for batch in batches)}: such speedups say little."
        )


def _of_messages(
    rows: Sequence[CommunicationRow], ladder: Iterable[LadderRow], row: CommunicationRow, terms: Terms
) -> Iterator[str]:
    """Say where the communication time goes: by intervention where that was measured, otherwise against messages."""
    first = _series(rows, row)[0]
    rungs = [rung for rung in of_configuration(ladder, first) if rung.order > 0 and rung.difference_s.is_known]
    if rungs:
        largest = max(rungs, key=lambda rung: rung.difference_s.value)
        yield (
            f"With {terms.point(first)}, the largest part of what makes a step longer than on 1 {terms.device} is "
            f"{largest.adds}, {_value(largest.difference_s, MILLISECONDS)} per step."
        )
    elif first.isolated_step_s.is_known and first.communication_step_s.is_known:
        longer = estimate(first.communication_step_s, MILLISECONDS, with_unit=True)
        messages = measured(first.isolated_step_s.value, MILLISECONDS)
        if MAY_BE_NO_LONGER.surely(first):
            yield (
                f"With {terms.point(first)}, it is not sure that a step takes longer than on 1 {terms.device}: the "
                f"difference is {longer}. Its messages alone take {messages}."
            )
            return
        yield (
            f"With {terms.point(first)}, a step takes {longer} longer than on 1 {terms.device}, and its messages alone "
            f"take {messages}."
        )
        if LONGER_THAN_MESSAGES.surely(first):
            yield (
                f"The rest is overhead of the host, {terms.devices} that wait, or transfers that take longer beside "
                "compute."
            )


def _without_bandwidth(rows: Sequence[BandwidthRow]) -> Iterator[str]:
    """Say in how many rows no bandwidth stands, by the word that stands in its place; the table says what that
    means."""
    lacking = [row for row in rows if not row.bandwidth_gb_s.is_known]
    if lacking:
        most_first = Counter(row.status for row in lacking).most_common()
        words = [f"{number} {state(status)}" for status, number in most_first]
        yield f"In {len(lacking)} of {len(rows)} rows no bandwidth follows: {joined(words)}."


def _below_the_links(row: BandwidthRow, terms: Terms) -> Iterator[str]:
    """Say how much the links carry, beside the bandwidth by the communication time."""
    if not row.bus_bandwidth_gb_s.is_known:
        return
    yield (
        f"With nothing else running, an allreduce of the same size on {terms.count(row.gpus)} reaches a bus bandwidth "
        f"of {measured(row.bus_bandwidth_gb_s.value, GB_PER_S, 4)}; the utilisation is "
        f"{_value(row.utilisation, PERCENT)}."
    )
    if BELOW_THE_LINKS.surely(row):
        yield "The communication time holds more than transfers, so the quotient is lower than what the links carry."

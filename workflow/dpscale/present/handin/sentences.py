"""What explains the tables to hand in: the formula with the table's numbers, the trend, the cause, and what to mind."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from dpscale.analyse.answer.claims import BELOW_THE_LINKS, LONGER_THAN_MESSAGES, MAY_BE_NOTHING
from dpscale.analyse.answer.series import COMPUTE, END_TO_END
from dpscale.analyse.answer.trend import Direction, beyond, direction
from dpscale.analyse.timing.times import HEADLINE_STEPS
from dpscale.formulas.figure import Figure
from dpscale.present.text.numbers import estimate, measured, whole
from dpscale.present.text.words import AtBatch, OnDevices, Terms, headline, in_order, listed, ok, rank
from dpscale.tables.column import GB_PER_S, MB, MILLISECONDS, MULTIPLES, PERCENT, SECONDS, Unit
from dpscale.tables.communication import BandwidthRow, CommunicationRow, LadderRow
from dpscale.tables.timing import SpeedupRow, TimesRow
from dpscale.vocabulary.states import NOT_RESOLVABLE

P = TypeVar("P", SpeedupRow, CommunicationRow, BandwidthRow)

_UNTOLD = "with too few runs to tell whether it changes"
_CHANGES = {"rises": "rises", "falls": "falls", "level": "shows no difference,"}
_BEYOND: dict[Direction, str] = {"rises": "highest", "falls": "lowest"}


def of_speedup(
    speedup: Iterable[SpeedupRow],
    communication: Sequence[CommunicationRow],
    times: Sequence[TimesRow],
    scope: str,
    terms: Terms,
) -> list[str]:
    """Below Table 1. All tables are of one environment."""
    weak = ok(row for row in speedup if row.scaling == "weak")
    here = [row for row in weak if row.scope == scope]
    known = in_order(headline(here))
    if not known:
        return []
    row = _example(known)
    return [
        f"Formula, with {terms.point(row)}, both times of the same blocks: speedup = T(1,b) / T(N,b) = "
        f"{measured(row.baseline_epoch_s, SECONDS, 4)} / {measured(row.epoch_s, SECONDS, 4)} = "
        f"{measured(row.speedup.value, MULTIPLES)}; over {terms.count(row.gpus)} that is an efficiency of "
        f"{measured(row.efficiency.value, PERCENT)}.",
        *_trend("the speedup", known, lambda row: row.speedup, MULTIPLES, terms),
        *_paid_per_step(communication, times, known, row, terms),
        *_loading(weak, row, scope),
        *_few_steps(here, row, terms),
    ]


def of_communication(communication: Iterable[CommunicationRow], ladder: Iterable[LadderRow], terms: Terms) -> list[str]:
    """Below Table 2."""
    known = in_order(headline(ok(communication)))
    if not known:
        return []
    row = _example(known)
    return [
        f"Formula, with {terms.point(row)}: communication = T(N,b) − T(1,b)/N = "
        f"{measured(row.epoch_s, SECONDS, 4)} − {measured(row.compute_s, SECONDS, 4)} = "
        f"{measured(row.communication_s.value, SECONDS, 4)}, {_share(row)} of the epoch.",
        *_trend("the communication time", known, lambda row: row.communication_s, SECONDS, terms),
        *_of_messages(known, ladder, row, terms),
        _with_zero(known, terms),
    ]


def of_bandwidth(bandwidth: Iterable[BandwidthRow], terms: Terms) -> list[str]:
    """Below Table 3."""
    shown = in_order(headline(bandwidth))
    known = [row for row in ok(shown) if row.bandwidth_gb_s.is_known]
    unresolved = [row for row in shown if row.status == NOT_RESOLVABLE]
    sentences: list[str] = []
    if known:
        row = _example(known)
        sentences = [
            f"Formula, with {terms.point(row)}: bandwidth = bytes per step × steps / communication time = "
            f"{measured(row.allreduce_bytes_per_step, MB, 4)} × {whole(row.steps_per_epoch)} / "
            f"{measured(row.communication_s.value, SECONDS, 4)} = {measured(row.bandwidth_gb_s.value, GB_PER_S, 4)}.",
            *_trend("the bandwidth", known, lambda row: row.bandwidth_gb_s, GB_PER_S, terms),
            *_below_the_links(row, terms),
        ]
    if unresolved:
        sentences.append(
            f"Not resolvable: {_listed(unresolved, terms)}. There the interval of the communication time holds zero, "
            "or there is no interval."
        )
    return sentences


def _example(rows: Sequence[P]) -> P:
    """Of the most devices and the last strategy the row of the largest batch."""
    return max(rows, key=lambda row: (row.gpus, rank(row.strategy), row.batch_per_gpu))


def _is_like(row: OnDevices, other: OnDevices) -> bool:
    """Whether they are of the same strategy and devices."""
    return (row.strategy, row.gpus) == (other.strategy, other.gpus)


def _series(rows: Iterable[P], like: OnDevices) -> list[P]:
    """The rows of the same strategy and devices, by batch."""
    return sorted((row for row in rows if _is_like(row, like)), key=lambda row: row.batch_per_gpu)


def _trend(what: str, rows: Sequence[P], figure: Callable[[P], Figure], unit: Unit, terms: Terms) -> Iterator[str]:
    """From the smallest to the largest batch on the most devices, for every strategy, with what lies beyond both."""
    most = max(row.gpus for row in rows)
    on_most = {row.strategy: row for row in rows if row.gpus == most}
    parts = [
        f"with {strategy} {_change(series, list(map(figure, series)), unit)}"
        for strategy, row in on_most.items()
        if len(series := _series(rows, row)) > 1
    ]
    if parts:
        yield f"Trend of {what} on {terms.count(most)}: {'; '.join(parts)}."


def _change(series: Sequence[AtBatch], figures: Sequence[Figure], unit: Unit) -> str:
    """`it rises from 1.9× at batch 32 to 3.8× at 512, and is highest at 128, with 3.9×`."""

    def at(place: int) -> tuple[str, str]:
        return estimate(figures[place], unit, with_unit=True), whole(series[place].batch_per_gpu)

    (first, small), (last, large) = at(0), at(-1)
    ends = f"from {first} at batch {small} to {last} at {large}"
    way = direction(figures[0], figures[-1])
    told = f"{ends}, {_UNTOLD}" if way == "untold" else f"it {_CHANGES[way]} {ends}"
    for outwards, called in _BEYOND.items():
        place = beyond(figures, outwards)
        if place is not None:
            value, batch = at(place)
            return f"{told}, and is {called} at {batch}, with {value}"
    return told


def _paid_per_step(
    communication: Iterable[CommunicationRow],
    times: Sequence[TimesRow],
    gains: Sequence[SpeedupRow],
    row: SpeedupRow,
    terms: Terms,
) -> Iterator[str]:
    """Why a larger batch scales better, where it does: fewer steps, each of which costs about as much more."""
    shares = _series(headline(ok(communication)), row)
    gained = [other.speedup for other in _series(gains, row)]  # its own among them
    if len(shares) < 2 or row.scope != COMPUTE or direction(gained[0], gained[-1]) != "rises":
        return
    first, last = shares[0], shares[-1]
    most, fewest = _steps(times, first), _steps(times, last)
    if not (0 < last.communication_share < first.communication_share and most and fewest):
        return
    yield (
        f"Cause: a larger batch needs fewer steps, {most} at batch {whole(first.batch_per_gpu)} and {fewest} "
        f"at {whole(last.batch_per_gpu)}, and every step takes longer than on 1 {terms.device}. What steps "
        f"take longer with {terms.group(row)} is {_share(first)} of the epoch at the "
        f"smaller of these batches, {_share(last)} at the larger."
    )


def _steps(times: Iterable[TimesRow], at: CommunicationRow) -> str:
    """How many steps an epoch has there, or nothing."""
    same = (row for row in ok(times) if _is_like(row, at) and row.batch_per_gpu == at.batch_per_gpu)
    return next((whole(row.steps_per_epoch) for row in same if row.steps_per_epoch is not None), "")


def _share(row: CommunicationRow) -> str:
    return measured(row.communication_share, PERCENT)


def _loading(speedup: Iterable[SpeedupRow], row: SpeedupRow, scope: str) -> Iterator[str]:
    """What the DataLoader makes of the example's speedup."""
    if scope != COMPUTE:
        yield "Mind: the DataLoader is in these times."
        return
    loaded = _series((other for other in speedup if other.scope == END_TO_END), row)
    same = [other for other in loaded if other.batch_per_gpu == row.batch_per_gpu]
    if same:
        yield (
            "Mind: loading is not in these times. With the DataLoader in the clock, the same configuration has a "
            f"speedup of {estimate(same[0].speedup, MULTIPLES, with_unit=True)}."
        )
    else:
        yield "Mind: loading is not in these times, and for this configuration it was not measured."


def _few_steps(speedup: Iterable[SpeedupRow], row: SpeedupRow, terms: Terms) -> Iterator[str]:
    """Which rows of the table nobody should build upon."""
    batches = sorted({few.batch_per_gpu for few in speedup if few.gpus == row.gpus and not few.is_headline})
    if batches:
        yield (
            f"On {terms.count(row.gpus)}, an epoch has fewer than {HEADLINE_STEPS} full steps at batch "
            f"{' and '.join(f'{batch:,}' for batch in batches)}: such speedups say little."
        )


def _of_messages(
    rows: Sequence[CommunicationRow], ladder: Iterable[LadderRow], row: CommunicationRow, terms: Terms
) -> Iterator[str]:
    """What the communication time is made of: by intervention where that was measured, otherwise against messages."""
    first = _series(rows, row)[0]
    rungs = [
        rung for rung in ladder
        if _is_like(rung, first) and rung.batch_per_gpu == first.batch_per_gpu and rung.order > 0
    ]  # fmt: skip
    if rungs:
        largest = max((rung for rung in rungs if rung.difference_s.is_known), key=lambda rung: rung.difference_s.value)
        yield (
            f"Cause, with {terms.point(first)}: of all that makes a step longer than on 1 {terms.device} alone, most "
            f"is {largest.adds} by the ladder, which has "
            f"{estimate(largest.difference_s, MILLISECONDS, with_unit=True)} of it."
        )
    elif first.isolated_step_s.is_known and first.communication_step_s.is_known:
        rest = (
            f" The rest is overhead of the host, {terms.devices} that wait, or transfers that take longer beside "
            "compute."
        )
        yield (
            f"Cause, with {terms.point(first)}: a step takes "
            f"{estimate(first.communication_step_s, MILLISECONDS, with_unit=True)} longer than on "
            f"1 {terms.device}; its messages with nothing else running take "
            f"{measured(first.isolated_step_s.value, MILLISECONDS)} (E5)."
            f"{rest if LONGER_THAN_MESSAGES.surely(first) else ''}"
        )


def _with_zero(rows: Iterable[CommunicationRow], terms: Terms) -> str:
    """Which communication times may be none, and what all of them hold."""
    holds = "Mind: inferred by subtraction, this holds every overhead of the host too."
    zero = list(filter(MAY_BE_NOTHING.surely, rows))
    return f"{holds} Its interval holds zero: {_listed(zero, terms)}." if zero else holds


def _below_the_links(row: BandwidthRow, terms: Terms) -> Iterator[str]:
    """What the links carry, beside what the communication time makes of them."""
    if not row.bus_bandwidth_gb_s.is_known:
        return
    cause = ". The communication time holds more than transfers, so the quotient is lower than what the links carry"
    yield (
        f"Cause: with nothing else running, an allreduce of the same size on {terms.count(row.gpus)} reaches a bus "
        f"bandwidth of {measured(row.bus_bandwidth_gb_s.value, GB_PER_S)}"
        f"{cause if BELOW_THE_LINKS.surely(row) else ''}."
    )


def _listed(rows: Iterable[AtBatch], terms: Terms) -> str:
    """`ddp on 2 GPUs at batch 32 and 128; dp on 4 GPUs at batch 512`."""
    batches: dict[str, list[str]] = {}
    for row in rows:
        batches.setdefault(terms.group(row), []).append(whole(row.batch_per_gpu))
    return "; ".join(f"{group} at batch {listed(of)}" for group, of in batches.items())

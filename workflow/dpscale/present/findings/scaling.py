"""What the data say of more devices: each a sentence with its numbers and the cells it rests on, or None.

A finding claims only what the 95 % intervals carry: "slower" is an interval that lies wholly below 1, and a
configuration without an interval supports no finding that compares.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from dpscale.analyse.answer.claims import (
    ABOVE_IDEAL,
    COMMUNICATION,
    DISAGREE,
    FASTER,
    LOADER_HIDES,
    NOT_TOLD_FROM_ZERO,
    SLOWER,
    STRATEGIES,
    Outcome,
)
from dpscale.analyse.timing.times import HEADLINE_STEPS
from dpscale.present.findings.finding import (
    Finding,
    all_of,
    among,
    finding,
    largest,
    multiple,
    place,
    says,
    smallest,
    where,
)
from dpscale.present.text.numbers import estimate, measured, percent, plain, whole
from dpscale.present.text.words import Terms, batches, headline, ok, scope
from dpscale.strategies.known import BASELINE
from dpscale.tables.column import GB, GB_PER_S, MULTIPLES, PERCENT
from dpscale.tables.communication import BandwidthRow, CommunicationRow
from dpscale.tables.row import Place, grouped
from dpscale.tables.tables import Tables
from dpscale.tables.timing import ScopesRow, SpeedupRow, StrategyPairsRow, TimesRow


@where(FASTER)
def largest_speedup(gains: Outcome[SpeedupRow], terms: Terms) -> Finding:
    """Weak scaling: the best configuration whose interval lies above 1."""
    best = largest(gains.holding, lambda row: row.speedup.value)
    return finding(
        f"Of epochs with {HEADLINE_STEPS} full steps, the largest weak speedup with an interval is "
        f"{multiple(best.speedup)} with {place(best, terms)}: "
        f"{_in_place_of_baseline(best)}, an efficiency of {percent(best.efficiency.value)}.",
        "speedup",
        [best],
        terms,
    )


@says(SLOWER)
def more_devices_slower(slower: Outcome[SpeedupRow], terms: Terms) -> str:
    """Weak scaling: configurations whose speedup lies wholly below 1."""
    worst = smallest(slower.holding, lambda row: row.speedup.value)
    return (
        f"More {terms.devices} are slower than 1 in {among(slower, 'comparison')} with an interval. "
        f"The worst of these is {place(worst, terms)}: {_in_place_of_baseline(worst)}, "
        f"a speedup of {multiple(worst.speedup)}."
    )


def batches_that_are_faster(tables: Tables, terms: Terms) -> Finding | None:
    """On the most devices: the batches whose speedup lies above 1, where it does not at others."""
    weak = [row for row in headline(ok(tables.speedup)) if row.scaling == "weak" and row.scope == "compute"]
    parts: list[str] = []
    rows: list[SpeedupRow] = []
    for _, series in sorted(grouped(weak, lambda row: (row.environment, row.strategy)).items()):
        most = max(row.gpus for row in series)
        here = sorted((row for row in series if row.gpus == most), key=lambda row: row.batch_per_gpu)
        faster, slower = (list(claim.of(here).holding) for claim in (FASTER, SLOWER))
        if not faster or len(faster) == len(here):
            continue
        rows = [*rows, *here]
        others = {"slower": slower, "undecided": [row for row in here if row not in faster and row not in slower]}
        rest = "".join(f", {word} at {_batches(group, here)}" for word, group in others.items() if group)
        parts.append(
            f"{faster[0].strategy} on {terms.count(most)} is faster than 1 {terms.device} at "
            f"{_batches(faster, here)} per {terms.device} ({multiple(faster[0].speedup)} at "
            f"{faster[0].batch_per_gpu:,}){terms.environment(faster[0])}{rest}"
        )
    return finding(f"In the compute scope {'; '.join(parts)}.", "speedup", rows, terms) if parts else None


def _batches(rows: Sequence[SpeedupRow], among: Sequence[SpeedupRow]) -> str:
    """`batches 512 to 8,192`."""
    chosen, all_batches = ([row.batch_per_gpu for row in group] for group in (rows, among))
    return f"{'batch' if len(chosen) == 1 else 'batches'} {batches(chosen, all_batches)}"


# Of a ratio that is largest or least.
_WAY = {"faster": "up", "slower": "down"}


def strategies_compared(tables: Tables, terms: Terms, in_scope: str) -> Finding | None:
    """Both outcomes, interval against interval: where the later strategy of the table is faster, and where it is
    slower. With the DataLoader in the clock they share it among different numbers of processes."""
    outcomes = {outcome: claim.of(tables.strategy_pairs) for outcome, claim in STRATEGIES[in_scope].items()}
    several = len({(row.strategy, row.other_strategy) for row in outcomes["faster"].asked}) > 1
    parts, compared = [], list[StrategyPairsRow]()
    for outcome, found in outcomes.items():
        if not found.holding:
            continue
        most = (largest if outcome == "faster" else smallest)(found.holding, lambda row: row.ratio)
        names = most.strategy, most.other_strategy
        named = f"The later strategy is {outcome}" if several else f"{names[0]} is {outcome} than {names[1]}"
        where = f"{terms.count(most.gpus)} {terms.at_batch(most)} ({scope(most.scope)})"
        parts.append(
            f"{named} in {among(found, 'comparison')}, {_WAY[outcome]} to {measured(most.ratio, MULTIPLES)} as fast"
            f"{_loaders(most) if in_scope == 'end_to_end' else ''}: {names[0]} takes {plain(most.epoch_s.value)} s and "
            f"{names[1]} {plain(most.other_epoch_s.value)} s per epoch on {where}"
        )
        compared = [*compared, *found.holding]
    rows = [*compared, *(replace(row, strategy=row.other_strategy) for row in compared)]
    return finding(f"{'. '.join(parts)}.", "times", rows, terms) if parts else None


def _loaders(row: StrategyPairsRow) -> str:
    """How many processes load for either, in total: with more of them, a strategy may be faster for that alone."""
    mine, others = whole(row.loader_processes), whole(row.other_loader_processes)
    return f" (DataLoader processes in total: {row.strategy} {mine}, {row.other_strategy} {others})"


@where(LOADER_HIDES)
def loader_hides_speedup(hidden: Outcome[ScopesRow], terms: Terms) -> Finding:
    """Where the speedup with the DataLoader in the clock lies wholly below the one without."""
    most = largest(hidden.holding, lambda row: row.speedup_ratio)
    return finding(
        f"The DataLoader hides speedup in {among(hidden, 'comparison')}: "
        f"{terms.point(most)} has {multiple(most.speedup)} without it in the clock and "
        f"{measured(most.end_to_end_speedup.value, MULTIPLES)} with it.",
        "speedup",
        [Place(**row.point, scope=name) for name in ("compute", "end_to_end") for row in hidden.holding],
        terms,
    )


@where(COMMUNICATION)
def largest_communication_share(resolved: Outcome[CommunicationRow], terms: Terms) -> Finding:
    """The configuration that loses most of its epoch to what is not compute, where that is resolved."""
    most = largest(resolved.holding, lambda row: row.communication_share)
    return finding(
        f"Communication and overhead, inferred by subtraction, take up to "
        f"{percent(most.communication_share)} of the epoch: {plain(most.communication_s.value)} s "
        f"of {plain(most.epoch_s)} s with {terms.point(most)}.",
        "communication",
        [most],
        terms,
    )


def inferred_bandwidth(tables: Tables, terms: Terms) -> Finding | None:
    """The range of the inferred bandwidth where it is resolvable."""
    resolved = headline(ok(tables.bandwidth))
    if len(resolved) < 2:
        return None
    ends = [choose(resolved, lambda row: row.bandwidth_gb_s.value) for choose in (smallest, largest)]
    low, high = (f"{measured(row.bandwidth_gb_s.value, GB_PER_S)} ({terms.point(row)})" for row in ends)
    return finding(f"The inferred bandwidth lies between {low} and {high}.", "bandwidth", ends, terms)


@says(NOT_TOLD_FROM_ZERO)
def bandwidth_not_resolvable(unresolved: Outcome[BandwidthRow], terms: Terms) -> str:
    """How often the communication time cannot be told from zero."""
    return (
        f"Bandwidth is not resolvable in {among(unresolved, 'comparison')} with an interval: that of the "
        "communication time is not wholly above zero."
    )


@says(DISAGREE)
def two_ways_disagree(apart: Outcome[SpeedupRow], terms: Terms) -> str:
    """Where speedup from epoch times and from step times, which should be equal, have disjoint intervals."""
    most = largest(apart.holding, lambda row: row.steps_disagree_by)
    return (
        f"Speedups from epoch times and from step times disagree in {among(apart, 'comparison')}, by "
        f"{percent(most.steps_disagree_by)} at most: {multiple(most.speedup)} and "
        f"{multiple(most.speedup_from_steps)} with {place(most, terms)}."
    )


@says(ABOVE_IDEAL)
def faster_than_ideal(above: Outcome[SpeedupRow], terms: Terms) -> str:
    """Efficiency wholly above 100 %: rarely true, more often a sign that the baseline is too slow."""
    most = largest(above.holding, lambda row: row.efficiency.value)
    return (
        f"Efficiency lies above 100 % in {among(above, 'comparison')}, which asks for an explanation: "
        f"{estimate(most.efficiency, PERCENT, with_unit=True)} with {place(most, terms)}, {most.scaling} scaling."
    )


def strong_scaling(tables: Tables, terms: Terms) -> Finding | None:
    """Strong scaling: the best configuration, whether it gains or not."""
    strong = (row for row in headline(ok(tables.speedup)) if row.scaling == "strong")
    compared = [row for row in strong if row.speedup.has_interval]
    if not compared:
        return None
    best = largest(compared, lambda row: row.speedup.value)
    return finding(
        "With the global batch held fixed (strong scaling) the best speedup with an interval is "
        f"{multiple(best.speedup)}, at global batch {best.global_batch:,} with {place(best, terms)}.",
        "speedup",
        [best],
        terms,
    )


def memory_ends(tables: Tables, terms: Terms) -> Finding | None:
    """The largest batch that one device holds, where a larger one ran out of memory."""
    parts: list[str] = []
    rows: list[TimesRow] = []
    alone = [row for row in tables.times if row.strategy == BASELINE and row.environment]
    for _, here in sorted(grouped(alone, lambda row: row.environment).items()):
        # A batch at which some runs ran out of memory is not held.
        fits = [row for row in ok(here) if "out of memory" not in row.reason]
        most = max(fits, key=lambda row: row.batch_per_gpu, default=None)
        ended = [row for row in here if row.status == "oom" and most and row.batch_per_gpu > most.batch_per_gpu]
        if most is None or not ended:
            continue
        least = min(ended, key=lambda row: row.batch_per_gpu)
        rows = [*rows, most, least]
        peak = most.peak_memory_bytes
        used = f" (peak {measured(peak, GB)})" if peak == peak else ""
        parts.append(
            f"1 {terms.device} holds a batch of {most.batch_per_gpu:,} {terms.samples}{used} "
            f"and runs out of memory at {least.batch_per_gpu:,}{terms.environment(most)}"
        )
    return finding(f"Memory ends the series: {'; '.join(parts)}.", "times", rows, terms) if parts else None


def _in_place_of_baseline(row: SpeedupRow) -> str:
    return f"{plain(row.epoch_s)} s per epoch in place of {plain(row.baseline_epoch_s)} s"


scaling_findings = all_of(
    largest_speedup, more_devices_slower, batches_that_are_faster,
    partial(strategies_compared, in_scope="compute"), partial(strategies_compared, in_scope="end_to_end"),
    loader_hides_speedup, strong_scaling, largest_communication_share, inferred_bandwidth, bandwidth_not_resolvable,
    two_ways_disagree, faster_than_ideal, memory_ends,
)  # fmt: skip

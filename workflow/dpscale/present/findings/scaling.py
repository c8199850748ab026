"""What the data say of more devices: each a sentence with its numbers and the cells it rests on, or None.

A finding claims only what the 95 % intervals carry: "slower" is an interval that lies wholly below 1, and a
configuration without an interval supports no finding that compares.
"""

from functools import partial
from itertools import product

from dpscale.analyse.answer.claims import (
    ABOVE_IDEAL,
    COMMUNICATION,
    DISAGREE,
    LOADER_HIDES,
    NOT_TOLD_FROM_ZERO,
    SHARDED_FOR_NOTHING,
    SLOWER,
    STRATEGIES,
    Outcome,
)
from dpscale.present.findings.finding import (
    Finding,
    all_of,
    among,
    largest,
    multiple,
    place,
    says,
    smallest,
    where,
)
from dpscale.present.text.numbers import brief, estimate, measured, percent, plain, whole
from dpscale.present.text.words import Terms, headline, in_order, joined, ok
from dpscale.tables.column import GB, MULTIPLES, PERCENT
from dpscale.tables.communication import BandwidthRow, CommunicationRow
from dpscale.tables.row import grouped
from dpscale.tables.tables import Tables
from dpscale.tables.timing import ScopesRow, SpeedupRow, StrategyPairsRow


def best_batches(tables: Tables, terms: Terms) -> Finding | None:
    """Of the answer's strategy on every number of devices the batch that gains most, where it was chosen from several
    and its interval allows for that."""
    rows = [row for row in tables.answer if (row.chosen_from or 1) > 1 and row.best_speedup.has_interval]
    if not rows:
        return None
    told = [f"{multiple(row.best_speedup)} on {terms.count(row.gpus)}, at {row.best_batch_per_gpu:,}" for row in rows]
    named = f"Best batch per {terms.device} with {rows[0].strategy}: {joined(told)}"
    return Finding(f"{named}. The intervals allow for the choice.", "speedup")


@says(SLOWER)
def more_devices_slower(slower: Outcome[SpeedupRow], terms: Terms) -> str:
    """Weak scaling: configurations whose speedup lies wholly below 1."""
    worst = smallest(slower.holding, lambda row: row.speedup.value)
    return (
        f"More {terms.devices} are slower than 1 in {among(slower, 'comparison')}. "
        f"The worst is {place(worst, terms)}: {multiple(worst.speedup)}."
    )


def strategies_compared(tables: Tables, terms: Terms, in_scope: str) -> Finding | None:
    """Both outcomes, interval against interval: where the later strategy of the table is faster, and where it is
    slower. With the DataLoader in the clock they share it among different numbers of processes."""
    pairs = grouped(tables.strategy_pairs, lambda row: (row.strategy, row.other_strategy)).values()
    parts = []
    for rows, (outcome, claim) in product(pairs, STRATEGIES[in_scope].items()):
        if (found := claim.of(rows)).holding:
            most = (largest if outcome == "faster" else smallest)(found.holding, lambda row: row.ratio)
            one, other = most.strategy, most.other_strategy
            seconds = f"{plain(most.epoch_s.value, 3)} and {plain(most.other_epoch_s.value, 3)} s per epoch"
            loaded = in_scope == "end_to_end"
            parts.append(
                f"{'With data loading, ' if loaded else ''}{one} is {outcome} than {other} in "
                f"{among(found, 'comparison')}. The largest difference is {seconds}, on {terms.count(most.gpus)} "
                f"{terms.at_batch(most)}{_loaders(most) if loaded else ''}"
            )
    return Finding(f"{'. '.join(parts)}.", "times") if parts else None


def _loaders(row: StrategyPairsRow) -> str:
    """How many processes load for either, in total: with more of them, a strategy may be faster for that alone."""
    return f", with {whole(row.loader_processes)} and {whole(row.other_loader_processes)} loader processes"


@says(SHARDED_FOR_NOTHING, "times")
def sharded_for_nothing(faster: Outcome[StrategyPairsRow], terms: Terms) -> str:
    """Where whole weights fit, and are faster than shards: what these are for is not needed."""
    row = max(faster.holding, key=lambda row: row.batch_per_gpu)
    one, other = (measured(peak, GB) for peak in (row.peak_memory_bytes, row.other_peak_memory_bytes))
    # torch counts it on GPUs alone.
    memory = f" {terms.at_batch(row)} ({one}, {row.other_strategy} {other})" if row.peak_memory_bytes > 0 else ""
    return (
        f"Memory is no reason for {row.other_strategy} in {among(faster, 'comparison')}: {row.strategy} fits{memory}, "
        "and is faster."
    )


@where(LOADER_HIDES)
def loader_hides_speedup(hidden: Outcome[ScopesRow], terms: Terms) -> Finding:
    """Where the speedup with the DataLoader in the clock lies wholly below the one without."""
    most = largest(hidden.holding, lambda row: row.speedup_ratio)
    return Finding(
        f"Data loading hides speedup in {among(hidden, 'comparison')}: {terms.point(most)} has "
        f"{multiple(most.speedup)} without it and {measured(most.end_to_end_speedup.value, MULTIPLES)} with it.",
        "speedup",
    )


@where(COMMUNICATION)
def largest_communication_share(resolved: Outcome[CommunicationRow], terms: Terms) -> Finding:
    """The configuration that loses most of its epoch to what is not compute, where that is resolved."""
    most = largest(resolved.holding, lambda row: row.communication_share)
    return Finding(
        f"Communication time is surely above zero in {among(resolved, 'configuration')}. Of these it takes most with "
        f"{terms.point(most)}: {percent(most.communication_share)} of the epoch.",
        "communication",
    )


@says(NOT_TOLD_FROM_ZERO)
def bandwidth_not_resolvable(unresolved: Outcome[BandwidthRow], terms: Terms) -> str:
    """How often the communication time cannot be told from zero."""
    return f"Bandwidth is not resolvable in {among(unresolved, 'comparison')}: the communication time may be zero."


@says(DISAGREE)
def two_ways_disagree(apart: Outcome[SpeedupRow], terms: Terms) -> str:
    """Where speedup from epoch times and from step times, which should be equal, have disjoint intervals."""
    most = largest(apart.holding, lambda row: row.steps_disagree_by)
    return (
        f"Speedups from epochs and from steps disagree in {among(apart, 'comparison')}, most with "
        f"{place(most, terms)}: {multiple(most.speedup)} and {multiple(most.speedup_from_steps)}."
    )


@says(ABOVE_IDEAL)
def faster_than_ideal(above: Outcome[SpeedupRow], terms: Terms) -> str:
    """Efficiency wholly above 100 %: rarely true, more often a sign that the baseline is too slow."""
    most = largest(above.holding, lambda row: row.efficiency.value)
    return (
        f"Efficiency is above 100 % in {among(above, 'comparison')}, which is seldom true: "
        f"{estimate(most.efficiency, PERCENT, with_unit=True)} with {place(most, terms)}, {most.scaling} scaling."
    )


def strong_scaling(tables: Tables, terms: Terms) -> Finding | None:
    """On the most devices at the largest global batch, whatever it gains."""
    strong = [row for row in headline(ok(tables.speedup)) if row.scaling == "strong"]
    if not strong:
        return None
    row = in_order(sorted(strong, key=lambda row: (row.global_batch, row.gpus)))[-1]
    return Finding(
        f"With the global batch held at {row.global_batch:,} (strong scaling), {terms.count(row.gpus)} with "
        f"{row.strategy} are {brief(row.speedup, MULTIPLES)} times as fast as 1.",
        "speedup",
    )


scaling_findings = all_of(
    best_batches, more_devices_slower,
    partial(strategies_compared, in_scope="compute"), partial(strategies_compared, in_scope="end_to_end"),
    sharded_for_nothing,
    loader_hides_speedup, strong_scaling, largest_communication_share, bandwidth_not_resolvable,
    two_ways_disagree, faster_than_ideal,
)  # fmt: skip

"""What the data say: predicates over the tables, each a sentence with its numbers and the cells it rests on, or None.

A finding claims only what the 95 % intervals carry: "slower" is an interval that lies wholly below 1, and a
configuration without an interval supports no finding that compares.
"""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from dpscale.analyse.claims import has_interval
from dpscale.analyse.timing.times import HEADLINE_STEPS
from dpscale.present import words
from dpscale.present.communication_findings import (
    communication_is_waiting,
    critical_batch_checked,
    estimates_agree,
    forecast_scored,
    host_leaves_devices_idle,
    measuring_communication_costs,
    parts_make_the_step,
    profiler_slows,
    published_scaling_scored,
    subtraction_is_not_communication,
)
from dpscale.present.finding import (
    Finding,
    Predicate,
    asked,
    count,
    extreme,
    finding,
    headline,
    holding,
    multiple,
    percent,
    place,
    with_interval,
    with_unit,
)
from dpscale.present.findings.training import training_findings
from dpscale.present.findings.variants import variant_findings
from dpscale.present.words import Row, Tables, Terms
from dpscale.tables.tables import Tables as TypedTables
from dpscale.vocabulary.quantities import SPEEDUP, quantity


def findings(tables: Tables, terms: Terms) -> list[Finding]:
    """What these tables make true."""
    typed = TypedTables.of(tables)
    found: list[Any] = [
        *(predicate(tables, terms) for predicate in FINDINGS),
        *variant_findings(typed, terms),
        *(predicate(tables, terms) for predicate in OF_COMMUNICATION),
        *training_findings(typed, terms),
    ]
    return [finding for finding in found if finding]


# The section of the page that a finding on a table stands in, beside its chart.
_SECTIONS = {
    "speedup": "speedup", "times": "times", "communication": "communication", "ladder": "communication",
    "estimates": "estimates", "bandwidth": "bandwidth", "variants": "variants", "training_summary": "training",
    "held_out": "forecast",
}  # fmt: skip


def key_findings(found: Sequence[Finding]) -> dict[str, list[Finding]]:
    """The first finding of every section; the others are in an appendix."""
    first: dict[str, list[Finding]] = {}
    for one in found:
        if one.view in _SECTIONS:
            first.setdefault(_SECTIONS[one.view], [one])
    return first


def largest_speedup(tables: Tables, terms: Terms) -> Finding | None:
    """Weak scaling: the best configuration whose interval lies above 1."""
    gains = with_interval(_scaling(tables, "weak"), "speedup")
    gains = gains[gains["speedup_low"] > 1]
    if gains.empty:
        return None
    best = extreme(gains, "speedup", largest=True)
    return finding(
        f"Of epochs with {HEADLINE_STEPS} full steps, the largest weak speedup with an interval is "
        f"{multiple(best, 'speedup')} with {place(best, terms)}: "
        f"{_in_place_of_baseline(best)}, an efficiency of {percent(best['efficiency'])}.",
        "speedup",
        [best],
        terms,
    )


def more_devices_slower(tables: Tables, terms: Terms) -> Finding | None:
    """Weak scaling: configurations whose speedup lies wholly below 1."""
    claim = "more devices are slower"
    slower = holding(tables, claim)
    if not slower:
        return None
    worst = extreme(slower, "speedup", largest=False)
    return finding(
        f"More {terms.devices} are slower than 1 in {count(tables, claim).among('comparison')} with an interval. "
        f"The worst of these is {place(worst, terms)}: {_in_place_of_baseline(worst)}, "
        f"a speedup of {multiple(worst, 'speedup')}.",
        "speedup",
        slower,
        terms,
    )


def batches_that_are_faster(tables: Tables, terms: Terms) -> Finding | None:
    """On the most devices: the batches whose speedup lies above 1, where it does not at others."""
    compared = _scaling(tables, "weak")
    compared = compared[compared["scope"] == "compute"]
    parts: list[str] = []
    rows: list[Row] = []
    for _, series in compared.groupby(["environment", "strategy"], dropna=False):
        largest = words.rows(series[series["gpus"] == series["gpus"].max()].sort_values("batch_per_gpu"))
        faster = [row for row in largest if has_interval(row, "speedup") and row["speedup_low"] > 1]
        slower = [row for row in largest if has_interval(row, "speedup") and row["speedup_high"] < 1]
        undecided = [row for row in largest if row not in faster and row not in slower]
        if not faster or len(faster) == len(largest):
            continue
        rows = [*rows, *largest]
        first = faster[0]
        others = {"slower": slower, "undecided": undecided}
        rest = "".join(f", {word} at {_batches(group, largest)}" for word, group in others.items() if group)
        parts.append(
            f"{first['strategy']} on {terms.count(first['gpus'])} is faster than 1 {terms.device} at "
            f"{_batches(faster, largest)} per {terms.device} ({multiple(first, 'speedup')} at "
            f"{first['batch_per_gpu']:,}){terms.environment(first)}{rest}"
        )
    return finding(f"In the compute scope {'; '.join(parts)}.", "speedup", rows, terms) if parts else None


def _batches(rows: Sequence[Row], among: Sequence[Row]) -> str:
    """`batches 512 to 8,192`."""
    chosen, all_batches = ([int(row["batch_per_gpu"]) for row in group] for group in (rows, among))
    return f"{'batch' if len(chosen) == 1 else 'batches'} {words.batches(chosen, all_batches)}"


def ddp_against_dp(tables: Tables, terms: Terms) -> Finding | None:
    """Where the epoch of one strategy is shorter than another's, interval against interval, in the same place."""
    return _strategies_compared("", tables, terms)


def ddp_against_dp_with_loading(tables: Tables, terms: Terms) -> Finding | None:
    """The same with the DataLoader in the clock, which strategies share among different numbers of processes."""
    return _strategies_compared(" with loading", tables, terms)


# Of a ratio that is largest or least.
_WAY = {"faster": "up", "slower": "down"}


def _strategies_compared(with_loading: str, tables: Tables, terms: Terms) -> Finding | None:
    """Both outcomes: where the later strategy of the table is faster, and where it is slower."""
    claims = {outcome: f"one strategy is {outcome}{with_loading}" for outcome in ("faster", "slower")}
    found = {outcome: rows for outcome, claim in claims.items() if (rows := holding(tables, claim))}
    if not found:
        return None
    pairs = {(row["strategy"], row["other_strategy"]) for row in asked(tables, claims["faster"])}
    parts = []
    for outcome, rows in found.items():
        most = extreme(rows, "ratio", largest=outcome == "faster")
        names = most["strategy"], most["other_strategy"]
        named = f"{names[0]} is {outcome} than {names[1]}" if len(pairs) == 1 else f"The later strategy is {outcome}"
        ratio = words.measured(most["ratio"], quantity("ratio").unit)
        where = f"{terms.count(int(most['gpus']))} {terms.at_batch(most)} ({words.scope(most['scope'])})"
        parts.append(
            f"{named} in {count(tables, claims[outcome]).among('comparison')}, {_WAY[outcome]} to {ratio} as fast"
            f"{_loaders(most) if with_loading else ''}: {names[0]} takes {words.figure(most['epoch_s'])} s and "
            f"{names[1]} {words.figure(most['other_epoch_s'])} s per epoch on {where}"
        )
    compared = [row for rows in found.values() for row in rows]
    return finding(
        f"{'. '.join(parts)}.",
        "times",
        [{**row, "strategy": row[name]} for name in ("strategy", "other_strategy") for row in compared],
        terms,
    )


def _loaders(row: Row) -> str:
    """How many processes load for either, in total: with more of them, a strategy may be faster for that alone."""
    mine, others = (words.whole(row[name]) for name in ("loader_processes", "other_loader_processes"))
    return f" (DataLoader processes in total: {row['strategy']} {mine}, {row['other_strategy']} {others})"


def loader_hides_speedup(tables: Tables, terms: Terms) -> Finding | None:
    """Where the speedup with the DataLoader in the clock lies wholly below the one without."""
    claim = "the DataLoader hides speedup"
    hidden = holding(tables, claim)
    if not hidden:
        return None
    most = extreme(hidden, "speedup_ratio", largest=True)
    return finding(
        f"The DataLoader hides speedup in {count(tables, claim).among('comparison')}: "
        f"{terms.point(most)} has {multiple(most, 'speedup')} without it in the clock and "
        f"{words.measured(most['end_to_end_speedup'], SPEEDUP.unit)} with it.",
        "speedup",
        [{**row, "scope": scope} for scope in ("compute", "end_to_end") for row in hidden],
        terms,
    )


def largest_communication_share(tables: Tables, terms: Terms) -> Finding | None:
    """The configuration that loses most of its epoch to what is not compute, where that is resolved."""
    resolved = with_interval(headline(words.ok(tables["communication"])), "communication_s")
    resolved = resolved[resolved["communication_s_low"] > 0]
    if resolved.empty:
        return None
    most = extreme(resolved, "communication_share", largest=True)
    return finding(
        f"Communication and overhead, inferred by subtraction, take up to "
        f"{percent(most['communication_share'])} of the epoch: {words.figure(most['communication_s'])} s "
        f"of {words.figure(most['epoch_s'])} s with {terms.point(most)}.",
        "communication",
        [most],
        terms,
    )


def inferred_bandwidth(tables: Tables, terms: Terms) -> Finding | None:
    """The range of the inferred bandwidth where it is resolvable."""
    resolved = headline(words.ok(tables["bandwidth"]))
    if len(resolved) < 2:
        return None
    low, high = (extreme(resolved, "bandwidth_gb_s", largest) for largest in (False, True))
    lowest, highest = (f"{words.figure(row['bandwidth_gb_s'], 3)} GB/s ({terms.point(row)})" for row in (low, high))
    sentence = f"The inferred bandwidth lies between {lowest} and {highest}."
    return finding(sentence, "bandwidth", [low, high], terms)


def bandwidth_not_resolvable(tables: Tables, terms: Terms) -> Finding | None:
    """How often the communication time cannot be told from zero."""
    claim = "bandwidth is not resolvable"
    unresolved = holding(tables, claim)
    if not unresolved:
        return None
    return finding(
        f"Bandwidth is not resolvable in {count(tables, claim).among('comparison')} with an interval: that of the "
        "communication time is not wholly above zero.",
        "bandwidth",
        unresolved,
        terms,
    )


def two_ways_disagree(tables: Tables, terms: Terms) -> Finding | None:
    """Where speedup from epoch times and from step times, which should be equal, have disjoint intervals."""
    claim = "epochs and steps disagree"
    apart = holding(tables, claim)
    if not apart:
        return None
    most = extreme(apart, "steps_disagree_by", largest=True)
    return finding(
        f"Speedups from epoch times and from step times disagree in {count(tables, claim).among('comparison')}, by "
        f"{percent(most['steps_disagree_by'])} at most: {multiple(most, 'speedup')} and "
        f"{multiple(most, 'speedup_from_steps')} with {place(most, terms)}.",
        "speedup",
        apart,
        terms,
    )


def faster_than_ideal(tables: Tables, terms: Terms) -> Finding | None:
    """Efficiency wholly above 100 %: rarely true, more often a sign that the baseline is too slow."""
    claim = "efficiency is above 100 %"
    above = holding(tables, claim)
    if not above:
        return None
    most = extreme(above, "efficiency", largest=True)
    return finding(
        f"Efficiency lies above 100 % in {count(tables, claim).among('comparison')}, which asks for an explanation: "
        f"{with_unit(most, 'efficiency')} with {place(most, terms)}, {most['scaling']} scaling.",
        "speedup",
        above,
        terms,
    )


def strong_scaling(tables: Tables, terms: Terms) -> Finding | None:
    """Strong scaling: the best configuration, whether it gains or not."""
    compared = with_interval(_scaling(tables, "strong"), "speedup")
    if compared.empty:
        return None
    best = extreme(compared, "speedup", largest=True)
    return finding(
        "With the global batch held fixed (strong scaling) the best speedup with an interval is "
        f"{multiple(best, 'speedup')}, at global batch {best['global_batch']:,} with {place(best, terms)}.",
        "speedup",
        [best],
        terms,
    )


def memory_ends(tables: Tables, terms: Terms) -> Finding | None:
    """The largest batch that one device holds, where a larger one ran out of memory."""
    times = tables["times"]
    parts: list[str] = []
    rows: list[Row] = []
    for _, plain in times[times["strategy"] == "single"].groupby("environment"):
        # A batch at which some runs ran out of memory is not held.
        in_part = plain["reason"].astype(str).str.contains("out of memory")
        too_large, fits = plain[plain["status"] == "oom"], words.ok(plain[~in_part])
        if too_large.empty or fits.empty:
            continue
        largest = extreme(fits, "batch_per_gpu", largest=True)
        too_large = too_large[too_large["batch_per_gpu"] > largest["batch_per_gpu"]]
        if too_large.empty:
            continue
        smallest = extreme(too_large, "batch_per_gpu", largest=False)
        rows += [largest, smallest]
        peak = largest["peak_memory_bytes"]
        used = f" (peak {words.measured(peak, quantity('peak_memory_bytes').unit)})" if words.is_known(peak) else ""
        parts.append(
            f"1 {terms.device} holds a batch of {largest['batch_per_gpu']:,} {terms.samples}{used} "
            f"and runs out of memory at {smallest['batch_per_gpu']:,}{terms.environment(largest)}"
        )
    return finding(f"Memory ends the series: {'; '.join(parts)}.", "times", rows, terms) if parts else None


FINDINGS: tuple[Predicate, ...] = (
    largest_speedup,
    more_devices_slower,
    batches_that_are_faster,
    ddp_against_dp,
    ddp_against_dp_with_loading,
    loader_hides_speedup,
    strong_scaling,
    largest_communication_share,
    inferred_bandwidth,
    bandwidth_not_resolvable,
    two_ways_disagree,
    faster_than_ideal,
    memory_ends,
)
OF_COMMUNICATION: tuple[Predicate, ...] = (
    subtraction_is_not_communication,
    estimates_agree,
    communication_is_waiting,
    host_leaves_devices_idle,
    parts_make_the_step,
    profiler_slows,
    forecast_scored,
    published_scaling_scored,
    critical_batch_checked,
    measuring_communication_costs,
)


def _scaling(tables: Tables, kind: str) -> pd.DataFrame:
    speedup = headline(words.ok(tables["speedup"]))
    return speedup[speedup["scaling"] == kind]


def _in_place_of_baseline(row: Row) -> str:
    return f"{words.figure(row['epoch_s'])} s per epoch in place of {words.figure(row['baseline_epoch_s'])} s"

"""What the data say: predicates over the tables, each a sentence with its numbers and the cells it rests on, or None.

A finding claims only what the 95 % intervals carry: "slower" is an interval that lies wholly below 1, and a
configuration without an interval supports no finding that compares.
"""

import pandas as pd

from dpscale.analyse.columns import NOT_RESOLVABLE
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
    subtraction_is_not_communication,
)
from dpscale.present.phrases import (
    Finding,
    Predicate,
    extreme,
    finding,
    multiple,
    part_of,
    percent,
    place,
    with_interval,
)
from dpscale.present.training_findings import (
    baseline_regained,
    best_at_a_batch,
    divergence,
    large_batch_costs,
    order_without_set_epoch,
    recipe_on_more_devices,
    remedies_that_harm,
    remedies_that_help,
    remedies_within_the_spread,
    statistics_of_workers,
)
from dpscale.present.words import Row, Tables, Words


def findings(tables: Tables, say: Words) -> list[Finding]:
    """What these tables make true."""
    return [found for predicate in FINDINGS if (found := predicate(tables, say))]


def largest_speedup(tables: Tables, say: Words) -> Finding | None:
    """Weak scaling: the best configuration whose interval lies above 1."""
    gains = with_interval(_scaling(tables, "weak"), "speedup")
    gains = gains[gains["speedup_low"] > 1]
    if gains.empty:
        return None
    best = extreme(gains, "speedup", largest=True)
    return finding(
        f"The largest weak speedup is {multiple(best, 'speedup')} with {place(best, say)}: "
        f"{_in_place_of_baseline(best)}, an efficiency of {percent(best['efficiency'])}.",
        "speedup",
        [best],
        say,
    )


def more_devices_slower(tables: Tables, say: Words) -> Finding | None:
    """Weak scaling: configurations whose speedup lies wholly below 1."""
    compared = with_interval(_scaling(tables, "weak"), "speedup")
    slower = compared[compared["speedup_high"] < 1]
    if slower.empty:
        return None
    worst = extreme(slower, "speedup", largest=False)
    return finding(
        f"More {say.devices} are slower than 1 in {part_of(slower, compared)}. "
        f"The worst is {place(worst, say)}: {_in_place_of_baseline(worst)}, "
        f"a speedup of {multiple(worst, 'speedup')}.",
        "speedup",
        words.rows(slower),
        say,
    )


def batch_that_pays(tables: Tables, say: Words) -> Finding | None:
    """On the most devices: the batch from which on all speedups are above 1, where smaller ones are not."""
    compared = with_interval(_scaling(tables, "weak"), "speedup")
    compared = compared[compared["scope"] == "compute"]
    parts: list[str] = []
    rows: list[Row] = []
    for _, series in compared.groupby(["environment", "strategy"], dropna=False):
        largest = series[series["gpus"] == series["gpus"].max()].sort_values("batch_per_gpu")
        losing = largest[largest["speedup_low"] <= 1]
        if losing.empty:
            continue
        paying = largest[largest["batch_per_gpu"] > losing["batch_per_gpu"].max()]
        if paying.empty:
            continue
        first, last_losing = words.rows(paying)[0], words.rows(losing)[-1]
        rows += [last_losing, *words.rows(paying)]
        parts.append(
            f"{first['strategy']} on {say.count(first['gpus'])} pays from batch {first['batch_per_gpu']:,} "
            f"per {say.device} on ({multiple(first, 'speedup')}), not yet at {last_losing['batch_per_gpu']:,} "
            f"({multiple(last_losing, 'speedup')}){say.environment(first)}"
        )
    return finding(f"In the compute scope {'; '.join(parts)}.", "speedup", rows, say) if parts else None


def ddp_against_dp(tables: Tables, say: Words) -> Finding | None:
    """Where ddp's epoch is shorter than dp's, interval against interval, in the same place."""
    times = with_interval(words.ok(tables["times"]), "epoch_s")
    shared = ["environment", "scope", "gpus", "batch_per_gpu"]
    pairs = times[times["strategy"] == "ddp"].merge(times[times["strategy"] == "dp"], on=shared, suffixes=("", "_dp"))
    faster = pairs[pairs["epoch_s_high"] < pairs["epoch_s_low_dp"]]
    if faster.empty:
        return None
    most = extreme(faster.assign(ratio=faster["epoch_s_dp"] / faster["epoch_s"]), "ratio", largest=True)
    return finding(
        f"ddp is faster than dp in {part_of(faster, pairs)}, by up to "
        f"{words.figure(most['ratio'], 3)}×: {words.figure(most['epoch_s'])} s against "
        f"{words.figure(most['epoch_s_dp'])} s an epoch for {place(most, say)}.",
        "times",
        [{**row, "strategy": strategy} for strategy in ("ddp", "dp") for row in words.rows(faster)],
        say,
    )


def loader_hides_speedup(tables: Tables, say: Words) -> Finding | None:
    """Where the speedup with the DataLoader in the clock lies wholly below the one without."""
    compared = with_interval(_scaling(tables, "weak"), "speedup")
    shared = ["environment", "strategy", "gpus", "batch_per_gpu"]
    pairs = compared[compared["scope"] == "compute"].merge(
        compared[compared["scope"] == "end_to_end"], on=shared, suffixes=("", "_end_to_end")
    )
    hidden = pairs[(pairs["speedup_low"] > 1) & (pairs["speedup_high_end_to_end"] < pairs["speedup_low"])]
    if hidden.empty:
        return None
    ratio = hidden["speedup"] / hidden["speedup_end_to_end"]
    most = extreme(hidden.assign(ratio=ratio), "ratio", largest=True)
    return finding(
        f"The DataLoader hides speedup in {part_of(hidden, pairs)}: "
        f"{say.point(most)} has {multiple(most, 'speedup')} without it in the clock and "
        f"{words.figure(most['speedup_end_to_end'], 3)}× with it.",
        "speedup",
        [{**row, "scope": scope} for scope in ("compute", "end_to_end") for row in words.rows(hidden)],
        say,
    )


def largest_communication_share(tables: Tables, say: Words) -> Finding | None:
    """The configuration that loses most of its epoch to what is not compute, where that is resolved."""
    resolved = with_interval(words.ok(tables["communication"]), "communication_s")
    resolved = resolved[resolved["communication_s_low"] > 0]
    if resolved.empty:
        return None
    most = extreme(resolved, "communication_share", largest=True)
    return finding(
        f"Communication and overhead, inferred by subtraction, take up to "
        f"{percent(most['communication_share'])} of the epoch: {words.figure(most['communication_s'])} s "
        f"of {words.figure(most['epoch_s'])} s with {say.point(most)}.",
        "communication",
        [most],
        say,
    )


def inferred_bandwidth(tables: Tables, say: Words) -> Finding | None:
    """The range of the inferred bandwidth where it is resolvable."""
    resolved = words.ok(tables["bandwidth"])
    if len(resolved) < 2:
        return None
    low, high = (extreme(resolved, "bandwidth_gb_s", largest) for largest in (False, True))
    lowest, highest = (f"{words.figure(row['bandwidth_gb_s'], 3)} GB/s ({say.point(row)})" for row in (low, high))
    sentence = f"The inferred bandwidth lies between {lowest} and {highest}."
    return finding(sentence, "bandwidth", [low, high], say)


def bandwidth_not_resolvable(tables: Tables, say: Words) -> Finding | None:
    """How often the communication time cannot be told from zero."""
    decided = with_interval(tables["bandwidth"], "communication_s")
    unresolved = decided[decided["status"] == NOT_RESOLVABLE]
    if unresolved.empty:
        return None
    return finding(
        f"Bandwidth is not resolvable in {part_of(unresolved, decided)}: the interval of the communication time is "
        "not wholly above zero.",
        "bandwidth",
        words.rows(unresolved),
        say,
    )


def two_ways_disagree(tables: Tables, say: Words) -> Finding | None:
    """Where speedup from epoch times and from step times, which should be equal, have disjoint intervals."""
    compared = with_interval(with_interval(_scaling(tables, "weak"), "speedup"), "speedup_from_steps")
    apart = compared[
        (compared["speedup_low"] > compared["speedup_from_steps_high"])
        | (compared["speedup_high"] < compared["speedup_from_steps_low"])
    ]
    if apart.empty:
        return None
    difference = (apart["speedup"] / apart["speedup_from_steps"] - 1).abs()
    most = extreme(apart.assign(difference=difference), "difference", largest=True)
    return finding(
        f"Speedup from epoch times and from step times disagree in {part_of(apart, compared)}, by "
        f"{percent(most['difference'])} at most: {multiple(most, 'speedup')} and "
        f"{multiple(most, 'speedup_from_steps')} with {place(most, say)}.",
        "speedup",
        words.rows(apart),
        say,
    )


def faster_than_ideal(tables: Tables, say: Words) -> Finding | None:
    """Efficiency wholly above 100 %: rarely true, more often a sign that the baseline is too slow."""
    compared = with_interval(words.ok(tables["speedup"]), "efficiency")
    above = compared[compared["efficiency_low"] > 1]
    if above.empty:
        return None
    most = extreme(above, "efficiency", largest=True)
    return finding(
        f"Efficiency lies above 100 % in {part_of(above, compared)}, which asks for an explanation: "
        f"{words.estimate(most, 'efficiency', 100, ' %')} with {place(most, say)}, "
        f"{most['scaling']} scaling.",
        "speedup",
        words.rows(above),
        say,
    )


def strong_scaling(tables: Tables, say: Words) -> Finding | None:
    """Strong scaling: the best configuration, whether it gains or not."""
    compared = with_interval(_scaling(tables, "strong"), "speedup")
    if compared.empty:
        return None
    best = extreme(compared, "speedup", largest=True)
    return finding(
        "With the global batch held fixed (strong scaling) the best speedup is "
        f"{multiple(best, 'speedup')}, at global batch {best['global_batch']:,} with {place(best, say)}.",
        "speedup",
        [best],
        say,
    )


def memory_ends(tables: Tables, say: Words) -> Finding | None:
    """The largest batch that one device holds, where a larger one ran out of memory."""
    times = tables["times"]
    parts: list[str] = []
    rows: list[Row] = []
    for _, plain in times[times["strategy"] == "single"].groupby("environment"):
        too_large, fits = plain[plain["status"] == "oom"], words.ok(plain)
        if too_large.empty or fits.empty:
            continue
        largest = extreme(fits, "batch_per_gpu", largest=True)
        smallest = extreme(too_large, "batch_per_gpu", largest=False)
        rows += [largest, smallest]
        peak = largest["peak_memory_bytes"]
        used = f" (peak {words.figure(peak * 1e-9, 3)} GB)" if words.is_known(peak) else ""
        parts.append(
            f"1 {say.device} holds a batch of {largest['batch_per_gpu']:,} images{used} "
            f"and runs out of memory at {smallest['batch_per_gpu']:,}{say.environment(largest)}"
        )
    return finding(f"Memory ends the series: {'; '.join(parts)}.", "times", rows, say) if parts else None


FINDINGS: tuple[Predicate, ...] = (
    largest_speedup,
    more_devices_slower,
    batch_that_pays,
    ddp_against_dp,
    loader_hides_speedup,
    strong_scaling,
    largest_communication_share,
    inferred_bandwidth,
    bandwidth_not_resolvable,
    two_ways_disagree,
    faster_than_ideal,
    memory_ends,
    subtraction_is_not_communication,
    estimates_agree,
    communication_is_waiting,
    host_leaves_devices_idle,
    parts_make_the_step,
    profiler_slows,
    forecast_scored,
    critical_batch_checked,
    measuring_communication_costs,
    large_batch_costs,
    recipe_on_more_devices,
    baseline_regained,
    best_at_a_batch,
    remedies_that_help,
    remedies_within_the_spread,
    remedies_that_harm,
    divergence,
    order_without_set_epoch,
    statistics_of_workers,
)


def _scaling(tables: Tables, kind: str) -> pd.DataFrame:
    speedup = words.ok(tables["speedup"])
    return speedup[speedup["scaling"] == kind]


def _in_place_of_baseline(row: Row) -> str:
    return f"{words.figure(row['epoch_s'])} s an epoch in place of {words.figure(row['baseline_epoch_s'])} s"

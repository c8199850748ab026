"""What to take away from a chart, in one line of figures: pure functions of the rows that it draws.

A heading names figures and where they were measured. Whether a difference is more than noise is for `findings`.
"""

from collections.abc import Mapping, Sequence

import pandas as pd

from dpscale.analyse.claims import is_range
from dpscale.analyse.derived import estimates_of
from dpscale.analyse.timing.times import HEADLINE_STEPS
from dpscale.present import words
from dpscale.present.finding import extreme, headline, percent, with_unit
from dpscale.present.words import Row, Terms
from dpscale.vocabulary.quantities import EPOCH, GB_PER_S, KIB, MILLISECONDS, TEST_ACCURACY, Quantity
from dpscale.vocabulary.states import BEST, SCENARIO

NO_HEADLINE = f"No epoch has {HEADLINE_STEPS} full steps"


def epoch_time(part: pd.DataFrame, terms: Terms) -> str:
    """`Shortest epoch: 0.545 s, dp on 4 GPUs at batch 8,192; on 1 GPU 2.13 s`."""
    known = words.ok(part)
    measured = headline(known)
    if measured.empty:
        return NO_HEADLINE
    shortest = extreme(measured, "epoch_s", largest=False)
    of = "Shortest epoch" if len(measured) == len(known) else f"Shortest epoch of {HEADLINE_STEPS} full steps"
    heading = f"{of}: {words.measured(shortest['epoch_s'], EPOCH.unit)}, {_point(shortest, terms)}"
    alone = measured[measured["gpus"] == 1]
    if shortest["gpus"] == 1 or alone.empty:
        return heading
    shortest_alone = extreme(alone, "epoch_s", largest=False)
    return f"{heading}; on {terms.count(1)} {words.measured(shortest_alone['epoch_s'], EPOCH.unit)}"


def efficiency(measured: pd.DataFrame, terms: Terms) -> str:
    """`4 GPUs: ddp 91.3 % at batch 128, with loading 72.6 %`: the best without loading, and the same with it."""
    shown = headline(measured)
    if shown.empty:
        return NO_HEADLINE
    best = extreme(shown[shown["scope"] == min(shown["scope"])], "efficiency", largest=True)
    heading = f"{_point(best, terms)}: {percent(best['efficiency'])}"
    loaded = shown[(shown["scope"] != best["scope"]) & (shown["strategy"] == best["strategy"])]
    loaded = loaded[loaded["batch_per_gpu"] == best["batch_per_gpu"]]
    if loaded.empty:
        return heading
    return f"{heading}, with loading {percent(words.rows(loaded)[0]['efficiency'])}"


def step(part: pd.DataFrame, names: Mapping[str, str], terms: Terms) -> str:
    """`dp on 4 GPUs: at batch 32 idle is 92.6 % of a step, at 8,192 compute is 96.8 %`: the largest parts.

    `names` are those of the columns of shares.
    """
    return parts_of_step(part, names, terms.group(words.rows(part)[0]))


def parts_of_step(part: pd.DataFrame, names: Mapping[str, str], of: str) -> str:
    """The same `of` what a part of the table is of."""
    ordered = words.rows(part.sort_values("batch_per_gpu"))
    first, last = ordered[0], ordered[-1]
    heading = f"{of}: at batch {int(first['batch_per_gpu']):,} {_largest(first, names)} of a profiled step"
    if first is last:
        return heading
    return f"{heading}, at {int(last['batch_per_gpu']):,} {_largest(last, names)}"


def ladder(rungs: Sequence[Row], terms: Terms) -> str:
    """`dp on 2 GPUs at batch 32: 33.7 ms more than one GPU alone, 26.3 ms of it threads, contention`: the largest part.

    `rungs` are the rows of one ladder, in their order.
    """
    first, *others = rungs
    more_s = others[-1]["beyond_alone_s"]
    most = extreme(others, "part_of_headline_s", largest=True)
    whole = (
        f"{words.measured(abs(more_s), MILLISECONDS)} {'more' if more_s > 0 else 'less'} than 1 {terms.device} alone"
    )
    heading = f"{_point(first, terms)}: {whole}"
    if most["part_of_headline_s"] <= 0:
        return heading
    return f"{heading}; the most is {words.measured(most['part_of_headline_s'], MILLISECONDS)}, {most['adds']}"


def step_beside_one(rows: Sequence[Row], terms: Terms) -> str:
    """`A step takes 5.54 ms on 1 GPU, and 36.7 ms with dp on 4 GPUs`: the longest on the most devices.

    `rows` are of one batch, that of one device first.
    """
    alone, *others = rows
    most = extreme([row for row in others if row["gpus"] == others[-1]["gpus"]], "step_s", largest=True)
    steps = [words.measured(row["step_s"], MILLISECONDS) for row in (alone, most)]
    return (
        f"A step takes {steps[0]} on 1 {terms.device}, and {steps[1]} with {most['strategy']} on "
        f"{terms.count(most['gpus'])}"
    )


def estimates(part: pd.DataFrame, drawn: Sequence[Quantity], terms: Terms) -> str:
    """`dp on 4 GPUs at batch 128: 0.436 ms (E5) to 26.3 ms (E1) per step`: where they are furthest apart.

    Of the estimates above zero with their intervals.
    """
    if part["estimates_apart"].isna().all():
        return f"{terms.group(words.rows(part)[0])}: no estimate has an interval above zero"
    row = extreme(part, "estimates_apart", largest=True)
    columns = estimates_of(row)
    lows = {
        estimate: row[f"{estimate.column}_low"]
        for estimate in drawn
        if estimate.column in columns and not is_range(row, estimate.column)
    }
    above_zero = [estimate for estimate, low in lows.items() if words.is_known(low) and low > 0]
    ends = [choose(above_zero, key=lambda estimate: row[estimate.column]) for choose in (min, max)]
    named = [
        f"{words.measured(row[estimate.column], MILLISECONDS)} ({estimate.short})" for estimate in dict.fromkeys(ends)
    ]
    return f"{_point(row, terms)}: {' to '.join(named)} per step"


def bandwidth(collectives: pd.DataFrame, steps: pd.DataFrame, terms: Terms) -> str:
    """`4 GPUs: a step's bandwidth is at most 108 GB/s (ddp at batch 128), allreduce alone reaches 302 GB/s`."""
    inferred = headline(words.ok(steps)).dropna(subset=["bandwidth_gb_s", "bus_bandwidth_gb_s"])
    if inferred.empty:
        most = extreme(collectives, "bus_bandwidth_gb_s", largest=True)
        size = words.whole(KIB.of(most["message_bytes"]))
        of = f"{str(most['operation']).replace('_', '-')} of {size} {KIB.shown}"
        return f"{terms.count(int(most['gpus']))}: {_rate(most, 'bus_bandwidth_gb_s')} at most, with {of}"
    best = extreme(inferred, "bandwidth_gb_s", largest=True)
    return (
        f"{terms.count(int(best['gpus']))}: inferred bandwidth is at most {_rate(best, 'bandwidth_gb_s')} "
        f"({best['strategy']} at batch {int(best['batch_per_gpu']):,}), allreduce alone reaches "
        f"{_rate(best, 'bus_bandwidth_gb_s')}"
    )


def held_out(scored: pd.DataFrame, terms: Terms) -> str:
    """`Step on 4 GPUs predicted from 2: at most 0.88 % off, at batch 32`."""
    most = extreme(scored, "relative_error", largest=True, by_size=True)
    return (
        f"Step on {terms.count(int(most['gpus']))} predicted from {int(most['calibrated_on_gpus'])}: "
        f"{'at most ' if len(scored) > 1 else ''}{percent(most['relative_error'], digits=2)} off, "
        f"at batch {int(most['batch_per_gpu']):,}"
    )


def forecast(expected: pd.DataFrame, terms: Terms) -> str:
    """`Scenario for 1,024 GPUs: efficiency 79.0 % [12.6, 89.3] at batch 32, 99.0 % [96.1, 99.2] at 8,192`.

    It is called a forecast where links like those of so many devices were measured.
    """
    largest = expected[expected["gpus"] == expected["gpus"].max()]
    ends = words.rows(largest.sort_values("batch_per_gpu"))
    first, last = ends[0], ends[-1]
    called = "Scenario" if first["kind"] == SCENARIO else "Forecast"
    heading = (
        f"{called} for {terms.count(int(first['gpus']))}: efficiency {with_unit(first, 'efficiency')} "
        f"at batch {int(first['batch_per_gpu']):,}"
    )
    if first is last:
        return heading
    return f"{heading}, {with_unit(last, 'efficiency')} at {int(last['batch_per_gpu']):,}"


def training(part: pd.DataFrame, baseline: str | None, drawn: Quantity) -> str:
    """`Test accuracy: b2048-lamb ends best, at 54.2 %; the baseline b128 at 71.3 %`: means over seeds.

    `part` has the curves of arms and of what they are compared with: the study's `baseline`, or a tuned one. That of
    the best arm is named. Arms of which a seed diverged do not end.
    """
    found = {str(arm): _end(rows, drawn) for arm, rows in part.groupby("arm", sort=False)}
    against = part.dropna(subset=["compared_with"]).groupby("arm")["compared_with"].first().to_dict()
    ends = {arm: end for arm, end in found.items() if arm not in (baseline, *against.values())}
    known = {arm: end for arm, end in ends.items() if end is not None}
    parts, named = [], baseline
    if known:
        best = (min if "loss" in drawn.column else max)(known, key=lambda arm: known[arm])
        ends_best = "ends best," if len(ends) > 1 else "ends"
        parts.append(f"{best} {ends_best} at {words.measured(known[best], drawn.unit)}")
        named = against.get(best, baseline)
    elif ends:
        parts.append("a seed of every arm diverged")
    if (base := found.get(str(named))) is not None:
        parts.append(f"the baseline {named} at {words.measured(base, drawn.unit)}")
    return f"{drawn.label}: {'; '.join(parts) or 'a seed of every arm diverged'}"


def frontier(part: pd.DataFrame, cost: Quantity, verdict: str, terms: Terms) -> str:
    """`Pareto-best: from b2048-lars, 54.2 % for 10.2 s, to b128, 71.3 % for 14.4 s`: the two ends, by means."""
    best = words.rows(part[part[verdict] == BEST].sort_values(cost.column))
    ends = [
        f"{row['arm']}, {words.measured(row[TEST_ACCURACY.column], TEST_ACCURACY.unit)} for "
        f"{words.measured(row[cost.column], cost.unit)}{'' if cost.unit.shown else f' {terms.label(cost)}'}"
        for row in (best[0], best[-1])
    ]
    return f"Pareto-best: {ends[0]}" if len(best) == 1 else f"Pareto-best: from {ends[0]}, to {ends[1]}"


def _end(curve: pd.DataFrame, drawn: Quantity) -> float | None:
    """The mean over seeds after the last epoch, or None where a seed diverged."""
    if (curve["diverged"] > 0).any():
        return None
    return float(extreme(curve, "epoch", largest=True)[drawn.column])


def _largest(row: Row, names: Mapping[str, str]) -> str:
    column = max(names, key=lambda name: row[name])
    return f"{names[column]} is {percent(row[column])}"


def _rate(row: Row, name: str) -> str:
    return words.measured(row[name], GB_PER_S)


def _point(row: Row, terms: Terms) -> str:
    return f"{terms.group(row)} at batch {int(row['batch_per_gpu']):,}"

"""What explains the tables to hand in: the formula with the table's numbers, the trend, the cause, and what to mind."""

from collections.abc import Iterator, Sequence

import pandas as pd

from dpscale.analyse.claims import has_interval
from dpscale.analyse.derived import HEADLINE_STEPS
from dpscale.present import words
from dpscale.present.finding import extreme, headline, multiple, with_unit
from dpscale.present.words import Row, Tables, Terms
from dpscale.vocabulary.quantities import EFFICIENCY, EPOCH, GB_PER_S, MB, PERCENT, SPEEDUP, STEP
from dpscale.vocabulary.states import NOT_RESOLVABLE

_COMPUTE, _END_TO_END = "compute", "end_to_end"


def of_speedup(here: Tables, scope: str, terms: Terms) -> list[str]:
    """Below Table 1. `here` are the tables of one environment."""
    speedup = here["speedup"][here["speedup"]["scaling"] == "weak"]
    ok = words.ok(speedup[speedup["scope"] == scope])
    known = _shown(ok)
    if not known:
        return []
    row = _example(known)
    return [
        f"Formula, with {terms.point(row)}, both times of the same blocks: speedup = T(1,b) / T(N,b) = "
        f"{words.measured(row['baseline_epoch_s'], EPOCH.unit, 4)} / {words.measured(row['epoch_s'], EPOCH.unit, 4)} = "
        f"{words.measured(row['speedup'], SPEEDUP.unit)}; over {terms.count(row['gpus'])} that is an efficiency of "
        f"{words.measured(row['efficiency'], EFFICIENCY.unit)}.",
        *_trend("the speedup", known, "speedup", terms),
        *_paid_per_step(here, known, row, terms),
        *_loading(speedup, row, scope),
        *_few_steps(ok, row, terms),
    ]


def of_communication(here: Tables, terms: Terms) -> list[str]:
    """Below Table 2."""
    communication = here["communication"]
    known = _shown(words.ok(communication))
    if not known:
        return []
    row = _example(known)
    return [
        f"Formula, with {terms.point(row)}: communication = T(N,b) − T(1,b)/N = "
        f"{words.measured(row['epoch_s'], EPOCH.unit, 4)} − {words.measured(row['compute_s'], EPOCH.unit, 4)} = "
        f"{words.measured(row['communication_s'], EPOCH.unit, 4)}, {_share(row)} of the epoch.",
        *_trend("the communication time", known, "communication_s", terms),
        *_of_messages(known, here["ladder"], row, terms),
        _with_zero(known, terms),
    ]


def of_bandwidth(here: Tables, terms: Terms) -> list[str]:
    """Below Table 3."""
    bandwidth = here["bandwidth"]
    known = _shown(words.ok(bandwidth).dropna(subset=["bandwidth_gb_s"]))
    unresolved = _shown(bandwidth[bandwidth["status"] == NOT_RESOLVABLE])
    sentences: list[str] = []
    if known:
        row = _example(known)
        sentences = [
            f"Formula, with {terms.point(row)}: bandwidth = bytes per step × steps / communication time = "
            f"{words.measured(row['allreduce_bytes_per_step'], MB, 4)} × {words.whole(row['steps_per_epoch'])} / "
            f"{words.measured(row['communication_s'], EPOCH.unit, 4)} = "
            f"{words.measured(row['bandwidth_gb_s'], GB_PER_S, 4)}.",
            *_trend("the bandwidth", known, "bandwidth_gb_s", terms),
            *_below_the_links(row, terms),
        ]
    if unresolved:
        sentences.append(
            f"Not resolvable: {_listed(unresolved, terms)}. There the interval of the communication time holds zero, "
            "or there is no interval."
        )
    return sentences


def _shown(table: pd.DataFrame) -> list[Row]:
    """The rows whose epochs have steps enough to speak of, in the order in which people read them."""
    return list(words.rows(words.in_order(headline(table))))


def _example(rows: Sequence[Row]) -> Row:
    """Of the most devices and the last strategy the row of the largest batch."""
    return max(rows, key=lambda row: (row["gpus"], words.rank(row["strategy"]), row["batch_per_gpu"]))


def _of(rows: Sequence[Row], like: Row) -> list[Row]:
    """The rows of the same strategy and devices, by batch."""
    same = [row for row in rows if (row["strategy"], row["gpus"]) == (like["strategy"], like["gpus"])]
    return sorted(same, key=lambda row: row["batch_per_gpu"])


_UNTOLD = "with too few runs to tell whether it changes"


def _trend(what: str, rows: Sequence[Row], name: str, terms: Terms) -> Iterator[str]:
    """From the smallest to the largest batch on the most devices, for every strategy, with what lies beyond both. A
    direction needs intervals that are apart."""
    most = max(row["gpus"] for row in rows)
    parts = []
    for strategy in dict.fromkeys(row["strategy"] for row in rows if row["gpus"] == most):
        first, *others = _of(rows, {"strategy": strategy, "gpus": most})
        if others:
            last = others[-1]
            ends = f"from {with_unit(first, name)} at batch {words.whole(first['batch_per_gpu'])}"
            ends += f" to {with_unit(last, name)} at {words.whole(last['batch_per_gpu'])}"
            direction = _direction(first, last, name)
            told = f"it {direction} {ends}" if direction else f"{ends}, {_UNTOLD}"
            parts.append(f"with {strategy} {told}{_beyond(first, others[:-1], last, name)}")
    if parts:
        yield f"Trend of {what} on {terms.count(most)}: {'; '.join(parts)}."


def _beyond(first: Row, between: Sequence[Row], last: Row, name: str) -> str:
    """The batch between whose interval lies above both ends', otherwise the one below; nothing where there is none."""
    for called, beyond, furthest in (("highest", "rises", max), ("lowest", "falls", min)):
        found = [row for row in between if _direction(first, row, name) == beyond == _direction(last, row, name)]
        if found:
            row = furthest(found, key=lambda row: row[name])
            return f", and is {called} at {words.whole(row['batch_per_gpu'])}, with {with_unit(row, name)}"
    return ""


def _direction(first: Row, last: Row, name: str) -> str:
    """Empty without intervals to compare."""
    if not (has_interval(first, name) and has_interval(last, name)):
        return ""
    if last[f"{name}_low"] > first[f"{name}_high"]:
        return "rises"
    return "falls" if last[f"{name}_high"] < first[f"{name}_low"] else "shows no difference,"


def _paid_per_step(here: Tables, gains: Sequence[Row], row: Row, terms: Terms) -> Iterator[str]:
    """Why a larger batch scales better, where it does: fewer steps, each of which costs about as much more."""
    shares = _of(_shown(words.ok(here["communication"])), row)
    of_row = _of(gains, row)  # itself among them
    if len(shares) < 2 or row["scope"] != _COMPUTE or _direction(of_row[0], of_row[-1], "speedup") != "rises":
        return
    first, last = shares[0], shares[-1]
    steps = {end["batch_per_gpu"]: _steps(here["times"], end) for end in (first, last)}
    if not (0 < last["communication_share"] < first["communication_share"] and all(steps.values())):
        return
    most, fewest = steps.values()
    yield (
        f"Cause: a larger batch needs fewer steps, {most} at batch {words.whole(first['batch_per_gpu'])} and {fewest} "
        f"at {words.whole(last['batch_per_gpu'])}, and every step takes longer than on 1 {terms.device}. What steps "
        f"take longer with {row['strategy']} on {terms.count(row['gpus'])} is {_share(first)} of the epoch at the "
        f"smaller of these batches, {_share(last)} at the larger."
    )


def _steps(times: pd.DataFrame, at: Row) -> str:
    """How many steps an epoch has there, or nothing."""
    same = times[(times["strategy"] == at["strategy"]) & (times["gpus"] == at["gpus"])]
    known = words.ok(same[same["batch_per_gpu"] == at["batch_per_gpu"]]).dropna(subset=["steps_per_epoch"])
    return words.whole(words.rows(known)[0]["steps_per_epoch"]) if len(known) else ""


def _share(row: Row) -> str:
    return words.measured(row["communication_share"], PERCENT)


def _loading(speedup: pd.DataFrame, row: Row, scope: str) -> Iterator[str]:
    """What the DataLoader makes of the example's speedup."""
    if scope != _COMPUTE:
        yield "Mind: the DataLoader is in these times."
        return
    same = _of(words.rows(words.ok(speedup[speedup["scope"] == _END_TO_END])), row)
    with_loading = [other for other in same if other["batch_per_gpu"] == row["batch_per_gpu"]]
    if with_loading:
        yield (
            "Mind: loading is not in these times. With the DataLoader in the clock, the same configuration has a "
            f"speedup of {multiple(with_loading[0], 'speedup')}."
        )
    else:
        yield "Mind: loading is not in these times, and for this configuration it was not measured."


def _few_steps(speedup: pd.DataFrame, row: Row, terms: Terms) -> Iterator[str]:
    """Which rows of the table nobody should build upon."""
    few = speedup[(speedup["gpus"] == row["gpus"]) & ~speedup.index.isin(headline(speedup).index)]
    batches = sorted(set(few["batch_per_gpu"]))
    if batches:
        yield (
            f"On {terms.count(row['gpus'])}, an epoch has fewer than {HEADLINE_STEPS} full steps at batch "
            f"{' and '.join(f'{batch:,}' for batch in batches)}: such speedups say little."
        )


def _of_messages(rows: Sequence[Row], ladder: pd.DataFrame, row: Row, terms: Terms) -> Iterator[str]:
    """What the communication time is made of: by intervention where that was measured, otherwise against messages."""
    first = _of(rows, row)[0]
    rungs = ladder[(ladder["strategy"] == first["strategy"]) & (ladder["gpus"] == first["gpus"])]
    rungs = rungs[(rungs["batch_per_gpu"] == first["batch_per_gpu"]) & (rungs["order"] > 0)]
    if len(rungs):
        largest = extreme(rungs, "difference_s", largest=True)
        yield (
            f"Cause, with {terms.point(first)}: of all that makes a step longer than on 1 {terms.device} alone, most "
            f"is {largest['adds']} by the ladder, which has {with_unit(largest, 'difference_s', 'ladder')} of it."
        )
    elif words.is_known(first["isolated_step_s"]) and words.is_known(first["communication_step_s"]):
        more = has_interval(first, "communication_step_s") and (
            first["communication_step_s_low"] > first["isolated_step_s"]
        )
        rest = (
            f" The rest is overhead of the host, {terms.devices} that wait, or transfers that take longer beside "
            "compute."
            if more
            else ""
        )
        yield (
            f"Cause, with {terms.point(first)}: a step takes {with_unit(first, 'communication_step_s')} longer than on "
            f"1 {terms.device}; its messages with nothing else running take "
            f"{words.measured(first['isolated_step_s'], STEP.unit)} (E5).{rest}"
        )


def _with_zero(rows: Sequence[Row], terms: Terms) -> str:
    """Which communication times may be none, and what all of them hold."""
    holds = "Mind: inferred by subtraction, this holds every overhead of the host too."
    zero = [
        row
        for row in rows
        if has_interval(row, "communication_s") and row["communication_s_low"] <= 0 <= row["communication_s_high"]
    ]
    return f"{holds} Its interval holds zero: {_listed(zero, terms)}." if zero else holds


def _below_the_links(row: Row, terms: Terms) -> Iterator[str]:
    """What the links carry, beside what the communication time makes of them."""
    if not words.is_known(row["bus_bandwidth_gb_s"]):
        return
    bus = words.measured(row["bus_bandwidth_gb_s"], GB_PER_S)
    below = has_interval(row, "bandwidth_gb_s") and row["bandwidth_gb_s_high"] < row["bus_bandwidth_gb_s"]
    cause = (
        ". The communication time holds more than transfers, so the quotient is lower than what the links carry"
        if below
        else ""
    )
    yield (
        f"Cause: with nothing else running, an allreduce of the same size on {terms.count(row['gpus'])} reaches a bus "
        f"bandwidth of {bus}{cause}."
    )


def _listed(rows: Sequence[Row], terms: Terms) -> str:
    """`ddp on 2 GPUs at batch 32 and 128; dp on 4 GPUs at batch 512`."""
    batches: dict[tuple[str, int], list[str]] = {}
    for row in rows:
        batches.setdefault((row["strategy"], row["gpus"]), []).append(words.whole(row["batch_per_gpu"]))
    return "; ".join(
        f"{strategy} on {terms.count(gpus)} at batch {words.listed(of)}" for (strategy, gpus), of in batches.items()
    )

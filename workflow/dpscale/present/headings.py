"""What to take away from a chart, in one line of figures: pure functions of the rows that it draws.

A heading names figures and where they were measured. Whether a difference is more than noise is for `findings`.
"""

from collections.abc import Mapping

import pandas as pd

from dpscale.present import words
from dpscale.present.phrases import extreme, percent
from dpscale.present.words import Row, Words

_DIGITS = 3
_MS = 1e3
_KIB = 1024


def epoch_time(part: pd.DataFrame, say: Words) -> str:
    """`Shortest epoch: 0.545 s, dp on 4 GPUs at batch 8,192; on 1 GPU 2.13 s`."""
    measured = words.ok(part)
    shortest = extreme(measured, "epoch_s", largest=False)
    said = f"Shortest epoch: {_figure(shortest['epoch_s'])} s, {_point(shortest, say)}"
    alone = measured[measured["gpus"] == 1]
    if shortest["gpus"] == 1 or alone.empty:
        return said
    return f"{said}; on {say.count(1)} {_figure(alone['epoch_s'].min())} s"


def speedup(measured: pd.DataFrame, scaling: str, say: Words) -> str:
    """`ddp on 4 GPUs: 3.95× at batch 8,192, 0.39× at 32`: the best and the worst on the most GPUs."""
    largest = measured[measured["gpus"] == measured["gpus"].max()]
    best, worst = (extreme(largest, "speedup", largest=one) for one in (True, False))
    batch, name = ("batch_per_gpu", "batch") if scaling == "weak" else ("global_batch", "global batch")
    said = f"{_configuration(best, say)}: {_figure(best['speedup'])}× at {name} {int(best[batch]):,}"
    if len(largest) == 1:
        return said
    return f"{said}, {_figure(worst['speedup'])}× at {int(worst[batch]):,}"


def step(part: pd.DataFrame, names: Mapping[str, str], say: Words) -> str:
    """`dp on 4 GPUs: at batch 32 idle is 92.6 % of a step, at 8,192 compute is 96.8 %`: the largest parts.

    `names` are those of the columns of parts.
    """
    ordered = words.rows(part.sort_values("batch_per_gpu"))
    first, last = ordered[0], ordered[-1]
    said = f"{_configuration(first, say)}: at batch {int(first['batch_per_gpu']):,} {_largest(first, names)} of a step"
    if first is last:
        return said
    return f"{said}, at {int(last['batch_per_gpu']):,} {_largest(last, names)}"


def estimates(part: pd.DataFrame, names: Mapping[str, str], say: Words) -> str:
    """`dp on 4 GPUs at batch 128: 0.436 ms by E5 alone, 26.3 ms by E1 subtraction`: where they are furthest apart.

    Of the estimates above zero with their intervals. `names` are those of the columns of estimates.
    """
    apart = []
    for row in words.rows(part):
        found = {
            name: row[column]
            for column, name in names.items()
            if words.is_known(row[column]) and row[column] > 0 and row[f"{column}_low"] > 0
        }
        if found:
            apart.append((max(found.values()) / min(found.values()), row, found))
    if not apart:
        return f"{_configuration(words.rows(part)[0], say)}: no estimate is above zero with its interval"
    _, row, found = max(apart, key=lambda one: one[0])
    least, most = min(found, key=lambda name: found[name]), max(found, key=lambda name: found[name])
    said = " to ".join(f"{_figure(found[name] * _MS)} ms ({name})" for name in dict.fromkeys((least, most)))
    return f"{_point(row, say)}: {said} a step"


def bandwidth(collectives: pd.DataFrame, steps: pd.DataFrame, say: Words) -> str:
    """`4 GPUs: a step's bandwidth is at most 108 GB/s (ddp at batch 128), allreduce alone reaches 302 GB/s`."""
    inferred = words.ok(steps).dropna(subset=["bandwidth_gb_s", "bus_bandwidth_gb_s"])
    if inferred.empty:
        most = extreme(collectives, "bus_bandwidth_gb_s", largest=True)
        of = f"{str(most['operation']).replace('_', '-')} of {int(most['message_bytes'] / _KIB):,} KiB"
        return f"{say.count(int(most['gpus']))}: {_figure(most['bus_bandwidth_gb_s'])} GB/s at most, with {of}"
    best = extreme(inferred, "bandwidth_gb_s", largest=True)
    return (
        f"{say.count(int(best['gpus']))}: inferred bandwidth is at most {_figure(best['bandwidth_gb_s'])} GB/s "
        f"({best['strategy']} at batch {int(best['batch_per_gpu']):,}), allreduce alone reaches "
        f"{_figure(best['bus_bandwidth_gb_s'])} GB/s"
    )


def held_out(scored: pd.DataFrame, say: Words) -> str:
    """`Step on 4 GPUs predicted from 2: at most 0.88 % off, at batch 32`."""
    most = extreme(scored.assign(off=scored["relative_error"].abs()), "off", largest=True)
    return (
        f"Step on {say.count(int(most['gpus']))} predicted from {int(most['calibrated_on_gpus'])}: "
        f"{'at most ' if len(scored) > 1 else ''}{words.figure(most['off'] * 100, 2)} % off, "
        f"at batch {int(most['batch_per_gpu']):,}"
    )


def forecast(expected: pd.DataFrame, say: Words) -> str:
    """`Forecast for 1,024 GPUs: efficiency 79.0 % [12.6, 89.3] at batch 32, 99.0 % [96.1, 99.2] at 8,192`."""
    largest = expected[expected["gpus"] == expected["gpus"].max()]
    ends = words.rows(largest.sort_values("batch_per_gpu"))
    first, last = ends[0], ends[-1]
    said = (
        f"Forecast for {say.count(int(first['gpus']))}: efficiency {words.estimate(first, 'efficiency', 100, ' %')} "
        f"at batch {int(first['batch_per_gpu']):,}"
    )
    if first is last:
        return said
    return f"{said}, {words.estimate(last, 'efficiency', 100, ' %')} at {int(last['batch_per_gpu']):,}"


def training(part: pd.DataFrame, baseline: str | None, quantity: str, unit: str) -> str:
    """`Test accuracy: b2048-lamb ends best, at 54.2 %; the baseline b128 at 71.3 %`: means over seeds.

    `part` has `value` for every arm, seed and epoch. Arms of which a seed diverged do not end.
    """
    ends = {str(arm): _end(rows) for arm, rows in part.groupby("arm", sort=False)}
    base = ends.pop(str(baseline), None)
    known = {arm: end for arm, end in ends.items() if end is not None}
    said = []
    if known:
        best = (min if "loss" in quantity.lower() else max)(known, key=lambda arm: known[arm])
        ends_best = "ends best," if len(ends) > 1 else "ends"
        said.append(f"{best} {ends_best} at {_with_unit(known[best], unit)}")
    elif ends:
        said.append("a seed of every arm diverged")
    if base is not None:
        said.append(f"the baseline {baseline} at {_with_unit(base, unit)}")
    return f"{quantity}: {'; '.join(said) or 'a seed of every arm diverged'}"


def _end(rows: pd.DataFrame) -> float | None:
    """The mean over seeds after the last epoch, or None where a seed diverged."""
    if (rows["status"] == "diverged").any():
        return None
    return float(rows[rows["epoch"] == rows["epoch"].max()]["value"].mean())


def _with_unit(value: float, unit: str) -> str:
    return f"{_figure(value)} {unit}".rstrip()


def _largest(row: Row, names: Mapping[str, str]) -> str:
    column = max(names, key=lambda name: row[name])
    return f"{names[column]} is {percent(row[column] / row['parts_s'])}"


def _configuration(row: Row, say: Words) -> str:
    return f"{row['strategy']} on {say.count(int(row['gpus']))}"


def _point(row: Row, say: Words) -> str:
    return f"{_configuration(row, say)} at batch {int(row['batch_per_gpu']):,}"


def _figure(value: float) -> str:
    return words.figure(value, _DIGITS)

"""Epoch times of two studies pooled over batches: one change for every strategy on so many devices, in every scope.

A run shares its server over its batches, and so is one block: its figure is the geometric mean of its epoch times over
the batches. The change is that of these means, with Welch's interval over the runs of both studies.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from dpscale.formulas.figure import Figure
from dpscale.formulas.statistics import BLOCKS_FOR_INTERVAL, ratio_of_blocks

Tables = Mapping[str, pd.DataFrame]
Runs = pd.DataFrame  # a row per run, a column per batch, epoch seconds; NaN where a run lacks a batch

GROUP = ("strategy", "gpus", "scope")
# What is said of a group. Without an interval that lies wholly on one side of zero, no difference is shown.
SLOWER, FASTER, NO_DIFFERENCE = "slower", "faster", "no difference shown"
# Why a group is not compared.
ONLY_FIRST, ONLY_SECOND = "only in first", "only in second"
NO_BATCH, NO_RUN = "no batch in common", "no run has every batch"
# Whether a group is slower by more than is tolerated.
BEYOND, WITHIN, UNDECIDED = "yes", "no", "undecided"
GROUP_COLUMNS = [
    "study", *GROUP, "status", "batches", "batches_left_out", "first_runs", "second_runs", "first_runs_left_out",
    "second_runs_left_out", "first_s", "second_s", "change", "change_low", "change_high", "outcome",
    "tolerance", "beyond_tolerance",
]  # fmt: skip


def compared_groups(first: Tables, second: Tables, name: str, tolerance: float | None = None) -> pd.DataFrame:
    """A row for every group that one of two studies has; `name` is that of the second.

    `change` is the second study's epoch time over the first's, less 1. Where there is a `tolerance`, `beyond_tolerance`
    says whether the whole interval of the change lies above it, or none of it, or neither.
    """
    of_first, of_second = _groups(first), _groups(second)
    rows = []
    for key in sorted({*of_first, *of_second}):
        row = dict(_row(of_first.get(key), of_second.get(key)))
        judged = {"tolerance": tolerance, "beyond_tolerance": _judged(row, tolerance)}
        rows.append({"study": name, **dict(zip(GROUP, key, strict=True)), **row, **judged})
    return pd.DataFrame(rows, columns=GROUP_COLUMNS).convert_dtypes()


def _groups(tables: Tables) -> dict[tuple[Any, ...], Runs]:
    runs = tables["runs"].astype({"epoch_s": float})
    return {
        tuple(key): part.pivot(index="run", columns="batch_per_gpu", values="epoch_s")
        for key, part in runs.groupby(list(GROUP))
    }


def _row(first: Runs | None, second: Runs | None) -> Iterator[tuple[str, Any]]:
    if first is None or second is None:
        yield "status", ONLY_SECOND if first is None else ONLY_FIRST
        return
    batches = _pooled_batches(first, second)
    if not batches:
        yield "status", NO_BATCH
        return
    left_out = [batch for batch in sorted({*first.columns, *second.columns}) if batch not in batches]
    yield from (("batches", _listed(batches)), ("batches_left_out", _listed(left_out)))
    of_runs = [side[batches].dropna() for side in (first, second)]
    for name, side, complete in zip(("first", "second"), (first, second), of_runs, strict=True):
        incomplete = side.index.difference(complete.index)
        yield from ((f"{name}_runs", len(complete)), (f"{name}_runs_left_out", _listed(incomplete)))
    if not all(map(len, of_runs)):
        yield "status", NO_RUN
        return
    figures = [np.exp(np.log(complete.to_numpy()).mean(axis=1)) for complete in of_runs]
    yield "status", "ok"
    yield from (("first_s", _mean(figures[0])), ("second_s", _mean(figures[1])))
    ratio = ratio_of_blocks(figures[1], figures[0])
    change = Figure.of(ratio.value - 1, ratio.low - 1, ratio.high - 1)
    yield from (("change", change.value), ("change_low", change.low), ("change_high", change.high))
    yield "outcome", _outcome(change)


def _pooled_batches(first: Runs, second: Runs) -> list[int]:
    """The batches that both studies have runs enough of for an interval; where there is none, all that both have.

    What the runs took decides nothing here.
    """
    common = first.columns.intersection(second.columns)
    enough = [
        batch
        for batch in common
        if min(first[batch].count(), second[batch].count()) >= BLOCKS_FOR_INTERVAL
    ]  # fmt: skip
    return sorted(int(batch) for batch in (enough or common))


def _mean(values: np.ndarray) -> float:
    """The geometric mean."""
    return float(np.exp(np.log(values).mean()))


def _outcome(change: Figure) -> str:
    # An interval without a width lies beside zero by the last digit of its computation.
    low, high = (0.0 if abs(end) < 1e-12 else end for end in (change.low, change.high))
    if low > 0:
        return SLOWER
    return FASTER if high < 0 else NO_DIFFERENCE


def _judged(row: Mapping[str, Any], tolerance: float | None) -> str | None:
    if tolerance is None:
        return None
    if row.get("change_low", np.nan) > tolerance:
        return BEYOND
    return WITHIN if row.get("change_high", np.nan) <= tolerance else UNDECIDED


def _listed(numbers: Sequence[int] | pd.Index) -> str | None:
    return "; ".join(str(int(number)) for number in numbers) or None

"""Epoch times of two studies pooled over batches: one change for every strategy on so many devices, in every scope.

A run shares its server over its batches, so its figure is the geometric mean of its epoch times over the batches. The
change is that of the means of these figures, with Welch's interval over the servers of both studies.

One batch whose times differ much between servers makes that interval wide. So every batch is asked alone too, with
intervals that hold for all batches of the group at once.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import isnan, nan

import numpy as np

from dpscale.compare.figures import change, outcome
from dpscale.compare.rows import ComparedGroupsRow
from dpscale.formulas.figure import UNKNOWN, Figure, OnServer
from dpscale.formulas.statistics import best_of, estimate_of_blocks, units_of
from dpscale.tables.row import grouped
from dpscale.tables.timing import RunsRow

Runs = Mapping[OnServer, Mapping[int, float]]  # epoch seconds by run and batch

# What is said of a group whose interval lies wholly on one side of zero.
SLOWER, FASTER = "slower", "faster"
# Why a group is not compared.
ONLY_FIRST, ONLY_SECOND = "only in first", "only in second"
NO_BATCH, NO_RUN = "no batch is in both", "no run has an epoch time at every batch"
# Whether a group is slower by more than is tolerated.
BEYOND, WITHIN, UNDECIDED = "yes", "no", "undecided"


def compared_groups(
    first: Iterable[RunsRow], second: Iterable[RunsRow], name: str, tolerance: float = nan
) -> Iterator[ComparedGroupsRow]:
    """Yield a row for every group that one of two studies has; `name` is that of the second.

    `change` is the second study's epoch time over the first's, less 1. Where there is a `tolerance`, `beyond_tolerance`
    says whether the whole interval of the change lies above it, or that of one batch; or none of it; or neither.
    """
    of_first, of_second = _groups(first), _groups(second)
    for group in sorted({*of_first, *of_second}):
        runs = of_first.get(group), of_second.get(group)
        row, at_batches = _row(*runs), _at_batches(*runs)
        beyond_at = [batch for batch, change_at in at_batches.items() if change_at.is_above(tolerance)]
        strategy, gpus, scope = group
        yield replace(
            row,
            study=name,
            strategy=strategy,
            gpus=gpus,
            scope=scope,
            slower_at=_listed(_with_outcome(at_batches, SLOWER)),
            faster_at=_listed(_with_outcome(at_batches, FASTER)),
            tolerance=tolerance,
            beyond_tolerance=BEYOND if beyond_at else _judged(row.change, tolerance),
            beyond_at=_listed(beyond_at),
        )


def _at_batches(first: Runs | None, second: Runs | None) -> dict[int, Figure]:
    """Return the change at every batch of the group alone, with the 95 % intervals that hold for all of them at
    once."""
    if first is None or second is None:
        return {}
    batches = _pooled_batches(first, second)
    changes = {}
    for batch in batches:
        epochs = [estimate_of_blocks(_figures_of_runs(runs, [batch])) for runs in (first, second)]
        units = min(len(units_of(epoch.blocks)) for epoch in epochs)
        times_as_long = change(*epochs).map(lambda change_at: change_at + 1)
        changes[batch] = best_of(times_as_long, len(batches), units).map(lambda times: times - 1)
    return changes


def _with_outcome(at_batches: Mapping[int, Figure], wanted: str) -> list[int]:
    return [batch for batch, change_at in at_batches.items() if outcome(change_at, SLOWER, FASTER) == wanted]


def _groups(rows: Iterable[RunsRow]) -> dict[tuple[str, int, str], Runs]:
    by_run = sorted((row for row in rows if not row.variant), key=lambda row: row.run)
    groups = grouped(by_run, lambda row: (row.strategy, row.gpus, row.scope))
    return {key: _runs(of_group) for key, of_group in groups.items()}


def _runs(rows: Iterable[RunsRow]) -> Runs:
    runs = grouped(rows, lambda row: OnServer(str(row.run), row.server or 0))
    return {run: {row.batch_per_gpu: row.epoch_s for row in of_run} for run, of_run in runs.items()}


def _row(first: Runs | None, second: Runs | None) -> ComparedGroupsRow:
    if first is None or second is None:
        return ComparedGroupsRow(status=ONLY_SECOND if first is None else ONLY_FIRST)
    batches = _pooled_batches(first, second)
    if not batches:
        return ComparedGroupsRow(status=NO_BATCH)
    figures = [_figures_of_runs(runs, batches) for runs in (first, second)]
    pooled_change = change(*map(estimate_of_blocks, figures)) if all(figures) else UNKNOWN
    return ComparedGroupsRow(
        status="ok" if pooled_change.is_known else NO_RUN,
        batches=_listed(batches),
        batches_left_out=_listed({*_batches(first), *_batches(second)}.difference(batches)),
        first_runs=len(figures[0]),
        second_runs=len(figures[1]),
        change=pooled_change,
        outcome=outcome(pooled_change, SLOWER, FASTER),
    )


def _batches(runs: Runs) -> list[int]:
    """Return the batches of every run, one run after the other: a batch is there as often as runs have it."""
    return [batch for times in runs.values() for batch in times]


def _pooled_batches(first: Runs, second: Runs) -> list[int]:
    """Return the batches that both studies have runs enough of for an interval; where there is none, all that both
    have.

    The times of the runs decide nothing here.
    """
    of_first, of_second = _batches(first), _batches(second)
    common = {*of_first} & {*of_second}
    enough = [batch for batch in common if of_first.count(batch) > 1 and of_second.count(batch) > 1]
    return sorted(enough or common)


def _figures_of_runs(runs: Runs, batches: Sequence[int]) -> dict[OnServer, float]:
    """Return the geometric mean over the batches, of runs that have all of them."""
    return {
        run: float(np.exp(np.log([times[batch] for batch in batches]).mean()))
        for run, times in runs.items()
        if times.keys() >= set(batches)
    }


def _judged(change: Figure, tolerance: float) -> str:
    if isnan(tolerance):
        return ""
    if change.is_above(tolerance):
        return BEYOND
    return WITHIN if change.has_interval and change.high <= tolerance else UNDECIDED


def _listed(numbers: Iterable[int]) -> str:
    return "; ".join(map(str, sorted(numbers)))

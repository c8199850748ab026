"""Epoch times side by side: with and without the DataLoader in the clock, and of two strategies."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from dpscale.formulas.figure import UNKNOWN, Figure, OnServer, moved, multiplied
from dpscale.formulas.statistics import estimate_of_blocks
from dpscale.strategies.known import BASELINE, STRATEGIES
from dpscale.tables.timing import RunsRow, ScopesRow, SpeedupRow, StrategyPairsRow, TimesRow


def scopes_rows(
    times: Sequence[TimesRow], speedups: Sequence[SpeedupRow], runs: Sequence[RunsRow]
) -> Iterator[ScopesRow]:
    """The configurations that were measured with and without the DataLoader in the clock."""
    gained = {
        (*row.point.values(), row.scope): row.speedup
        for row in speedups
        if row.status == "ok" and row.scaling == "weak"
    }
    of_runs: dict[tuple[object, ...], dict[OnServer, float]] = defaultdict(dict)
    for run in (run for run in runs if not run.variant):
        of_runs[*run.point.values(), run.scope][OnServer(f"run {run.run}", run.server or 0)] = run.epoch_s
    timed = {(*row.point.values(), row.scope): row for row in times if row.status == "ok"}
    for here, row in timed.items():
        there = (*row.point.values(), "end_to_end")
        if row.scope != "compute" or there not in timed:
            continue
        loaded = timed[there]
        longer = moved(_loading(of_runs[there], of_runs[here]), loaded.epoch_s.value / row.epoch_s.value)
        yield ScopesRow(
            **row.point,
            is_headline=row.is_headline,
            epoch_s=row.epoch_s,
            end_to_end_epoch_s=loaded.epoch_s,
            loader_s=multiplied(longer.map(lambda ratio: ratio - 1), row.epoch_s.value),
            loading_ratio=longer,
            speedup=gained.get(here, UNKNOWN),
            end_to_end_speedup=gained.get(there, UNKNOWN),
        )


def _loading(loaded: Mapping[OnServer, float], in_memory: Mapping[OnServer, float]) -> Figure:
    """How many times as long an epoch takes with the DataLoader in the clock, over the runs that timed both."""
    both = {run: loaded[run] / in_memory[run] for run in loaded if run in in_memory}
    return estimate_of_blocks(both) if both else UNKNOWN


def strategy_pairs_rows(times: Sequence[TimesRow]) -> Iterator[StrategyPairsRow]:
    """Every two parallel strategies on the same devices at the same batch, the later one of the table first."""
    order = [name for name in STRATEGIES if name != BASELINE]
    measured = {
        (row.strategy, (row.gpus, row.batch_per_gpu, row.scope, row.environment)): row
        for row in times
        if row.status == "ok" and row.epoch_s.is_known
    }
    for (strategy, place), row in measured.items():
        for other in order[: order.index(strategy)] if strategy in order else ():
            if (other, place) in measured:
                beside = measured[other, place]
                yield StrategyPairsRow(
                    **row.point,
                    scope=row.scope,
                    other_strategy=other,
                    is_headline=row.is_headline,
                    loader_processes=row.loader_processes,
                    other_loader_processes=beside.loader_processes,
                    epoch_s=row.epoch_s,
                    other_epoch_s=beside.epoch_s,
                    ratio=beside.epoch_s.value / row.epoch_s.value,
                    peak_memory_bytes=row.peak_memory_bytes,
                    other_peak_memory_bytes=beside.peak_memory_bytes,
                )

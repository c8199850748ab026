"""Epoch times side by side: with and without the DataLoader in the clock, and of two strategies."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from dpscale.formulas.figure import UNKNOWN, Figure, OnServer
from dpscale.formulas.statistics import Scale, estimate_of_blocks
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
    for run in runs:
        of_runs[*run.point.values(), run.scope][OnServer(f"run {run.run}", run.server or 0)] = run.epoch_s
    timed = {(*row.point.values(), row.scope): row for row in times if row.status == "ok"}
    for here, row in timed.items():
        there = (*row.point.values(), "end_to_end")
        if row.scope != "compute" or there not in timed:
            continue
        loaded = timed[there]
        both = [(run, epoch_s, of_runs[here][run]) for run, epoch_s in of_runs[there].items() if run in of_runs[here]]
        yield ScopesRow(
            **row.point,
            is_headline=row.is_headline,
            epoch_s=row.epoch_s,
            end_to_end_epoch_s=loaded.epoch_s,
            loader_s=_over_runs({run: loaded_s - in_memory_s for run, loaded_s, in_memory_s in both}, "linear"),
            loading_ratio=_over_runs({run: loaded_s / in_memory_s for run, loaded_s, in_memory_s in both}, "log"),
            speedup=gained.get(here, UNKNOWN),
            end_to_end_speedup=gained.get(there, UNKNOWN),
        )


def _over_runs(values: Mapping[OnServer, float], scale: Scale) -> Figure:
    """The mean over the runs that timed both; unknown where none did."""
    return estimate_of_blocks(values, scale) if values else UNKNOWN


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

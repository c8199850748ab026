"""Epoch times side by side: with and without the DataLoader in the clock, and of two strategies."""

from collections.abc import Callable, Iterator, Sequence
from operator import sub, truediv

from dpscale.formulas.figure import UNKNOWN, Figure, Scale, derive_in_blocks
from dpscale.strategies.known import BASELINE, STRATEGIES
from dpscale.tables.timing import ScopesRow, SpeedupRow, StrategyPairsRow, TimesRow


def scopes_rows(times: Sequence[TimesRow], speedups: Sequence[SpeedupRow]) -> Iterator[ScopesRow]:
    """The configurations that were measured with and without the DataLoader in the clock."""
    gained = {
        (*row.point.values(), row.scope): row.speedup
        for row in speedups
        if row.status == "ok" and row.scaling == "weak"
    }
    timed = {(*row.point.values(), row.scope): row for row in times if row.status == "ok"}
    for here, row in timed.items():
        there = (*row.point.values(), "end_to_end")
        if row.scope != "compute" or there not in timed:
            continue
        loaded = timed[there]
        yield ScopesRow(
            **row.point,
            is_headline=row.is_headline,
            epoch_s=row.epoch_s,
            end_to_end_epoch_s=loaded.epoch_s,
            loader_s=_in_blocks(sub, loaded.epoch_s, row.epoch_s, "linear"),
            loading_ratio=_in_blocks(truediv, loaded.epoch_s, row.epoch_s, "log"),
            speedup=gained.get(here, UNKNOWN),
            end_to_end_speedup=gained.get(there, UNKNOWN),
        )


def _in_blocks(formula: Callable[[float, float], float], loaded: Figure, in_memory: Figure, scale: Scale) -> Figure:
    """The mean of what the formula gives in each run that timed both; unknown where none did."""
    both = loaded.blocks.keys() & in_memory.blocks.keys()
    return derive_in_blocks(formula, loaded, in_memory, scale=scale) if both else UNKNOWN


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

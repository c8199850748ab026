"""Every run and every block as it was measured: none is left out of a table because of what it says.

And what servers, runs and epochs add to the variance of an epoch time.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from statistics import median

import numpy as np

from dpscale.analyse.timing.blocks import Block, Timed, run_of
from dpscale.analyse.timing.points import Comparison, Point
from dpscale.formulas import scaling
from dpscale.formulas.figure import Figure, OnServer
from dpscale.formulas.statistics import (
    OUTLIER_DEVIATIONS,
    VarianceComponents,
    repeatability,
    robust_deviations,
    variance_components,
)
from dpscale.tables.timing import BlocksRow, RunsRow, VarianceComponentsRow


def run_rows(points: Iterable[Point]) -> Iterator[RunsRow]:
    """A row for every run of every configuration in every scope."""
    for point in points:
        deviations = _deviations(point.measured_epoch)
        for record in point.measured:
            scope, timed = record["scopes"][point.scope], Timed.of(record["scopes"][point.scope])
            deviation = deviations[run_of(record)]
            yield RunsRow(
                **point.place,
                run=record["cell"]["run"],
                server=record["server"],
                host=record["hardware"]["host"],
                started_at=record["started_at"],
                n=len(scope["epoch_s"]),
                epoch_s=timed.epoch_s,
                step_s=timed.step_s,
                repeatability=repeatability([scope["epoch_s"]]),
                robust_deviations=deviation,
                is_outlier=None if math.isnan(deviation) else _is_outlier(deviation),
            )


def _deviations(epoch: Figure) -> dict[OnServer, float]:
    """How far every run lies off, by its name: of logarithms, as runs vary in proportion. NaN of too few runs."""
    return dict(zip(epoch.blocks, robust_deviations([math.log(value) for value in epoch.blocks.values()]), strict=True))


def _is_outlier(deviation: float) -> bool:
    return abs(deviation) > OUTLIER_DEVIATIONS


def outlier_words(epoch: Figure) -> str:
    """`run 3 (+12 %)`: the runs that lie more than `OUTLIER_DEVIATIONS` off, and by how much of the median."""
    middle = median(epoch.blocks.values())
    return ", ".join(
        f"{run.block} ({100 * (epoch.blocks[run] / middle - 1):+.2g} %)"
        for run, deviation in _deviations(epoch).items()
        if _is_outlier(deviation)
    )


def block_rows(series: str, compared: Iterable[Comparison]) -> Iterator[BlocksRow]:
    """A row for every block of a series, weak or strong, and one for every run that has no baseline."""
    for comparison in compared:
        place = comparison.point.place
        for block in comparison.blocks:
            yield _block_row(BlocksRow(**place, scaling=series, block=block.name, status="ok"), block)
        for run, why in comparison.without.items():
            yield BlocksRow(**place, scaling=series, block=run, status="no baseline", reason=why)


def _block_row(row: BlocksRow, block: Block) -> BlocksRow:
    baseline_s, epoch_s = block.baseline.epoch_s, block.parallel.epoch_s
    row = replace(
        row,
        baseline=block.origin,
        epoch_s=epoch_s,
        baseline_epoch_s=baseline_s,
        before_epoch_s=block.before_s,
        after_epoch_s=block.after_s,
        drift=block.drift,
        has_drifted=None if math.isnan(block.drift) else block.has_drifted,
        speedup=scaling.speedup(baseline_s, epoch_s),
    )
    if row.scaling == "strong":
        return row
    return replace(
        row,
        communication_s=scaling.communication_s(baseline_s, epoch_s, row.gpus),
        communication_step_s=scaling.communication_step_s(block.baseline.step_s, block.parallel.step_s),
    )


def component_rows(points: Iterable[Point]) -> Iterator[VarianceComponentsRow]:
    """A row for every configuration: what servers, runs and epochs add to its epoch time, as standard deviations of
    its logarithm, which are relative ones."""
    for point in points:
        nested: dict[int, list[Sequence[float]]] = defaultdict(list)
        for record in point.measured:
            nested[record["server"]].append(np.log(record["scopes"][point.scope]["epoch_s"]).tolist())
        if nested:
            found = variance_components(list(nested.values()))
            yield VarianceComponentsRow(
                **point.place,
                reason="; ".join(_not_told(found)),
                servers=found.servers,
                runs=found.runs,
                n=found.epochs,
                server_deviation=_deviation(found.server),
                run_deviation=_deviation(found.run),
                epoch_deviation=_deviation(found.epoch),
            )


def _not_told(found: VarianceComponents) -> Iterator[str]:
    """Why a component is missing, or holds another one too."""
    if found.servers == 1:
        yield "one server: what servers differ by is not told"
    elif found.servers == found.runs:
        yield "one run per server: what a run adds holds what its server adds"
    if found.runs == 1:
        yield "one run: what runs differ by is not told"
    if found.epochs == found.runs:
        yield "one epoch per run: what a run adds holds what an epoch adds"


def _deviation(variance: float) -> float:
    """The standard deviation; zero where the estimate of the variance is below zero, as it can be of a small one."""
    return math.sqrt(max(0.0, variance)) if not math.isnan(variance) else math.nan

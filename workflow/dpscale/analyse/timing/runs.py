"""Every run and every block as it was measured: none is left out of a table because of what it says."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace

from dpscale.analyse.timing.blocks import Block, Timed
from dpscale.analyse.timing.points import Comparison, Point
from dpscale.formulas import scaling
from dpscale.formulas.statistics import repeatability
from dpscale.records.timed import epochs_s
from dpscale.tables.timing import BlocksRow, RunsRow


def run_rows(points: Iterable[Point], variant: str = "") -> Iterator[RunsRow]:
    """A row for every run of every configuration in every scope, under the study's own settings or a variant's."""
    for point in points:
        for record in point.measured:
            epochs, timed = epochs_s(record.scopes[point.scope]), Timed.of(record.scopes[point.scope])
            yield RunsRow(
                **point.place,
                variant=variant,
                run=record.cell.run,
                server=record.block.server,
                host=record.hardware.host,
                started_at=record.started_at,
                n=len(epochs),
                epoch_s=timed.epoch_s,
                step_s=timed.step_s,
                repeatability=repeatability([epochs]),
            )


def block_rows(compared: Iterable[tuple[str, Comparison]]) -> Iterator[BlocksRow]:
    """A row for every block of a series, weak or strong, and one for every run that has no baseline."""
    for series, comparison in compared:
        row = BlocksRow(**comparison.point.place, scaling=series)
        for block in comparison.blocks:
            yield _block_row(row, block)
        for run, why in comparison.without.items():
            yield replace(row, block=run, status="no baseline", reason=why)


def _block_row(row: BlocksRow, block: Block) -> BlocksRow:
    alone, parallel = block.baseline, block.parallel
    speedup = scaling.speedup(alone.epoch_s, parallel.epoch_s)
    row = replace(
        row,
        block=block.name,
        server=block.key.server,
        status="ok",
        baseline=block.origin,
        epoch_s=parallel.epoch_s,
        baseline_epoch_s=alone.epoch_s,
        drift=block.drift,
        has_drifted=None if math.isnan(block.drift) else block.has_drifted,
        speedup=speedup,
        efficiency=scaling.efficiency(speedup, row.gpus),
    )
    if row.scaling == "strong":
        return row
    return replace(
        row,
        communication_s=scaling.communication_s(alone.epoch_s, parallel.epoch_s, row.gpus),
        communication_step_s=scaling.communication_step_s(alone.step_s, parallel.step_s),
    )

"""Figures of a point's runs, and of the runs of two points that shared a GPU."""

from collections.abc import Callable, Mapping
from typing import Any

from dpscale.analyse.blocks import blocks_of_cells, run_name
from dpscale.analyse.points import Point, Row, figures
from dpscale.formulas.figure import Figure
from dpscale.formulas.statistics import Scale, derive, estimate_of_blocks
from dpscale.records.files import Record


def over_runs(point: Point, figure: Callable[[Record], float | None], name: str) -> Figure | None:
    """The mean over the runs that have this figure above zero, of logarithms; None where none has."""
    values = {run_name(record): float(value) for record in point.measured if (value := figure(record) or 0.0) > 0}
    label = f"{name} {point.configuration} {point.scope} {point.environment}"
    return estimate_of_blocks(values, label) if values else None


def set_against(point: Point, other: Point, formula: Callable[..., Any], scale: Scale, name: str) -> tuple[Figure, int]:
    """A figure of the epoch times of two measured points, and of how many blocks it is the mean: runs of both that used
    one GPU. Where there is no such block, it is that of two independent times, and of 0 blocks."""
    blocks = blocks_of_cells(point.measured, other.measured, point.scope)
    if blocks:
        of_block = {block.name: float(formula(block.parallel.epoch_s, block.baseline.epoch_s)) for block in blocks}
        label = f"{name} {point.configuration} {point.scope} {point.environment}"
        return estimate_of_blocks(of_block, label, scale), len(blocks)
    assert point.epoch is not None and other.epoch is not None
    return derive(formula, point.epoch, other.epoch), 0


def with_figures(row: Row, found: Mapping[str, Figure]) -> Row:
    """The row with more figures, and the names of all that lie in a range."""
    more = figures(found)
    ranges = "; ".join(filter(None, [row.get("ranges"), more["ranges"]]))
    return {**row, **more, "ranges": ranges or None}

"""The same GPUs, used otherwise: every variant of a study beside the study's own settings."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from statistics import median
from typing import TypeVar

from dpscale.analyse.points import Point, PointKey, Points, Row, compare, figures, points_of
from dpscale.analyse.times import times_row
from dpscale.formulas.statistics import Estimate, derive
from dpscale.plan.cells import AnyCell, TimingCell, VariantCell
from dpscale.plan.study import Study
from dpscale.records.collect import Collected

T = TypeVar("T")

# What the study's own settings are called beside its variants.
BASE = "base"


def variant_rows(
    study: Study, collected: Collected, environments: Mapping[AnyCell, str], base: Points
) -> Iterator[Row]:
    """A row per point of every variant, after one per point of the study itself that a variant was measured at.

    Speedup is over one GPU of the same variant; `faster` is over the study's own settings on as many GPUs. None where
    the study has no variants.
    """
    found = {name: _points(name, own, collected, environments) for name, own in study.variants.items()}
    places = {_place(point) for points in found.values() for point in points.values()}
    for point in base.values():
        if _place(point) in places:
            yield {"variant": BASE, **_row(study, base, point, collected)}
    for name, points in found.items():
        for key, point in points.items():
            yield {
                "variant": name,
                **_row(study.variants[name], points, point, collected),
                **_beside_base(point, base.get(key)),
            }


def _place(point: Point) -> tuple[object, str]:
    return point.configuration, point.scope


def _points(
    name: str, own: Study, collected: Collected, environments: Mapping[AnyCell, str]
) -> Mapping[PointKey, Point]:
    """The points of a variant, as those of a study of its own."""
    known = (*collected.records, *collected.rejected, *collected.failures)
    cells: dict[AnyCell, AnyCell] = {
        cell: TimingCell(cell.configuration, cell.run)
        for cell in known
        if isinstance(cell, VariantCell) and cell.variant == name
    }
    alone = replace(
        collected,
        records=_of_cells(cells, collected.records),
        rejected=_of_cells(cells, collected.rejected),
        failures=_of_cells(cells, collected.failures),
    )
    return points_of(own, alone, _of_cells(cells, environments))


def _of_cells(cells: Mapping[AnyCell, AnyCell], some: Mapping[AnyCell, T]) -> dict[AnyCell, T]:
    return {cells[cell]: value for cell, value in some.items() if cell in cells}


def _row(study: Study, points: Points, point: Point, collected: Collected) -> Row:
    row = times_row(study, point, collected.network)
    compared = compare(points, point, point.configuration.batch_per_gpu) if point.configuration.gpus > 1 else None
    speedup = figures({"speedup": compared.speedup}) if compared and compared.blocks else {}
    prepared = [record["preparation_s"] for record in point.records if record.get("preparation_s") is not None]
    return {**row, **speedup, "preparation_s": median(prepared) if prepared else None}


def _beside_base(point: Point, base: Point | None) -> Row:
    """How many times as fast as the study's own settings; and after how many epochs the preparation has paid."""
    if point.epoch is None or base is None or base.epoch is None:
        return {}
    faster = derive(lambda own, before: before / own, point.epoch, base.epoch)
    prepared = [record["preparation_s"] for record in point.records if record.get("preparation_s") is not None]
    saved_s = base.epoch.value - point.epoch.value
    pays = {"pays_from_epochs": median(prepared) / saved_s} if prepared and saved_s > 0 else {}
    return {**_columns(faster), **pays}


def _columns(faster: Estimate) -> Row:
    return {name: value for name, value in figures({"faster": faster}).items() if name != "ranges"}

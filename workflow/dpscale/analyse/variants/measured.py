"""The points of a study under its own settings and under those of each of its variants."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import TypeVar

from dpscale.analyse.timing.points import Point, PointKey, Points, points_of
from dpscale.plan.cells import AnyCell, Configuration, TimingCell, VariantCell
from dpscale.plan.study import BASE, Study
from dpscale.records.collect import Collected

T = TypeVar("T")


@dataclass(frozen=True)
class Variant:
    """Points under settings of their own: the study's (`base`) or those of one of its variants."""

    name: str
    study: Study
    points: Points

    def epoch_s(self, key: PointKey) -> float:
        """The mean epoch at a point; infinite where it was not measured."""
        point = self.points.get(key)
        return point.epoch.value if point and point.epoch.is_known else inf


def variants_of(study: Study, collected: Collected, environments: Mapping[AnyCell, str], base: Points) -> list[Variant]:
    """The study's own settings where its variants were measured, then its variants in their order. Empty where it has
    none."""
    found = [Variant(name, own, _points(name, own, collected, environments)) for name, own in study.variants.items()]
    places = {_place(point) for variant in found for point in variant.points.values()}
    own_settings = {key: point for key, point in base.items() if _place(point) in places}
    return [Variant(BASE, study, own_settings), *found] if found else []


def _place(point: Point) -> tuple[Configuration, str]:
    return point.configuration, point.scope


def fastest_of(variants: Sequence[Variant]) -> dict[PointKey, Variant]:
    """The variant with the shortest mean epoch at every measured point, the study's own settings among them."""
    keys = {key: None for variant in variants for key in variant.points if variant.epoch_s(key) < inf}
    return {key: min(variants, key=lambda variant: variant.epoch_s(key)) for key in keys}


def _points(name: str, own: Study, collected: Collected, environments: Mapping[AnyCell, str]) -> Points:
    """The points of a variant, as those of a study of its own."""
    known = (*collected.records, *collected.rejected, *collected.failures)
    cells: dict[AnyCell, AnyCell] = {
        cell: TimingCell(cell.configuration, cell.run)
        for cell in known
        if isinstance(cell, VariantCell) and cell.variant == name
    }

    def of_variant(some: Mapping[AnyCell, T]) -> dict[AnyCell, T]:
        return {cells[cell]: value for cell, value in some.items() if cell in cells}

    alone = replace(
        collected,
        records=of_variant(collected.records),
        rejected=of_variant(collected.rejected),
        failures=of_variant(collected.failures),
    )
    return points_of(own, alone, of_variant(environments))

"""The points of a study under its own settings and under those of each of its variants.

Every variant has times of its own: T(1,b) over all that timed one GPU with it. Two times that are set against each
other have the quotient of these as they are shown. They count as independent: a step in a graph is as long on every
server, an eager one is not, so a ratio inside servers would give the first the spread of the second.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from dpscale.analyse.timing.points import Point, PointKey, Points, points_of
from dpscale.formulas.figure import Figure, ratio, units_of
from dpscale.plan.cells import Configuration
from dpscale.plan.plan import plan
from dpscale.plan.study import BASE, Study
from dpscale.records.kinds import TimingRecord
from dpscale.tables.study import MissingRow

# Records by their variant and configuration, and environment.
ByVariant = Mapping[tuple[tuple[str, Configuration], str], Sequence[TimingRecord]]


@dataclass(frozen=True)
class Variant:
    """Points under settings of their own: the study's (`base`) or those of one of its variants."""

    name: str
    study: Study
    points: Points

    def epoch_s(self, key: PointKey) -> float:
        """Return the epoch at a point in seconds; infinite where it was not measured."""
        point = self.points.get(key)
        return point.epoch.value if point and point.epoch.is_known else inf


def variants_of(study: Study, timed: ByVariant, missing: Sequence[MissingRow]) -> list[Variant]:
    """Return the variants of a study in their order, each with its own points."""
    return [
        Variant(name, variant_study, _points(name, variant_study, timed, missing))
        for name, variant_study in study.variants.items()
    ]


def with_further_scopes(study: Study, points: Points, variants: Sequence[Variant]) -> tuple[Points, list[Variant]]:
    """Return the points of a study with those of its variants that have its own settings in other scopes, such as
    loading at some batches alone; and the variants that have other settings."""
    further = [variant for variant in variants if changed_settings(variant.study, study) == ["scopes"]]
    added = {key: point for variant in further for key, point in variant.points.items() if key not in points}
    return {**points, **added}, [variant for variant in variants if variant not in further]


def changed_settings(study: Study, base: Study) -> list[str]:
    """Return the names of the settings that have another value in `study` than in `base`."""
    names = study.settings.names()
    return [name for name in names if getattr(study.settings, name) != getattr(base.settings, name)]


def beside_base(study: Study, points: Points, variants: Sequence[Variant]) -> list[Variant]:
    """Return the study's own settings where its variants were measured, then its variants; empty where it has none."""
    places = {_place(point) for variant in variants for point in variant.points.values()}
    own_settings = {key: point for key, point in points.items() if _place(point) in places}
    return [Variant(BASE, study, own_settings), *variants] if variants else []


def times_as_fast(point: Point, reference: Point) -> tuple[Figure, int]:
    """Return how many times as fast the epochs of `point` are as those of `reference`, as independent times; and the
    units that the one with fewer rests on."""
    units = min(len(units_of(timed.epoch.blocks)) for timed in (point, reference))
    return ratio(reference.epoch, point.epoch), units


def _place(point: Point) -> tuple[Configuration, str]:
    return point.configuration, point.scope


def fastest_of(variants: Sequence[Variant]) -> dict[PointKey, Variant]:
    """Return the variant with the shortest epoch at every measured point, the study's own settings among them."""
    keys = {key: None for variant in variants for key in variant.points if variant.epoch_s(key) < inf}
    return {key: min(variants, key=lambda variant: variant.epoch_s(key)) for key in keys}


def _points(name: str, variant_study: Study, timed: ByVariant, missing: Iterable[MissingRow]) -> Points:
    """Return the points of a variant, as those of a study of its own."""
    records_of_variant = {
        (configuration, letter): records
        for ((variant, configuration), letter), records in timed.items()
        if variant == name
    }
    missing_of_variant = [row for row in missing if row.variant == name]
    return points_of(variant_study, plan(variant_study), records_of_variant, missing_of_variant)

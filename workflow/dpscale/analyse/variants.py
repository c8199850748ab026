"""The points of a study under its own settings and under those of each of its variants.

Every variant has times of its own: T(1,b) over all that timed one GPU with it. Two times that are set against each
other have the quotient of these as they are shown. They count as independent: a step in a graph is as long on every
server, an eager one is not, so a ratio inside servers would give the first the spread of the second.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from operator import truediv
from statistics import stdev

from dpscale.analyse.answer.claims import (
    ONE_DEVICE_AS_FAST,
    ONE_DEVICE_SLOWER,
    PREPARATION_NEVER_PAYS,
    PREPARATION_PAYS,
)
from dpscale.analyse.timing.points import Point, PointKey, Points, points_of
from dpscale.analyse.timing.times import times_row
from dpscale.formulas import scaling
from dpscale.formulas.figure import UNKNOWN, Figure, derive_in_blocks, ratio, units_of
from dpscale.plan.cells import Configuration
from dpscale.plan.plan import plan
from dpscale.plan.study import BASE, Study
from dpscale.records.kinds import TimingRecord
from dpscale.strategies.known import BASELINE
from dpscale.strategies.strategy import NetworkFacts
from dpscale.tables.study import MissingRow
from dpscale.tables.timing import OneGpuRow, VariantsRow
from dpscale.vocabulary.states import DOES_NOT, HOLDS, NEVER, PAYS, UNDECIDED

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


def variant_rows(variants: Sequence[Variant], network: NetworkFacts | None) -> Iterator[VariantsRow]:
    """Yield a row per point of every variant."""
    fastest = fastest_of(variants)
    for variant in variants:
        base = variants[0]
        changed = changed_settings(variant.study, base.study)
        for key, point in variant.points.items():
            row = replace(
                VariantsRow.read(times_row(variant.study, point, network).flat()),
                variant=variant.name,
                changes="; ".join(f"{name}={getattr(variant.study.settings, name)}" for name in changed),
            )
            if point.epoch.is_known:
                row = replace(_measured(row, variant, point, network), is_fastest=fastest[key] is variant)
                base_point = base.points.get(key)
                if variant is not base and base_point and base_point.epoch.is_known:
                    row = _beside_base(row, variant, point, base, base_point)
            yield row


def _measured(row: VariantsRow, variant: Variant, point: Point, network: NetworkFacts | None) -> VariantsRow:
    """Return the row with what a point's own records say, and its speedup over one GPU of the same variant."""
    epochs_s = point.epoch.blocks.values()
    row = replace(
        row,
        preparation_s=point.over_runs(lambda record: record.preparation_s),
        speedup=_speedup(point),
        other_runs=point.weak.is_of_other_runs if point.configuration.gpus > 1 and point.weak.blocks else None,
        run_deviation=stdev(map(math.log, epochs_s)) if len(epochs_s) > 1 else math.nan,
    )
    return _beside_the_chip(row, variant.study, point, network)


def _speedup(point: Point) -> Figure:
    """Return the speedup over one GPU of the same variant; unknown without such a baseline, and for one GPU itself."""
    return point.weak.speedup if point.configuration.gpus > 1 and point.weak.blocks else UNKNOWN


def _beside_the_chip(row: VariantsRow, study: Study, point: Point, network: NetworkFacts | None) -> VariantsRow:
    """Return the row with the GPU's matrix product, and MFU against it. Only what the records hold."""
    product = point.over_runs(lambda record: record.chip.matrix_flop_per_s if record.chip else None)
    row = replace(row, matrix_flop_per_s=product)
    if network is None or network.flop_per_image is None or not product.is_known:
        return row
    flop = network.flop_per_image.forward_backward
    images_per_s = point.epoch.map(lambda epoch_s: scaling.throughput(study.epoch_images, epoch_s))
    at_most_per_s = derive_in_blocks(lambda flop_per_s: row.gpus * (flop_per_s / flop), product)
    return replace(row, mfu_measured=_reached(images_per_s, at_most_per_s))


def _reached(images_per_s: Figure, limit: Figure) -> Figure:
    """Return throughput over a limit: in each run, where the same runs have both; otherwise of independent figures."""
    if images_per_s.blocks.keys() == limit.blocks.keys():
        return derive_in_blocks(truediv, images_per_s, limit)
    return ratio(images_per_s, limit)


def _beside_base(row: VariantsRow, variant: Variant, point: Point, base: Variant, base_point: Point) -> VariantsRow:
    """Return the row with how many times as fast it is as the study's own settings on as many GPUs, what an epoch
    saves, and from which epoch on the preparation has paid."""
    faster, units = times_as_fast(point, base_point)
    saved = faster.map(lambda times: base_point.epoch.value * (1 - 1 / times))
    row = replace(row, faster=faster, faster_units=units, saved_s=saved)
    if row.gpus > 1:
        row = replace(row, base_speedup=_speedup(base_point), alone_faster=_alone_faster(variant, point, base))
    return _paying(row) if row.preparation_s.is_known else row


def _alone_faster(variant: Variant, point: Point, base: Variant) -> Figure:
    """Return how many times as fast one GPU is by the variant."""
    key = _on_one_gpu(point)
    changed, unchanged = variant.points.get(key), base.points.get(key)
    if changed is None or unchanged is None or not (changed.epoch.is_known and unchanged.epoch.is_known):
        return UNKNOWN
    return times_as_fast(changed, unchanged)[0]


def _on_one_gpu(point: Point) -> PointKey:
    """Return the place of one GPU with the batch of a point."""
    return Configuration(BASELINE, 1, point.configuration.batch_per_gpu), point.scope, point.environment


def _paying(row: VariantsRow) -> VariantsRow:
    """Return the row with whether what an epoch saves pays for the preparation, and from which epoch on, rounded up;
    its interval where it surely pays."""
    pays = PAYS if PREPARATION_PAYS.holds(row) else NEVER if PREPARATION_NEVER_PAYS.holds(row) else UNDECIDED
    epochs = ratio(row.preparation_s, row.saved_s)
    if epochs.is_known:
        epochs = epochs.map(_rounded_up) if pays == PAYS and epochs.has_interval else Figure(_rounded_up(epochs.value))
    return replace(row, pays=pays, pays_from_epochs=epochs)


def _rounded_up(epochs: float) -> int:
    """Return whole epochs; what a whole number is off by in the computer's arithmetic makes no epoch more."""
    return math.ceil(epochs * (1 - 1e-9))


def one_gpu_rows(variants: Sequence[Variant]) -> Iterator[OneGpuRow]:
    """Yield the fastest variant on one GPU beside every variant on several, at every batch per GPU that one GPU was
    measured at too."""
    fastest = fastest_of(variants)
    for variant in variants:
        for point in variant.points.values():
            key = _on_one_gpu(point)
            if point.configuration.gpus > 1 and point.epoch.is_known and key in fastest:
                yield _beside_one_gpu(point, variant, fastest[key].points[key], fastest[key])


def _beside_one_gpu(point: Point, variant: Variant, one_gpu: Point, one_gpu_variant: Variant) -> OneGpuRow:
    """Return an epoch of one GPU beside that of a point of several, and how many times as fast the one GPU is."""
    times, units = times_as_fast(one_gpu, point)
    row = OneGpuRow(
        **point.place,
        variant=one_gpu_variant.name,
        other_variant=variant.name,
        full_steps_per_epoch=point.full_steps,
        units=units,
        epoch_s=one_gpu.epoch,
        other_epoch_s=point.epoch,
        ratio=times,
    )
    as_fast = HOLDS if ONE_DEVICE_AS_FAST.holds(row) else DOES_NOT if ONE_DEVICE_SLOWER.holds(row) else UNDECIDED
    return replace(row, as_fast=as_fast)

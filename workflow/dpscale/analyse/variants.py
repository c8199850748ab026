"""The points of a study under its own settings and under those of each of its variants.

Every variant has times of its own: T(1,b) over all that timed one GPU with it. Two times that are set against each
other have the quotient of these as they are shown. They count as independent: a step in a graph is as long on every
server, an eager one is not, so a ratio inside servers would give the first the spread of the second.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import truediv
from statistics import stdev

from msgspec.structs import asdict

from dpscale.analyse.answer import COMPUTE
from dpscale.analyse.points import Point, PointKey, Points, point_fields, points_of, speedup_row
from dpscale.analyse.times import times_row
from dpscale.formulas import scaling
from dpscale.formulas.figure import UNKNOWN, Figure, derive_in_blocks, less, multiplied, ratio, units_of
from dpscale.plan.cells import Configuration
from dpscale.plan.plan import plan
from dpscale.plan.study import BASE, Study
from dpscale.records.kinds import TimingRecord
from dpscale.strategies.known import BASELINE
from dpscale.strategies.strategy import NetworkFacts
from dpscale.tables.memory import RooflineRow
from dpscale.tables.study import MissingRow
from dpscale.tables.timing import NetworksRow, OneGpuRow, VariantsRow
from dpscale.vocabulary.chips import chip_named

# Records by their variant and configuration, and environment.
ByVariant = Mapping[tuple[tuple[str, Configuration], str], Sequence[TimingRecord]]


@dataclass(frozen=True)
class Variant:
    """Points under settings of their own: the study's (`base`) or those of one of its variants."""

    name: str
    study: Study
    points: Points


def variants_of(study: Study, timed: ByVariant, missing: Sequence[MissingRow]) -> list[Variant]:
    """Return the variants of a study in their order, each with its points as a study of its own has them."""
    variants = []
    for name, variant_study in study.variants.items():
        records = {
            (place, letter): measured for ((variant, place), letter), measured in timed.items() if variant == name
        }
        missing_here = [row for row in missing if row.variant == name]
        points = points_of(variant_study, plan(variant_study), records, missing_here)
        variants.append(Variant(name, variant_study, points))
    return variants


def with_further_points(study: Study, points: Points, variants: Sequence[Variant]) -> tuple[Points, list[Variant]]:
    """Return the points of a study with those of its variants that have its own settings at further batches, or in
    other scopes, such as loading at some batches alone; and the variants that have other settings."""
    further = [variant for variant in variants if {*changed_settings(variant.study, study)} <= {"scopes"}]
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
    fastest: dict[PointKey, Variant] = {}
    for variant in variants:
        for key, point in variant.points.items():
            before = fastest.get(key)
            if point.epoch.is_known and (before is None or point.epoch.value < before.points[key].epoch.value):
                fastest[key] = variant
    return fastest


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
                    faster, units = times_as_fast(point, base_point)
                    longer_step_s = less(point.step, base_point.step)
                    row = replace(row, faster=faster, faster_units=units, longer_step_s=longer_step_s)
            yield row


def _measured(row: VariantsRow, variant: Variant, point: Point, network: NetworkFacts | None) -> VariantsRow:
    """Return the row with what a point's own records say, and its speedup over one GPU of the same variant."""
    epochs_s = point.epoch.blocks.values()
    has_speedup = point.configuration.gpus > 1 and bool(point.weak.blocks)
    row = replace(
        row,
        preparation_s=point.over_runs(lambda record: record.preparation_s),
        speedup=point.weak.speedup if has_speedup else UNKNOWN,
        other_runs=point.weak.is_of_other_runs if has_speedup else None,
        run_deviation=stdev(map(math.log, epochs_s)) if len(epochs_s) > 1 else math.nan,
    )
    return _beside_the_chip(row, variant.study, point, network)


def _beside_the_chip(row: VariantsRow, study: Study, point: Point, network: NetworkFacts | None) -> VariantsRow:
    """Return the row with the rate of the GPU's matrix product, and MFU against it, as far as the records hold them."""
    product = point.over_runs(lambda record: record.chip.matrix_flop_per_s if record.chip else None)
    row = replace(row, matrix_flop_per_s=product)
    if network is None or network.flop_per_image is None or not product.is_known:
        return row
    flop = network.flop_per_image.forward_backward
    images_per_s = point.epoch.map(lambda epoch_s: scaling.throughput(study.epoch_images, epoch_s))
    at_most_per_s = derive_in_blocks(lambda flop_per_s: row.gpus * (flop_per_s / flop), product)
    # In each run, where the same runs have both; otherwise of independent figures.
    if images_per_s.blocks.keys() == at_most_per_s.blocks.keys():
        return replace(row, mfu_measured=derive_in_blocks(truediv, images_per_s, at_most_per_s))
    return replace(row, mfu_measured=ratio(images_per_s, at_most_per_s))


def one_gpu_rows(variants: Sequence[Variant]) -> Iterator[OneGpuRow]:
    """Yield the fastest variant on one GPU beside every variant on several, at every batch per GPU that one GPU was
    measured at too, and how many times as fast the one GPU is."""
    fastest = fastest_of(variants)
    for variant in variants:
        for point in variant.points.values():
            key = Configuration(BASELINE, 1, point.configuration.batch_per_gpu), point.scope, point.environment
            if point.configuration.gpus == 1 or not point.epoch.is_known or key not in fastest:
                continue
            one_gpu = fastest[key].points[key]
            ratio_of_epochs, units = times_as_fast(one_gpu, point)
            yield OneGpuRow(
                **point.place,
                variant=fastest[key].name,
                other_variant=variant.name,
                full_steps_per_epoch=point.full_steps,
                is_headline=point.is_headline,
                units=units,
                epoch_s=one_gpu.epoch,
                other_epoch_s=point.epoch,
                ratio=ratio_of_epochs,
            )


def network_rows(networks: Sequence[Variant]) -> Iterator[NetworksRow]:
    """Yield a row per network and configuration of several GPUs. Communication is inferred: cells that take a step
    apart are of the study's own network alone."""
    for network in networks:
        for point in network.points.values():
            if point.configuration.gpus > 1:
                compared = point.weak
                timed, speedup = times_row(network.study, point, None).flat(), speedup_row("weak", compared).flat()
                size = next((asdict(record.network) for record in point.records if record.network), {})
                row = NetworksRow.read({**timed, **speedup, **size, "variant": network.name})
                yield replace(row, communication_step_s=compared.communication_step) if compared.blocks else row


def roofline_rows(variants: Sequence[Variant]) -> Iterator[RooflineRow]:
    """Yield a row for every batch, under every variant and with every network, whose step was counted and timed on one
    GPU without loading. A GPU without a data sheet has no roof."""
    for variant in variants:
        for (configuration, scope, environment), point in variant.points.items():
            work = next((memory.work for record in point.measured for memory in record.memory if memory.work), None)
            if scope != COMPUTE or work is None:
                continue
            row = RooflineRow(
                **point_fields(configuration, environment),
                variant=variant.name,
                precision=variant.study["precision"],
                moved_bytes=work.moved_bytes,
                intensity=work.flop / work.moved_bytes,
                flop_per_s=point.step.map(partial(truediv, work.flop)),
            )
            chip = chip_named(point.records[0].hardware.device_model)
            if chip and (peak := chip.peak(row.precision)):
                row = replace(row, peak_flop_per_s=peak.flop_s, memory_gb_s=chip.memory_gb_s)
                roof = row.roof_at(row.intensity)
                row = replace(row, roof_flop_per_s=roof, roof_share=multiplied(row.flop_per_s, 1 / roof))
            yield row

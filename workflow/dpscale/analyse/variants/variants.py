"""The same GPUs, used otherwise: every variant of a study beside the study's own settings."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from operator import truediv
from statistics import stdev

from dpscale.analyse.timing.points import Point
from dpscale.analyse.timing.times import times_row
from dpscale.analyse.variants.measured import Variant, changed_settings, fastest_of, times_as_fast
from dpscale.formulas import scaling
from dpscale.formulas.figure import UNKNOWN, Figure, derive_in_blocks, ratio
from dpscale.plan.cells import Configuration
from dpscale.plan.study import Study
from dpscale.strategies.facts import NetworkFacts
from dpscale.strategies.known import BASELINE
from dpscale.tables.variants import VariantsRow
from dpscale.vocabulary.states import NEVER, PAYS, UNDECIDED


def variant_rows(variants: Sequence[Variant], network: NetworkFacts | None) -> Iterator[VariantsRow]:
    """A row per point of every variant."""
    fastest = fastest_of(variants)
    for variant in variants:
        base = variants[0]
        for key, point in variant.points.items():
            row = replace(
                VariantsRow.read(times_row(variant.study, point, network).flat()),
                variant=variant.name,
                changes=_changes(variant, base),
            )
            if point.epoch.is_known:
                row = _measured(row, variant, point, network)
                row = replace(row, is_fastest=fastest[key] is variant)
                other = base.points.get(key)
                if variant is not base and other and other.epoch.is_known:
                    row = _beside_base(row, variant, point, base, other)
            yield row


def _changes(variant: Variant, base: Variant) -> str:
    """The settings that a variant has in place of the study's own: `compile=default; cuda_graph=True`."""
    changed = changed_settings(variant.study, base.study)
    return "; ".join(f"{name}={getattr(variant.study.settings, name)}" for name in changed)


def _measured(row: VariantsRow, variant: Variant, point: Point, network: NetworkFacts | None) -> VariantsRow:
    """With what a point's own records say, and its speedup over one GPU of the same variant."""
    own_runs = point.epoch.blocks
    row = replace(
        row,
        preparation_s=point.over_runs(lambda record: record.preparation_s),
        speedup=_speedup(point),
        other_runs=point.weak.is_of_other_runs if point.configuration.gpus > 1 and point.weak.blocks else None,
        run_deviation=stdev(map(math.log, own_runs.values())) if len(own_runs) > 1 else math.nan,
    )
    return _beside_the_chip(row, variant.study, point, network)


def _beside_the_chip(row: VariantsRow, study: Study, point: Point, network: NetworkFacts | None) -> VariantsRow:
    """With rates of the GPU, MFU against its matrix product, and the limits in images/s of all the point's GPUs with
    the share of each that is reached. Only what the records hold; no limit knows of communication."""
    product, copy = _rate(point, "matrix_flop_per_s"), _rate(point, "copy_bytes_per_s")
    if network is None or not (product.is_known and copy.is_known):
        return row
    row = replace(row, matrix_flop_per_s=product, copy_bytes_per_s=copy)
    if network.flop_per_image is None:
        return row
    gpus, flop = row.gpus, network.flop_per_image.forward_backward
    images_per_s = point.epoch.map(lambda epoch_s: scaling.throughput(study.epoch_images, epoch_s))

    def limit(of_one_gpu: Callable[..., float], *rates: Figure) -> Figure:
        """In images/s of all GPUs, by a formula of one GPU's rates."""
        return derive_in_blocks(lambda *of_run: gpus * of_one_gpu(*of_run), *rates)

    by_product = limit(lambda flop_per_s: flop_per_s / flop, product)
    row = replace(row, mfu_measured=_reached(images_per_s, by_product))
    elements = network.traffic_elements_per_image
    if elements is None:
        return row
    batch = row.batch_per_gpu
    step_bytes = scaling.traffic_bytes_per_step(elements, batch, study["precision"], network.parameters)

    def together(flop_per_s: float, bytes_per_s: float) -> float:
        return scaling.limit_images_per_s(
            scaling.compute_s_per_image(flop, flop_per_s), scaling.memory_s_per_image(step_bytes, batch, bytes_per_s)
        )

    both = limit(together, product, copy)
    return replace(row, limit_images_per_s=both, limit_share=_reached(images_per_s, both))


def _reached(images_per_s: Figure, limit: Figure) -> Figure:
    """Throughput over a limit: in each run, where the same runs have both; otherwise of independent figures."""
    if images_per_s.blocks.keys() == limit.blocks.keys():
        return derive_in_blocks(truediv, images_per_s, limit)
    return ratio(images_per_s, limit)


def _rate(point: Point, name: str) -> Figure:
    return point.over_runs(lambda record: getattr(record.chip, name) if record.chip else None)


def _speedup(point: Point) -> Figure:
    """Over one GPU of the same variant; unknown without such a baseline, and for one GPU itself."""
    return point.weak.speedup if point.configuration.gpus > 1 and point.weak.blocks else UNKNOWN


def _beside_base(row: VariantsRow, variant: Variant, point: Point, base: Variant, other: Point) -> VariantsRow:
    """With how many times as fast it is as the study's own settings on as many GPUs, what an epoch saves, and from
    which epoch on the preparation has paid."""
    faster, units = times_as_fast(point, other)
    saved = faster.map(lambda times: other.epoch.value * (1 - 1 / times))
    row = replace(row, faster=faster, faster_units=units, saved_s=saved)
    if row.gpus > 1:
        row = replace(
            row,
            base_speedup=_speedup(other),
            alone_faster=_alone_faster(variant, point, base),
        )
    return _paying(row) if row.preparation_s.is_known else row


def _alone_faster(variant: Variant, point: Point, base: Variant) -> Figure:
    """How many times as fast one GPU is by the variant."""
    alone = Configuration(BASELINE, 1, point.configuration.batch_per_gpu), point.scope, point.environment
    own, before = (some.points.get(alone) for some in (variant, base))
    if own is None or before is None or not (own.epoch.is_known and before.epoch.is_known):
        return UNKNOWN
    return times_as_fast(own, before)[0]


def _paying(row: VariantsRow) -> VariantsRow:
    """With whether what an epoch saves pays for the preparation, and from which epoch on, rounded up; its interval
    where it surely pays."""
    saved = row.saved_s
    pays = PAYS if saved.is_above(0) else NEVER if saved.has_interval and saved.high <= 0 else UNDECIDED
    epochs = ratio(row.preparation_s, saved)
    if epochs.is_known:
        epochs = epochs.map(_rounded_up) if pays == PAYS and epochs.has_interval else Figure(_rounded_up(epochs.value))
    return replace(row, pays=pays, pays_from_epochs=epochs)


def _rounded_up(epochs: float) -> int:
    """Whole epochs; what a whole number is off by in the computer's arithmetic makes no epoch more."""
    return math.ceil(epochs * (1 - 1e-9))

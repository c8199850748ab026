"""The same GPUs, used otherwise: every variant of a study beside the study's own settings."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import variance
from typing import Any, TypeVar

import numpy as np

from dpscale.analyse.over_runs import over_runs, set_against, with_figures
from dpscale.analyse.points import Point, PointKey, Points, Row, compare, points_of
from dpscale.analyse.row_figures import known_columns
from dpscale.analyse.runs import servers_used
from dpscale.analyse.times import times_row
from dpscale.analyse.variants.chip import against_the_chip
from dpscale.formulas.figure import INTERVAL, Figure
from dpscale.formulas.statistics import BLOCKS_FOR_INTERVAL, RESAMPLES, derive_in_blocks, ratio_of_deviations
from dpscale.plan.cells import AnyCell, Configuration, TimingCell, VariantCell
from dpscale.plan.study import BASE, Study
from dpscale.records.collect import Collected
from dpscale.records.files import Record
from dpscale.strategies.known import BASELINE
from dpscale.vocabulary.states import NEVER, PAYS, UNDECIDED

T = TypeVar("T")


@dataclass(frozen=True)
class Variant:
    """Points under settings of their own: the study's (`base`) or those of one of its variants."""

    name: str
    study: Study
    points: Points


def variants_of(study: Study, collected: Collected, environments: Mapping[AnyCell, str], base: Points) -> list[Variant]:
    """The study's own settings where its variants were measured, then its variants in their order. Empty where it has
    none."""
    found = [Variant(name, own, _points(name, own, collected, environments)) for name, own in study.variants.items()]
    places = {_place(point) for variant in found for point in variant.points.values()}
    own_settings = {key: point for key, point in base.items() if _place(point) in places}
    return [Variant(BASE, study, own_settings), *found] if found else []


def variant_rows(variants: Sequence[Variant], network: Record | None, servers: Mapping[str, int]) -> Iterator[Row]:
    """A row per point of every variant; `servers` as `runs.servers_of` numbers them."""
    fastest = fastest_of(variants)
    for variant in variants:
        for key, point in variant.points.items():
            row = _row(variant, point, network)
            if variant.name != BASE:
                row |= _beside_base(variant, point, variants[0], key, row)
                row |= _deviations_beside_base(point, variants[0].points.get(key), servers)
            is_fastest = None if point.epoch is None else fastest[where(point)].name == variant.name
            yield {"variant": variant.name, "changes": _changes(variant, variants[0]), **row, "is_fastest": is_fastest}


def _changes(variant: Variant, base: Variant) -> str | None:
    """The settings that a variant has in place of the study's own: `compile=default; cuda_graph=True`."""
    own, others = variant.study.settings, base.study.settings
    changed = (name for name in own.names() if getattr(own, name) != getattr(others, name))
    return "; ".join(f"{name}={getattr(own, name)}" for name in changed) or None


def fastest_of(variants: Sequence[Variant]) -> dict[tuple[Any, ...], Variant]:
    """The variant with the shortest mean epoch, the study's own settings among them, by `where` a point is."""
    times: dict[tuple[Any, ...], list[tuple[float, int]]] = {}
    for number, variant in enumerate(variants):
        for point in variant.points.values():
            if point.epoch is not None:
                times.setdefault(where(point), []).append((point.epoch.value, number))
    return {here: variants[min(found)[1]] for here, found in times.items()}


def where(point: Point) -> tuple[Any, ...]:
    """What points of different variants have in common that can be compared."""
    return point.configuration, point.scope, point.environment


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


def _row(variant: Variant, point: Point, network: Record | None) -> Row:
    """What a point's own records say, and its speedup over one GPU of the same variant."""
    row = times_row(variant.study, point, network)
    if point.epoch is None:
        return row
    gpus = point.configuration.gpus
    found = {"gpu_s": derive_in_blocks(lambda epoch_s: gpus * epoch_s, point.epoch, scale="log")}
    figures_of_runs = {
        "preparation_s": over_runs(point, lambda record: record.get("preparation_s"), "preparation"),
        "speedup": _speedup(variant.points, point),
    }
    found |= {name: figure for name, figure in figures_of_runs.items() if figure is not None}
    row["run_deviation"] = math.sqrt(_spread(point.epoch)) if len(point.epoch.blocks) > 1 else None
    return with_figures(row, {**found, **against_the_chip(variant.study, point, network)})


def _spread(epoch: Figure) -> float:
    """The variance of the logarithm of the epoch time over runs."""
    return variance(math.log(value) for value in epoch.blocks.values())


def _speedup(points: Points, point: Point) -> Figure | None:
    """Over one GPU of the same variant; None without such a baseline, and for one GPU itself."""
    if point.configuration.gpus == 1:
        return None
    compared = compare(points, point, point.configuration.batch_per_gpu)
    return compared.speedup if compared.blocks else None


def _beside_base(variant: Variant, point: Point, base: Variant, key: PointKey, row: Row) -> Row:
    """How many times as fast as the study's own settings on as many GPUs, what an epoch saves, and from which epoch on
    the preparation has paid. Of the runs of both that used one GPU, where there are any."""
    other = base.points.get(key)
    if point.epoch is None or other is None or other.epoch is None:
        return {}
    name = f"{variant.name} beside base"
    faster, blocks = set_against(point, other, lambda own_s, before_s: before_s / own_s, "log", f"{name}, ratio")
    saved, _ = set_against(point, other, lambda own_s, before_s: before_s - own_s, "linear", f"{name}, saved")
    found = {"faster": faster, "saved_s": saved}
    if point.configuration.gpus > 1:
        found |= _scaling_beside_base(variant, point, base, other)
    preparation = over_runs(point, lambda record: record.get("preparation_s"), "preparation")
    paying = {} if preparation is None else _paying(preparation, saved)
    return {**with_figures({"ranges": row.get("ranges")}, found), "faster_blocks": blocks, **paying}


def _deviations_beside_base(point: Point, other: Point | None, servers: Mapping[str, int]) -> Row:
    """How much its runs differ, over how much those of the study's own settings do. Nothing of too few runs, nor where
    these were on more servers than those: servers differ too."""
    if point.epoch is None or other is None or other.epoch is None:
        return {}
    runs = len(point.epoch.blocks), len(other.epoch.blocks)
    own_servers, others = (servers_used(one.measured, servers) for one in (point, other))
    if min(runs) < BLOCKS_FOR_INTERVAL or len(own_servers) != len(others):
        return {}
    found = ratio_of_deviations(_spread(point.epoch), runs[0] - 1, _spread(other.epoch), runs[1] - 1)
    return known_columns("deviation_ratio", found)


def _scaling_beside_base(variant: Variant, point: Point, base: Variant, other: Point) -> dict[str, Figure]:
    """The speedup of the study's own settings on as many GPUs, and how many times as fast one GPU is by the variant."""
    base_speedup = _speedup(base.points, other)
    found = {} if base_speedup is None else {"base_speedup": base_speedup}
    alone = Configuration(BASELINE, 1, point.configuration.batch_per_gpu), point.scope, point.environment
    ones = [some.points.get(alone) for some in (variant, base)]
    if all(one is not None and one.epoch is not None for one in ones):
        own, before = (one for one in ones if one is not None)
        found["alone_faster"], _ = set_against(
            own, before, lambda own_s, before_s: before_s / own_s, "log", f"{variant.name} alone beside base"
        )
    return found


def _paying(preparation: Figure, saved: Figure) -> Row:
    """Whether what an epoch saves pays for the preparation, and from which epoch on, rounded up; its interval
    where it surely pays."""
    low, high = saved.interval
    row: Row = {"pays": UNDECIDED}
    if saved.has_interval and (low > 0 or high <= 0):
        row["pays"] = PAYS if low > 0 else NEVER
    if saved.value > 0:
        row["pays_from_epochs"] = _rounded_up(preparation.value / saved.value)
    if row["pays"] == PAYS and preparation.draws is not None and saved.draws is not None:
        # Of draws alone, what an epoch saves may be nothing: those never pay.
        epochs = np.divide(preparation.draws, saved.draws, where=saved.draws > 0, out=np.full(RESAMPLES, np.inf))
        ends = np.quantile(epochs, INTERVAL, method="inverted_cdf")
        row |= {
            f"pays_from_epochs{end}": _rounded_up(value) for end, value in zip(("_low", "_high"), ends, strict=True)
        }
    return row


def _rounded_up(epochs: float) -> int:
    """Whole epochs; what a whole number is off by in the computer's arithmetic makes no epoch more."""
    return math.ceil(epochs * (1 - 1e-9))

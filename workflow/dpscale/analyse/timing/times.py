"""Epoch times, throughput, MFU and speedup of the points of a study."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import nan
from statistics import median
from typing import TypeVar

from dpscale.analyse.timing.points import HEADLINE_STEPS, Comparison, Point, Points
from dpscale.formulas import scaling
from dpscale.formulas.figure import Figure, multiplied, ratio
from dpscale.formulas.statistics import repeatability
from dpscale.plan.plan import batches_per_gpu
from dpscale.plan.study import Study
from dpscale.records.timed import epochs_s
from dpscale.strategies.known import strategy
from dpscale.strategies.strategy import Facts
from dpscale.tables.communication import BandwidthRow, CommunicationRow
from dpscale.tables.row import grouped
from dpscale.tables.timing import SpeedupRow, TimesRow
from dpscale.tables.variants import OneGpuRow, VariantsRow
from dpscale.vocabulary.chips import chip_named

Headlined = TypeVar("Headlined", TimesRow, SpeedupRow, CommunicationRow, BandwidthRow, VariantsRow, OneGpuRow)


def times_row(study: Study, point: Point, network: Facts | None) -> TimesRow:
    """Epoch and step of a point, and what follows from them alone."""
    row = TimesRow(
        **point.place,
        nodes=point.configuration.nodes,
        status=point.status,
        reason=point.reason,
        runs=len(point.records),
        n=sum(len(result.epoch_s) for result in point.results),
    )
    if not point.epoch.is_known:
        return row
    results = point.results
    row = replace(
        row,
        servers=len({block.server for block in point.epoch.blocks}),
        epoch_s=point.epoch,
        step_s=point.step,
        images_per_s=point.epoch.map(lambda epoch_s: scaling.throughput(study.epoch_images, epoch_s)),
        # A run without a counter has no energy.
        energy_j=point.over_runs(lambda record: median(record.scopes[point.scope].energy_j or [0])),
        repeatability=repeatability(list(map(epochs_s, results))),
        first_timed_epoch_s=median(epochs_s(result)[0] for result in results),
        loader_processes=_loader_processes(point),
        steps_per_epoch=results[0].steps_per_epoch,
        full_steps_per_epoch=point.full_steps,
        peak_memory_bytes=max((peak for result in results for peak in result.peak_memory_bytes or []), default=nan),
    )
    if network is None or network["flop_per_image"] is None:
        return row
    return _with_mfu(row, study, network["flop_per_image"]["forward_backward"], point)


def _loader_processes(point: Point) -> int:
    """DataLoader processes of all training processes together. Version 1 of the record does not say how many: every
    training process had as many as its setting."""
    recorded = point.results[0].loader_processes
    if recorded is not None or point.scope == "compute":
        return recorded or 0
    configuration = point.configuration
    processes = strategy(configuration.strategy).processes(configuration.gpus)
    return processes * int(point.measured[0].settings["loader_workers"])


def _with_mfu(row: TimesRow, study: Study, flop_per_image: float, point: Point) -> TimesRow:
    """With work done over work that the GPUs could do at most, where the peak of the GPU is known."""
    chip = chip_named(point.records[0].hardware.device_model)
    peak = chip.peak(study["precision"]) if chip else None
    row = replace(row, flop_per_image=flop_per_image, peak_source=chip.source if chip and peak else "unknown")
    if peak is None:
        return row
    return replace(row, mfu=row.images_per_s.map(lambda rate: scaling.mfu(flop_per_image, rate, row.gpus, peak.flop_s)))


def compared_points(study: Study, points: Points) -> Iterator[tuple[str, Comparison]]:
    """The points on several GPUs beside one GPU: of the `weak` series at the same batch per GPU, then of the `strong`
    ones at the same global batch."""
    several = [point for point in points.values() if point.configuration.gpus > 1]
    batches = batches_per_gpu(study["batch_per_gpu"], study.epoch_images)
    for point in several:
        if point.configuration.batch_per_gpu in batches:
            yield "weak", point.weak
    for point in several:
        if point.configuration.global_batch in study["strong_scaling_global_batch"]:
            yield "strong", point.beside(point.configuration.global_batch)


def speedup_row(series: str, compared: Comparison) -> SpeedupRow:
    """Speedup and efficiency of a point in a `series`, `weak` or `strong`, over one GPU."""
    gpus = compared.point.configuration.gpus
    row = SpeedupRow(
        **compared.fields,
        scaling=series,
        nodes=compared.point.configuration.nodes,
        drift=compared.drift,
        drifted=compared.drifted,
    )
    if not compared.blocks:
        return row
    row = replace(
        row,
        servers=len({block.key.server for block in compared.blocks}),
        epoch_s=compared.epoch,
        baseline_epoch_s=compared.baseline,
        other_runs=compared.is_of_other_runs,
        speedup=compared.speedup,
        borrowed_from=compared.speedup.borrowed_from,
        efficiency=compared.speedup.map(lambda speedup: scaling.efficiency(speedup, gpus)),
    )
    return row if series == "strong" else replace(row, speedup_from_steps=compared.speedup_from_steps)


def with_headline(row: Headlined) -> Headlined:
    """With whether findings and verdict may speak of this configuration; not known where it was not measured."""
    steps = row.full_steps_per_epoch
    return replace(row, is_headline=None if steps is None else steps >= HEADLINE_STEPS)


def completed_times(row: TimesRow) -> TimesRow:
    """With what follows from its figures."""
    return replace(with_headline(row), gpu_s=multiplied(row.epoch_s, row.gpus))


def with_best(rows: Sequence[TimesRow]) -> Iterator[TimesRow]:
    """With throughput over that of the best batch on the same devices, which itself has no interval.

    Epochs with fewer than `HEADLINE_STEPS` full steps are not compared: their ends weigh too much.
    """

    def devices(row: TimesRow) -> tuple[str, int, str, str]:
        return row.strategy, row.gpus, row.scope, row.environment

    comparable = [row for row in rows if row.is_headline and row.images_per_s.is_known]
    best_on = {
        place: max(some, key=lambda row: row.images_per_s.value) for place, some in grouped(comparable, devices).items()
    }
    for row in rows:
        if row not in comparable:
            yield row
        elif row is best_on[devices(row)]:
            yield replace(row, of_best=Figure(1.0))
        else:
            yield replace(row, of_best=ratio(row.images_per_s, best_on[devices(row)].images_per_s))

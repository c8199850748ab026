"""Rows of the times of a study: of every configuration and run, with and without loading, of two strategies, and of
every server beside the others.

Servers are alike to every interval of a study. One that takes twice as long is a fault of that server, and moves them
all.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from math import nan
from operator import sub, truediv
from statistics import geometric_mean, median

from dpscale.analyse.points import Comparison, Point, Points, Timed
from dpscale.analyse.records import UUID_CHARACTERS, joined, places
from dpscale.formulas import scaling
from dpscale.formulas.figure import UNKNOWN, Figure, Scale, derive_in_blocks, multiplied
from dpscale.formulas.statistics import median_of_blocks
from dpscale.plan.plan import batches_per_gpu
from dpscale.plan.study import Study
from dpscale.records.kinds import Record
from dpscale.strategies.known import BASELINE, STRATEGIES, strategy
from dpscale.strategies.strategy import NetworkFacts
from dpscale.tables.row import grouped
from dpscale.tables.timing import RunsRow, ScopesRow, ServersRow, StrategyPairsRow, TimesRow
from dpscale.vocabulary.chips import chip_named


def times_row(study: Study, point: Point, network: NetworkFacts | None) -> TimesRow:
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
        servers=point.epoch.servers,
        epoch_s=point.epoch,
        gpu_s=multiplied(point.epoch, row.gpus),
        step_s=point.step,
        images_per_s=point.epoch.map(lambda epoch_s: scaling.throughput(study.epoch_images, epoch_s)),
        loader_processes=_loader_processes(point),
        steps_per_epoch=results[0].steps_per_epoch,
        full_steps_per_epoch=point.full_steps,
        is_headline=point.is_headline,
        peak_memory_bytes=max((peak for result in results for peak in result.peak_memory_bytes or []), default=nan),
    )
    chip = chip_named(point.records[0].hardware.device_model)
    peak = chip.peak(study["precision"]) if chip else None
    if peak is None or network is None or network.flop_per_image is None:
        return row
    flop = network.flop_per_image.forward_backward
    return replace(row, mfu=row.images_per_s.map(lambda rate: scaling.mfu(flop, rate, row.gpus, peak.flop_s)))


def _loader_processes(point: Point) -> int:
    """DataLoader processes of all training processes together. Version 1 of the record does not say how many: every
    training process had as many as its setting."""
    recorded = point.results[0].loader_processes
    if recorded is not None or point.scope == "compute":
        return recorded or 0
    configuration = point.configuration
    processes = strategy(configuration.strategy).processes(configuration.gpus)
    return processes * point.measured[0].settings.loader_workers


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


def run_rows(points: Iterable[Point], variant: str = "") -> Iterator[RunsRow]:
    """Yield a row for every run of every point, under the study's own settings or those of a variant."""
    for point in points:
        for record in point.measured:
            result = record.scopes[point.scope]
            timed = Timed.of(result)
            yield RunsRow(
                **point.place,
                variant=variant,
                run=record.cell.run,
                server=record.block.server,
                started_at=record.started_at.isoformat(),
                n=len(result.epoch_s),
                epoch_s=timed.epoch_s,
                step_s=timed.step_s,
            )


def scopes_rows(times: Sequence[TimesRow]) -> Iterator[ScopesRow]:
    """Yield the configurations that were measured with and without the DataLoader in the clock."""
    measured = [row for row in times if row.status == "ok"]
    for scopes in grouped(measured, lambda row: tuple(row.point.values())).values():
        row_by_scope = {row.scope: row for row in scopes}
        if len(row_by_scope) == 2:
            row, loaded = row_by_scope["compute"], row_by_scope["end_to_end"]
            yield ScopesRow(
                **row.point,
                is_headline=row.is_headline,
                epoch_s=row.epoch_s,
                end_to_end_epoch_s=loaded.epoch_s,
                loader_s=_in_blocks(sub, loaded.epoch_s, row.epoch_s, "linear"),
                loading_ratio=_in_blocks(truediv, loaded.epoch_s, row.epoch_s, "log"),
            )


def _in_blocks(formula: Callable[[float, float], float], loaded: Figure, in_memory: Figure, scale: Scale) -> Figure:
    """Return the mean of what the formula gives in each run that timed both; unknown where none did."""
    if not loaded.blocks.keys() & in_memory.blocks.keys():
        return UNKNOWN
    return derive_in_blocks(formula, loaded, in_memory, scale=scale)


def strategy_pairs_rows(times: Sequence[TimesRow]) -> Iterator[StrategyPairsRow]:
    """Yield every two parallel strategies on the same devices at the same batch, the later one of the table first."""
    order = list(STRATEGIES)
    parallel = [row for row in times if row.epoch_s.is_known and row.strategy != BASELINE]
    places = grouped(parallel, lambda row: (row.gpus, row.batch_per_gpu, row.scope, row.environment))
    for rows in places.values():
        for earlier, later in combinations(sorted(rows, key=lambda row: order.index(row.strategy)), 2):
            yield StrategyPairsRow(
                **later.point,
                scope=later.scope,
                other_strategy=earlier.strategy,
                is_headline=later.is_headline,
                epoch_s=later.epoch_s,
                other_epoch_s=earlier.epoch_s,
                ratio=earlier.epoch_s.value / later.epoch_s.value,
            )


def servers_rows(points: Iterable[Point], records: Iterable[Record]) -> Iterator[ServersRow]:
    """Yield a row for every server that shares a configuration with another one of its environment."""
    records_by_server = grouped(records, lambda record: (record.environment, record.block.server))
    for (environment, server), ratios in sorted(_times_as_long(points).items()):
        of_server = records_by_server[environment, server]
        uuids = (place[:UUID_CHARACTERS] for record in of_server if record.hardware.gpus for place in places(record))
        yield ServersRow(
            environment=environment,
            server=server,
            host=joined(record.hardware.host for record in of_server),
            gpu_uuids=joined(uuids),
            is_of_scheduler=any(record.provenance.job_id for record in of_server),
            configurations=len(ratios),
            times_as_long=median_of_blocks(ratios),
        )


def _times_as_long(points: Iterable[Point]) -> Mapping[tuple[str, int], list[float]]:
    """Return the epoch of every server over the median of the others', of every configuration on one node that several
    timed and that findings may speak of."""
    ratios = defaultdict(list)
    for point in points:
        if not point.is_headline or point.configuration.nodes > 1:
            continue
        blocks = grouped(point.by_block.items(), lambda block: block[0].server)
        times = {
            server: geometric_mean(timed.epoch_s for _, timed in on_server) for server, on_server in blocks.items()
        }
        for server, epoch_s in times.items():
            if elsewhere_s := [seconds for place, seconds in times.items() if place != server]:
                ratios[point.environment, server].append(epoch_s / median(elsewhere_s))
    return ratios

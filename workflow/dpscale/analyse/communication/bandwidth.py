"""Bandwidth: inferred from the communication time, from the profiler's, and measured alone."""

from collections.abc import Iterable
from dataclasses import replace
from math import nan

from dpscale.analyse.answer.claims import BELOW_ZERO, BOUNDED, RESOLVABLE
from dpscale.analyse.communication.collectives import between
from dpscale.analyse.timing.points import Comparison
from dpscale.formulas import scaling
from dpscale.formulas.figure import UNKNOWN, Figure, ratio
from dpscale.plan.study import Study
from dpscale.strategies.facts import NetworkFacts
from dpscale.strategies.known import strategy
from dpscale.tables.communication import BandwidthRow, CollectivesRow, CommunicationRow
from dpscale.vocabulary.states import NOT_RESOLVABLE, STATES


def bandwidth_row(
    study: Study,
    compared: Comparison,
    estimated: CommunicationRow,
    facts: NetworkFacts | None,
    collectives: Iterable[CollectivesRow],
) -> BandwidthRow:
    """Return the bandwidth that E1 implies, the one that the profiler's time implies, and the measured one, of the
    bytes that the strategy sends. Raises StrategyError where it is not known what these are."""
    row = BandwidthRow(**compared.fields)
    if not compared.blocks:
        return row
    network = next(record.network for record in compared.point.records if record.network)
    bytes_per_step = strategy(row.strategy).sent_bytes(row.gpus, network)
    steps = scaling.steps_per_epoch(study.epoch_images, row.gpus, row.batch_per_gpu)
    row = replace(
        row,
        parameters=network.parameters,
        gradient_bytes=network.gradient_bytes,
        allreduce_bytes_per_step=bytes_per_step,
        steps_per_epoch=steps,
        communication_s=compared.communication,
        other_runs=compared.is_of_other_runs,
        bus_bandwidth_gb_s=_bus_bandwidth(row, collectives, network.gradient_bytes),
        profiler_bandwidth_gb_s=_by_the_profiler(estimated, bytes_per_step),
        root_link_bytes_per_step=_root_link_bytes(row, facts, network.gradient_bytes),
    )
    inferred = compared.communication
    if not RESOLVABLE.holds(row):
        at_least = scaling.bandwidth_gb_s(bytes_per_step, steps, inferred.high) if BOUNDED.holds(row) else nan
        return replace(
            row,
            status=NOT_RESOLVABLE,
            reason="; ".join(filter(None, [_why_not_resolvable(row), row.reason])),
            bandwidth_gb_s_at_least=at_least,
        )
    bandwidth = inferred.map(lambda seconds: scaling.bandwidth_gb_s(bytes_per_step, steps, seconds))
    return replace(row, bandwidth_gb_s=bandwidth, utilisation=ratio(bandwidth, row.bus_bandwidth_gb_s))


def _by_the_profiler(estimated: CommunicationRow, bytes_per_step: float) -> Figure:
    """Return the bandwidth by the profiler. Where all ranks send alike, one that communicates longer only waits for
    another."""
    alike = strategy(estimated.strategy).all_ranks_send_alike
    profiled = estimated.profiler_least_step_s if alike else estimated.profiler_step_s
    if estimated.profiler != "ok" or not profiled.value > 0:
        return UNKNOWN
    return profiled.map(lambda seconds: scaling.bandwidth_gb_s(bytes_per_step, 1, seconds))


def _bus_bandwidth(row: BandwidthRow, collectives: Iterable[CollectivesRow], gradient_bytes: int) -> Figure:
    """Return the bus bandwidth of an allreduce of the whole gradient between as many GPUs, alone."""
    call = "allreduce", gradient_bytes
    timed = between(collectives, row.gpus, row.environment)
    return next((row.bus_bandwidth_gb_s for row in timed if (row.operation, row.message_bytes) == call), UNKNOWN)


def _root_link_bytes(row: BandwidthRow, facts: NetworkFacts | None, gradient_bytes: int) -> float:
    """Return the bytes that move through the links of a first GPU that sends images to the others."""
    if facts is None or not strategy(row.strategy).sends_inputs:
        return nan
    images_bytes = row.batch_per_gpu * sum(facts.bytes_per_image)
    return scaling.root_link_bytes(row.gpus, images_bytes, gradient_bytes, facts.buffer_bytes)


def _why_not_resolvable(row: BandwidthRow) -> str:
    inferred, (low, high) = row.communication_s, row.communication_s.interval
    if not inferred.has_interval:
        return f"the communication time has no interval: {STATES[inferred.kind][0]}"
    where = "below zero" if BELOW_ZERO.holds(row) else "not above zero for certain"
    return f"communication time {inferred.value:.3g} s [{low:.3g}, {high:.3g}] is {where}"

"""Bandwidth: of collectives alone, as measured, and of the communication time, as inferred."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import compress
from math import nan

import numpy as np

from dpscale.analyse.answer.claims import BOUNDED, RESOLVABLE
from dpscale.analyse.timing.points import Comparison
from dpscale.formulas import OnServer, scaling
from dpscale.formulas.figure import UNKNOWN, Figure, derive_in_blocks, estimate_of_runs, multiplied, ratio
from dpscale.plan.cells import Configuration
from dpscale.plan.study import Study
from dpscale.records.kinds import CollectivesRecord, PeerCopy, TimedCollective
from dpscale.strategies.known import STRATEGIES, strategy
from dpscale.strategies.strategy import Message, NetworkFacts
from dpscale.tables.communication import BandwidthRow, CollectivesRow
from dpscale.vocabulary.states import NOT_RESOLVABLE, STATES


def bandwidth_row(study: Study, compared: Comparison, collectives: Iterable[CollectivesRow]) -> BandwidthRow:
    """Return the bandwidth that E1 implies, of the bytes that the strategy sends, and the measured one. Raises
    StrategyError where it is not known what these bytes are."""
    row = BandwidthRow(**compared.fields)
    if not compared.blocks:
        return row
    network = next(record.network for record in compared.point.records if record.network)
    bytes_per_step = strategy(row.strategy).sent_bytes(row.gpus, network, study.settings.ddp_gradient_dtype)
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


def _bus_bandwidth(row: BandwidthRow, collectives: Iterable[CollectivesRow], gradient_bytes: int) -> Figure:
    """Return the bus bandwidth of an allreduce of the whole gradient between as many GPUs, alone."""
    call = "allreduce", gradient_bytes
    timed = between(collectives, row.gpus, row.environment)
    return next((row.bus_bandwidth_gb_s for row in timed if (row.operation, row.message_bytes) == call), UNKNOWN)


def _why_not_resolvable(row: BandwidthRow) -> str:
    if not row.communication_s.has_interval:
        return f"the communication time has no interval: {STATES[row.communication_s.kind][0]}"
    return "the communication time is not above zero for certain"


# The use of the allreduce of all gradients at once: it is timed, and utilisation is over it.
WHOLE_GRADIENT = "whole gradient"

Timings = TimedCollective | PeerCopy
Call = tuple[str, int, int | None, int | None]  # an operation, its bytes, and of a copy its source and target


def collectives_rows(
    swept: Mapping[tuple[int, str], Sequence[CollectivesRecord]], network: NetworkFacts | None
) -> Iterator[CollectivesRow]:
    """Yield a row for every collective and size, and for every pair of GPUs: medians over repeats. Records were `swept`
    by their number of GPUs and environment."""
    uses = _uses(network)
    for (gpus, environment), records in swept.items():
        nodes = records[0].cell.nodes or 1
        for (operation, size, source, target), results in _timed(records).items():
            time_s = estimate_of_runs({block: _counted_s(result) for block, result in results.items()})
            yield CollectivesRow(
                operation=operation,
                gpus=gpus,
                message_bytes=size,
                environment=environment,
                runs=len(results),
                servers=len({record.block.server for record in records}),
                time_s=time_s,
                bus_bandwidth_gb_s=time_s.map(partial(scaling.bus_bandwidth_gb_s, operation, gpus, size)),
                use=uses.get((operation, size), ""),
                source=source,
                target=target,
                nodes=nodes if source is None else 1,
            )


def _timed(records: Sequence[CollectivesRecord]) -> dict[Call, dict[OnServer, Timings]]:
    """Return the results of every call by record: collectives, then copies."""
    calls: dict[Call, dict[OnServer, Timings]] = defaultdict(dict)
    for record in records:
        for result in record.collectives:
            calls[result.operation, result.bytes, None, None][record.block] = result
    for record in records:
        for copy in record.peer_copies:
            calls["peer_copy", copy.bytes, copy.source, copy.target][record.block] = copy
    return calls


def _counted_s(result: Timings) -> list[float]:
    """Return the timings before which all calls were queued; all, where none is known to be so. Version 1 did not look,
    and on a CPU there is no queue."""
    held = (isinstance(result, TimedCollective) and result.held) or []
    return list(compress(result.seconds, held)) or result.seconds


def _uses(network: NetworkFacts | None) -> dict[Message, str]:
    """Return the uses that the network has for messages: the whole gradient, and the strategies whose step sends it."""
    if network is None:
        return {}
    uses = {("allreduce", network.gradient_bytes): WHOLE_GRADIENT}
    for name, row in STRATEGIES.items():
        for message in set(row.messages_of_step(network)):
            uses[message] = f"{uses[message]}, {name}" if message in uses else name
    return uses


def between(rows: Iterable[CollectivesRow], gpus: int, environment: str) -> list[CollectivesRow]:
    """Return the rows of collectives between so many GPUs."""
    return [row for row in rows if (row.gpus, row.environment) == (gpus, environment)]


def isolated_step_s(configuration: Configuration, network: NetworkFacts, timed: Sequence[CollectivesRow]) -> Figure:
    """Return E5 in s, from the rows that were `timed` between as many GPUs.

    Not known where a message was not timed, nor a smaller and a larger one of its operation, between which it is
    interpolated.

    DDP broadcasts its buffers and reduces its buckets; DataParallel scatters images, broadcasts parameters and buffers,
    gathers outputs, and reduces gradients, all from or to its first GPU.
    """
    row = strategy(configuration.strategy)
    parts = [message_s(message, timed) for message in row.messages_of_step(network)]
    if row.sends_inputs:
        sent, returned = (configuration.batch_per_gpu * size for size in network.bytes_per_image)
        for gpu in range(1, configuration.gpus):
            parts += [_copy_s(0, gpu, sent, timed), _copy_s(gpu, 0, returned, timed)]
    if not parts or not all(seconds.is_known for seconds in parts):
        return UNKNOWN
    return derive_in_blocks(lambda *seconds: sum(seconds), *parts)


def message_s(message: Message, timed: Sequence[CollectivesRow]) -> Figure:
    """Return a collective's time alone. Between two sizes that were timed it grows with the bytes, from one to the
    other: a latency, and a time per byte. Beyond them it is not known."""
    operation, size = message
    by_size = {row.message_bytes: row.time_s for row in timed if row.operation == operation}
    smaller = max((timed_size for timed_size in by_size if timed_size <= size), default=None)
    larger = min((timed_size for timed_size in by_size if timed_size >= size), default=None)
    if smaller is None or larger is None:
        return UNKNOWN
    return derive_in_blocks(
        lambda *seconds: float(np.interp(size, [smaller, larger], seconds)), by_size[smaller], by_size[larger]
    )


def _copy_s(source: int, target: int, size: int, timed: Sequence[CollectivesRow]) -> Figure:
    """Return a copy's time at the bandwidth that was measured with a large one."""
    copies = (row for row in timed if (row.source, row.target) == (source, target))
    return next((multiplied(row.time_s, size / row.message_bytes) for row in copies), UNKNOWN)

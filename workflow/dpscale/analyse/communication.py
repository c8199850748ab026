"""Communication of an epoch and of a step, estimated in four ways: E1, E2, E3 and E5 of docs/method.md; bandwidth, of
collectives alone, as measured, and of the communication time, as inferred; and where the time of a step goes.

A record is a block: it has one figure, the median of its rounds, blocks or repeats, and spread is over records.

A ladder says by intervention what every rung adds to the one before it. It has one scale, the step of one GPU alone,
and per rung a ratio to it: in every record the median over its rounds, since what drifts from round to round hits both
sides. Ratios are averaged over servers as they are, not as logarithms, so differences of rungs are differences of their
means: they add up to the loss exactly, and each has the interval of its own differences. A rung's time is the scale
times its ratio. The scale is t(1,b) of the timing cells where that was measured, so that a ladder stands on the times
of its study; otherwise it is the ladder's own first rung. Intervals hold at this scale, whose own interval is that of
the first rung.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import compress, pairwise
from math import nan
from operator import sub, truediv
from statistics import fmean, median

import numpy as np

from dpscale.analyse.answer.claims import BOUNDED, RESOLVABLE
from dpscale.analyse.points import Comparison, Points, point_fields
from dpscale.formulas import OnServer, scaling
from dpscale.formulas.figure import (
    UNKNOWN,
    Figure,
    Scale,
    derive_in_blocks,
    estimate_of_blocks,
    estimate_of_runs,
    multiplied,
    ratio,
)
from dpscale.formulas.statistics import median_of_blocks
from dpscale.plan.cells import Configuration
from dpscale.plan.study import Study
from dpscale.records.kinds import CollectivesRecord, CommunicationRecord, PeerCopy, ProfiledBlock, TimedCollective
from dpscale.strategies.known import BASELINE, STRATEGIES, strategy
from dpscale.strategies.strategy import ALONE, WHOLE, Message, NetworkFacts
from dpscale.tables.communication import BandwidthRow, CollectivesRow, CommunicationRow, LadderRow
from dpscale.vocabulary.states import DISTORTED, NOT_RESOLVABLE, STATES

# Where a profiled step is longer than the same step without the profiler by more than this, its shares say nothing.
DISTORTED_BEYOND = 0.05

# Records by their configuration and environment.
StepsByConfiguration = Mapping[tuple[Configuration, str], Sequence[CommunicationRecord]]


def communication_row(
    compared: Comparison,
    steps: StepsByConfiguration,
    network: NetworkFacts | None,
    collectives: Iterable[CollectivesRow],
) -> CommunicationRow:
    """Return E1 of an epoch, and every estimate of a step that was measured or can be inferred. Compute and
    communication add up to the epoch."""
    configuration, environment = compared.point.configuration, compared.point.environment
    records = steps.get((configuration, environment), ())
    timed = between(collectives, configuration.gpus, environment)
    row = replace(
        from_steps(records),
        **compared.fields,
        isolated_step_s=isolated_step_s(configuration, network, timed) if network else UNKNOWN,
    )
    if not compared.blocks:
        return row
    return replace(
        row,
        communication_s=compared.communication,
        communication_step_s=compared.communication_step,
        epoch_s=compared.epoch.value,
        other_runs=compared.is_of_other_runs,
        compute_s=scaling.compute_s(compared.baseline.value, row.gpus),
        communication_share=compared.communication.value / compared.epoch.value,
        step_s=compared.over_blocks(lambda block: block.parallel.step_s).value,
    )


def from_steps(records: Sequence[CommunicationRecord]) -> CommunicationRow:
    """Return the estimates of communication records, in a row without a place.

    Ablation (E2) subtracts the step that sends nothing within a round, so that what drifts from round to round hits
    both sides. Both steps of ddp call a hook in Python; version 1 has no such control, and takes the whole step. The
    profiler's times (E3) are means over the devices: which of them waits for which, and so communicates longer, is
    chance. Where all devices send alike, they are also given for the device that waited least, the last one to an
    allreduce: transfer, and little else. Where the profiler distorts the step, no share of it is given: neither
    exposed communication nor what computing takes longer beside it.
    """
    complete = [record for record in records if record.status == "ok"]
    profiled = [record for record in complete if record.profile]
    profiler = DISTORTED if any(map(_is_distorted, profiled)) else "ok" if profiled else ""
    alike = all(strategy(record.cell.strategy).all_ranks_send_alike for record in profiled)

    def over(values_of: Callable[[CommunicationRecord], list[float]], scale: Scale = "linear") -> Figure:
        runs = {record.block: values for record in complete if (values := values_of(record))}
        return estimate_of_runs(runs, scale) if runs else UNKNOWN

    def over_blocks(value_of: Callable[[ProfiledBlock], float | None], is_given: bool = True) -> Figure:
        def values_of(record: CommunicationRecord) -> list[float]:
            values = map(value_of, record.profiled_blocks if is_given else ())
            return [value for value in values if value is not None]

        return over(values_of)

    return CommunicationRow(
        training_step_s=over(lambda record: _steps_s(record, "training"), "log"),
        ablation_step_s=over(_ablated_s),
        profiler_step_s=over_blocks(lambda block: fmean(block.communication_s)),
        profiler_exposed_step_s=over_blocks(
            lambda block: fmean(device.exposed_s for device in block.devices), profiler == "ok"
        ),
        profiler_least_step_s=over_blocks(lambda block: min(block.communication_s), alike),
        slower_computing_step_s=over_blocks(lambda block: block.slower_computing_s, profiler == "ok"),
        profiler=profiler,
    )


def _steps_s(record: CommunicationRecord, rung: str) -> list[float]:
    """Return the step of a rung in every round; empty where it was not timed."""
    return record.variants[rung].step_s if rung in record.variants else []


def _ablated_s(record: CommunicationRecord) -> list[float]:
    """Return what sending takes in every round; empty where no step without it was timed."""
    sending = "allreduce_hook" if "allreduce_hook" in record.variants else "training"
    return list(map(sub, _steps_s(record, sending), _steps_s(record, strategy(record.cell.strategy).silent)))


def _is_distorted(record: CommunicationRecord) -> bool:
    """Whether the profiler made the step longer by more than `DISTORTED_BEYOND`. Profiling skews the ranks, and what
    one then waits for another lies inside NCCL's kernels."""
    profiled_s = median(block.step_s for block in record.profiled_blocks)
    return profiled_s > (1 + DISTORTED_BEYOND) * median(_steps_s(record, "training"))


def bandwidth_row(study: Study, compared: Comparison, collectives: Iterable[CollectivesRow]) -> BandwidthRow:
    """Return the bandwidth that E1 implies, of the bytes that the strategy sends, and the measured one. Raises
    StrategyError where it is not known what these bytes are."""
    row = BandwidthRow(**compared.fields)
    if not compared.blocks:
        return row
    network = next(record.network for record in compared.point.records if record.network)
    bytes_per_step = strategy(row.strategy).sent_bytes(row.gpus, network, study.settings)
    steps = scaling.steps_per_epoch(study.epoch_images, row.gpus, row.batch_per_gpu)
    call = "allreduce", network.gradient_bytes
    timed = between(collectives, row.gpus, row.environment)
    measured = (result.bus_bandwidth_gb_s for result in timed if (result.operation, result.message_bytes) == call)
    row = replace(
        row,
        parameters=network.parameters,
        gradient_bytes=network.gradient_bytes,
        allreduce_bytes_per_step=bytes_per_step,
        steps_per_epoch=steps,
        communication_s=compared.communication,
        other_runs=compared.is_of_other_runs,
        bus_bandwidth_gb_s=next(measured, UNKNOWN),
    )
    inferred = compared.communication
    if not RESOLVABLE.holds(row):
        at_least = scaling.bandwidth_gb_s(bytes_per_step, steps, inferred.high) if BOUNDED.holds(row) else nan
        why = (
            "the communication time is not above zero for certain"
            if inferred.has_interval
            else f"the communication time has no interval: {STATES[inferred.kind][0]}"
        )
        return replace(
            row,
            status=NOT_RESOLVABLE,
            reason="; ".join(filter(None, [why, row.reason])),
            bandwidth_gb_s_at_least=at_least,
        )
    bandwidth = inferred.map(lambda seconds: scaling.bandwidth_gb_s(bytes_per_step, steps, seconds))
    return replace(row, bandwidth_gb_s=bandwidth, utilisation=ratio(bandwidth, row.bus_bandwidth_gb_s))


# The use of the allreduce of all gradients at once: it is timed, and utilisation is over it.
WHOLE_GRADIENT = "whole gradient"

Timings = TimedCollective | PeerCopy
Call = tuple[str, int, int | None, int | None]  # an operation, its bytes, and of a copy its source and target


def collectives_rows(
    swept: Mapping[tuple[int, str], Sequence[CollectivesRecord]],
    network: NetworkFacts | None,
    strategies: Collection[str],
) -> Iterator[CollectivesRow]:
    """Yield a row for every collective and size, and for every pair of GPUs: medians over repeats. Records were `swept`
    by their number of GPUs and environment. `strategies` are those of the study."""
    uses = _uses(network, strategies)
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


def _uses(network: NetworkFacts | None, strategies: Collection[str]) -> dict[Message, str]:
    """Return the uses that the network has for messages: the whole gradient, and those of these strategies whose step
    sends it."""
    if network is None:
        return {}
    uses = {("allreduce", network.gradient_bytes): WHOLE_GRADIENT}
    for name, row in STRATEGIES.items():
        for message in set(row.messages_of_step(network)) if name in strategies else ():
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


# Rungs whose ranks wait for nobody. With a hook that does nothing, they still wait for the buffers of the first one.
APART = ("together", "no_sync")


def ladders(steps: StepsByConfiguration, points: Points) -> Iterator[LadderRow]:
    """Yield the ladder of every configuration, at the step of one GPU that the timing cells have."""
    for (configuration, environment), records in sorted(steps.items()):
        single = Configuration(BASELINE, 1, configuration.batch_per_gpu)
        point = points.get((single, "compute", environment))
        yield from ladder_rows(configuration, environment, records, point.step if point else UNKNOWN)


def ladder_rows(
    configuration: Configuration, environment: str, records: Sequence[CommunicationRecord], alone_s: Figure = UNKNOWN
) -> Iterator[LadderRow]:
    """Yield a row for every rung. Records without a ladder do not count. `alone_s` is the scale: t(1,b), if it is
    known."""
    # Where records differ in their rungs, as older ones may, those with the most are one ladder.
    rungs = max(map(rungs_of, records), key=len, default=())
    complete = [record for record in records if rungs and rungs_of(record) == rungs]
    if not complete:
        return
    timings = {rung: {record.block: record.variants[rung].step_s for record in complete} for rung in rungs}
    baseline = alone_s if alone_s.is_known else estimate_of_runs(timings[ALONE])
    ratios = {
        rung: {run: median(map(truediv, steps_s, timings[ALONE][run])) for run, steps_s in timings[rung].items()}
        for rung in rungs
    }

    def mean(values: Mapping[OnServer, float]) -> Figure:
        return multiplied(estimate_of_blocks(values, "linear"), baseline.value)

    steps = {rung: baseline if rung == ALONE else mean(ratios[rung]) for rung in rungs}
    for order, (before, rung) in enumerate(pairwise(("", *rungs))):
        row = LadderRow(
            **point_fields(configuration, environment),
            rung=rung,
            order=order,
            runs=len(complete),
            step_s=steps[rung],
            share=steps[rung].value / steps[WHOLE].value,
        )
        if before:
            difference = mean({run: ratio - ratios[before][run] for run, ratio in ratios[rung].items()})
            row = replace(
                row,
                difference_s=difference,
                adds=strategy(configuration.strategy).added(before, rung),
                share=difference.value / steps[WHOLE].value,
            )
        yield _with_slowest(row, complete) if rung == APART[0] else row


def rungs_of(record: CommunicationRecord) -> tuple[str, ...]:
    """Return the record's rungs in their order; none where it has no whole ladder: version 1 has none, memory may have
    run out, and a strategy may have no more than its whole step."""
    controls = strategy(record.cell.strategy).controls
    rungs = tuple(name for name in record.variants if name not in controls)
    return rungs if rungs and (rungs[0], rungs[-1]) == (ALONE, WHOLE) and len(rungs) > 1 else ()


def _with_slowest(row: LadderRow, records: Sequence[CommunicationRecord]) -> LadderRow:
    """Return the row with the slowest rank of steps in which none waits for another, by its name, and what it takes
    longer than the fastest one: round by round, of all records. Means of steps where a record has them: medians do not
    see a rank that is stopped now and then."""
    differences, names = [], set()
    for record in records:
        blocks = [record.variants[rung] for rung in APART if rung in record.variants]
        rounds = [
            [step_s for step_s in ranks if step_s is not None]  # No rank of these rungs waits for another.
            for block in blocks
            for ranks in block.rank_block_step_s or block.rank_step_s or ()
        ]
        steps = [median(seconds) for seconds in zip(*rounds, strict=True)]
        slow, fast = steps.index(max(steps)), steps.index(min(steps))
        differences += [ranks[slow] - ranks[fast] for ranks in rounds]
        nodes = record.nodes or []
        host = f" on {nodes[slow * len(nodes) // len(steps)].hardware.host}" if nodes else ""
        names.add(f"rank {slow}{host}")
    return replace(row, uneven_s=median_of_blocks(differences), slowest="; ".join(sorted(names)))

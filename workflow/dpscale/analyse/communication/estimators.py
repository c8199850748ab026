"""Communication of an epoch and of a step, estimated in four ways: E1, E2, E3 and E5 of docs/method.md. Times are s per
step.

A record is a block: it has one figure, the median of its rounds, blocks or repeats, and spread is over records.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from operator import sub
from statistics import fmean, median

from dpscale.analyse.communication.bandwidth import between, isolated_step_s
from dpscale.analyse.timing.points import Comparison
from dpscale.formulas import scaling
from dpscale.formulas.figure import UNKNOWN, Figure, Scale, estimate_of_runs
from dpscale.plan.cells import Configuration
from dpscale.records.kinds import CommunicationRecord, ProfiledBlock
from dpscale.strategies.known import strategy
from dpscale.strategies.strategy import NetworkFacts
from dpscale.tables.communication import CollectivesRow, CommunicationRow
from dpscale.vocabulary.states import DISTORTED

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

    Ablation (E2) subtracts within a round, so that what drifts from round to round hits both sides. Both of its steps
    call a hook in Python; version 1 has no such control, and takes the whole step. The profiler's times (E3) are means
    over the devices: which of them waits for which, and so communicates longer, is chance. Where all devices send
    alike, they are also given for the device that waited least, the last one to an allreduce: transfer, and little
    else. Where the profiler distorts the step, no share of it is given.
    """
    complete = [record for record in records if record.status == "ok"]
    profiled = [record for record in complete if record.profile]
    profiler = DISTORTED if any(map(_is_distorted, profiled)) else "ok" if profiled else ""
    alike = all(strategy(record.cell.strategy).all_ranks_send_alike for record in profiled)

    def over(values_of: Callable[[CommunicationRecord], list[float]], scale: Scale = "linear") -> Figure:
        runs = {record.block: values for record in complete if (values := values_of(record))}
        return estimate_of_runs(runs, scale) if runs else UNKNOWN

    def over_blocks(value_of: Callable[[ProfiledBlock], float]) -> Figure:
        return over(lambda record: [value_of(block) for block in record.profiled_blocks])

    def exposed_s(block: ProfiledBlock) -> float:
        return fmean(device.exposed_s for device in block.devices)

    return CommunicationRow(
        training_step_s=over(lambda record: _steps_s(record, "training"), "log"),
        ablation_step_s=over(_ablated_s),
        profiler_step_s=over_blocks(lambda block: fmean(block.communication_s)),
        profiler_exposed_step_s=over_blocks(exposed_s) if profiler == "ok" else UNKNOWN,
        profiler_least_step_s=over_blocks(lambda block: min(block.communication_s)) if alike else UNKNOWN,
        profiler=profiler,
    )


def _steps_s(record: CommunicationRecord, rung: str) -> list[float]:
    """Return the step of a rung in every round; empty where it was not timed."""
    return record.variants[rung].step_s if rung in record.variants else []


def _ablated_s(record: CommunicationRecord) -> list[float]:
    """Return what the allreduce takes in every round."""
    control = "allreduce_hook" if "allreduce_hook" in record.variants else "training"
    return list(map(sub, _steps_s(record, control), _steps_s(record, "no_op_hook")))


def _is_distorted(record: CommunicationRecord) -> bool:
    """Whether the profiler made the step longer by more than `DISTORTED_BEYOND`. Profiling skews the ranks, and what
    one then waits for another lies inside NCCL's kernels."""
    profiled_s = median(block.step_s for block in record.profiled_blocks)
    return profiled_s > (1 + DISTORTED_BEYOND) * median(_steps_s(record, "training"))

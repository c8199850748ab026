"""Communication of an epoch and of a step, estimated in five ways: E1 to E5 of docs/method.md; and the parts of a
profiled step. Times are s per step.

A record is a block: it has one figure, the median of its rounds, blocks or repeats, and spread is over records.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import sub
from statistics import fmean, median

from dpscale.analyse.communication.bandwidth import between, isolated_step_s
from dpscale.analyse.timing.points import Comparison, point_fields
from dpscale.formulas import scaling
from dpscale.formulas.figure import UNKNOWN, Figure, Scale, estimate_of_runs
from dpscale.plan.cells import Configuration
from dpscale.records.kinds import CommunicationRecord, ProfiledDevice
from dpscale.strategies.known import strategy
from dpscale.strategies.strategy import NetworkFacts
from dpscale.tables.communication import CollectivesRow, CommunicationRow, StepsRow
from dpscale.vocabulary.states import ARTEFACT, DISTORTED

# Where a profiled step is longer than the same step without the profiler by more than this, its shares say nothing.
DISTORTED_BEYOND = 0.05
PARTS = ("compute_s", "communication_s", "copy_s", "idle_s")
# The trace counts in nanoseconds: what is below them is left over from adding up.
TRACE_DIGITS = 9

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
        profiler=_profiler_state(records),
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
    else.
    """
    complete = [record for record in records if record.status == "ok"]

    def over(values_of: Callable[[CommunicationRecord], list[float]], scale: Scale = "linear") -> Figure:
        runs = {record.block: values for record in complete if (values := values_of(record))}
        return estimate_of_runs(runs, scale) if runs else UNKNOWN

    def ablated_s(record: CommunicationRecord) -> list[float]:
        control = "allreduce_hook" if "allreduce_hook" in record.variants else "training"
        return _differences_s(record, control, "no_op_hook")

    def least_s(record: CommunicationRecord) -> list[float]:
        sends_alike = strategy(record.cell.strategy).all_ranks_send_alike
        blocks = _profiled_devices(record) if sends_alike else []
        return [min(device.communication_s for device in devices) for devices in blocks]

    return CommunicationRow(
        training_step_s=over(lambda record: _steps_s(record, "training"), "log"),
        ablation_step_s=over(ablated_s),
        no_sync_step_s=over(lambda record: _differences_s(record, "training", "no_sync")),
        profiled_step_s=over(_profiled_steps_s, "log"),
        profiler_step_s=over(
            lambda record: [
                fmean(device.communication_s for device in devices) for devices in _profiled_devices(record)
            ]
        ),
        profiler_exposed_step_s=over(
            lambda record: [
                fmean(min(device.exposed_s, _room_s(record, device)) for device in devices)
                for devices in _profiled_devices(record)
            ]
        ),
        profiler_least_step_s=over(least_s),
        logger_exposed_step_s=over(lambda record: record.ddp_logger.exposed_s if record.ddp_logger else []),
    )


def _steps_s(record: CommunicationRecord, rung: str) -> list[float]:
    """Return the step of a rung in every round; empty where it was not timed."""
    return record.variants[rung].step_s if rung in record.variants else []


def _differences_s(record: CommunicationRecord, longer: str, shorter: str) -> list[float]:
    """Return the difference of two steps in every round."""
    return list(map(sub, _steps_s(record, longer), _steps_s(record, shorter)))


def _profiled_steps_s(record: CommunicationRecord) -> list[float]:
    return [block.step_s for block in record.profile.blocks] if record.profile else []


def _profiled_devices(record: CommunicationRecord) -> list[list[ProfiledDevice]]:
    """Return the profile of every device, in every block."""
    return [block.devices for block in record.profile.blocks] if record.profile else []


def _room_s(record: CommunicationRecord, device: ProfiledDevice) -> float:
    """Return the time that the unprofiled step has beside the device's compute: exposed communication has no more."""
    compute_s = sum(phase.compute_s for phase in device.phases.values())
    return max(0.0, median(_steps_s(record, "training")) - compute_s)


def _profiler_state(records: Sequence[CommunicationRecord]) -> str:
    """Return the state of the profiler's figures in one word; none where there are none."""
    profiled = [record for record in records if record.profile]
    if any(map(_is_distorted, profiled)):
        return DISTORTED
    if any(map(_has_artefacts, profiled)):
        return ARTEFACT
    return "ok" if profiled else ""


def _is_distorted(record: CommunicationRecord) -> bool:
    """Whether the profiler made the step longer by more than `DISTORTED_BEYOND`. Profiling skews the ranks, and what
    one then waits for another lies inside NCCL's kernels."""
    return median(_profiled_steps_s(record)) > (1 + DISTORTED_BEYOND) * median(_steps_s(record, "training"))


def _has_artefacts(record: CommunicationRecord) -> bool:
    """Whether the profiler shows more exposed communication on a device than there is room for in the step."""
    blocks = _profiled_devices(record)
    return any(device.exposed_s > _room_s(record, device) for devices in blocks for device in devices)


def steps_rows(steps: StepsByConfiguration) -> Iterator[StepsRow]:
    """Yield the parts of the step of every device, which add up to `parts_s`: of all profiled blocks the one with the
    median step."""
    for (configuration, environment), records in sorted(steps.items()):
        blocks = (devices for record in records for devices in _profiled_devices(record))
        for devices in zip(*blocks, strict=True):
            middle = sorted(devices, key=lambda device: device.step_s)[len(devices) // 2]
            parts = {name: sum(getattr(phase, name) for phase in middle.phases.values()) for name in PARTS}
            yield StepsRow(
                **point_fields(configuration, environment),
                device=middle.device,
                profiler=_profiler_state(records),
                **parts,
                parts_s=sum(parts.values()),
                hidden_communication_s=round(middle.communication_s - middle.exposed_s, TRACE_DIGITS),
                step_s=middle.step_s,
                difference=sum(parts.values()) / middle.step_s - 1,
            )

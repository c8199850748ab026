"""Communication of an epoch and of a step, estimated in five ways: E1 to E5 of docs/method.md. Times are s per step.

A record is a block: it has one figure, the median of its rounds, blocks or repeats, and spread is over records.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from operator import sub
from statistics import fmean, median

from dpscale.analyse.communication.collectives import between
from dpscale.analyse.communication.isolated import isolated_step_s
from dpscale.analyse.timing.points import Comparison
from dpscale.formulas import scaling
from dpscale.formulas.figure import UNKNOWN, Figure, Scale, estimate_of_runs
from dpscale.plan.cells import Configuration
from dpscale.records.kinds import CommunicationRecord, ProfiledBlock, ProfiledDevice
from dpscale.strategies.facts import NetworkFacts
from dpscale.strategies.known import strategy
from dpscale.tables.communication import CollectivesRow, CommunicationRow
from dpscale.vocabulary.states import ARTEFACT, DISTORTED

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
    """E1 of an epoch, and every estimate of a step that was measured or can be inferred. Compute and communication
    add up to the epoch."""
    configuration, environment = compared.point.configuration, compared.point.environment
    records = steps.get((configuration, environment), ())
    timed = between(collectives, configuration.gpus, environment)
    row = replace(
        from_steps(records),
        **compared.fields,
        drift=compared.drift,
        drifted=compared.drifted,
        profiler=profiler_state(records),
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
        step_s=compared.step.value,
    )


def from_steps(records: Sequence[CommunicationRecord]) -> CommunicationRow:
    """Return the estimates of communication records, in a row without a place.

    Ablation (E2) subtracts within a round, so that what drifts from round to round hits both sides. Both of its steps
    call a hook in Python; version 1 has no such control, and takes the whole step. The profiler's times (E3) are means
    over the devices: which of them waits for which, and so communicates longer, is chance. Where all devices send
    alike, they are also given for the device that waited least: transfer, and little else.
    """
    complete = [record for record in records if record.status == "ok"]

    def over(values_of: Callable[[CommunicationRecord], list[float]], scale: Scale = "linear") -> Figure:
        runs = {record.block: values for record in complete if (values := values_of(record))}
        return estimate_of_runs(runs, scale) if runs else UNKNOWN

    def mean(value: Callable[[CommunicationRecord, ProfiledDevice], float]) -> Figure:
        return over(
            lambda record: [fmean(value(record, device) for device in devices) for devices in devices_of(record)]
        )

    return CommunicationRow(
        training_step_s=over(lambda record: _step_s(record, "training"), "log"),
        ablation_step_s=over(lambda record: _difference_s(record, _control(record), "no_op_hook")),
        no_sync_step_s=over(lambda record: _difference_s(record, "training", "no_sync")),
        profiled_step_s=over(profiled_step_s, "log"),
        profiler_step_s=mean(_communication_s),
        profiler_exposed_step_s=mean(exposed_s),
        profiler_least_step_s=over(_least_s),
        logger_exposed_step_s=over(_logged_s),
    )


def profiler_state(records: Sequence[CommunicationRecord]) -> str:
    """Return the state of the profiler's figures in one word; none where there are none."""
    seen = list(filter(profiled, records))
    if any(map(is_distorted, seen)):
        return DISTORTED
    if any(map(has_artefacts, seen)):
        return ARTEFACT
    return "ok" if seen else ""


def is_distorted(record: CommunicationRecord) -> bool:
    """Whether the profiler made the step longer by more than `DISTORTED_BEYOND`. Profiling skews the ranks, and what
    one then waits for another lies inside NCCL's kernels."""
    return median(profiled_step_s(record) or [0.0]) > (1 + DISTORTED_BEYOND) * _unprofiled_step_s(record)


def has_artefacts(record: CommunicationRecord) -> bool:
    """Whether the profiler shows more exposed communication on a device than there is room for in the step."""
    return any(device.exposed_s > _room_s(record, device) for devices in devices_of(record) for device in devices)


def exposed_s(record: CommunicationRecord, device: ProfiledDevice) -> float:
    """Exposed communication of a device by the profiler, at most what there is room for in the step."""
    return min(device.exposed_s, _room_s(record, device))


def _room_s(record: CommunicationRecord, device: ProfiledDevice) -> float:
    """Return the time that the unprofiled step has beside the device's compute."""
    compute_s = sum(phase.compute_s for phase in device.phases.values())
    return max(0.0, _unprofiled_step_s(record) - compute_s)


def _unprofiled_step_s(record: CommunicationRecord) -> float:
    """The median of a record's whole step."""
    return median(_step_s(record, "training"))


def profiled_step_s(record: CommunicationRecord) -> list[float]:
    """The steps of profiled blocks."""
    return [block.step_s for block in profiled(record)]


def profiled(record: CommunicationRecord) -> list[ProfiledBlock]:
    """Its profiled blocks."""
    return record.profile.blocks if record.profile else []


def devices_of(record: CommunicationRecord) -> list[list[ProfiledDevice]]:
    """Return the profile of every device, in every block."""
    return [block.devices for block in profiled(record)]


def _least_s(record: CommunicationRecord) -> list[float]:
    """Communication of the device that communicated least, in every block: the last one to an allreduce does not wait.
    Only where all send alike."""
    if not strategy(record.cell.strategy).all_ranks_send_alike:
        return []
    return [min(_communication_s(record, device) for device in devices) for devices in devices_of(record)]


def _communication_s(_: CommunicationRecord, device: ProfiledDevice) -> float:
    return device.communication_s


def _step_s(record: CommunicationRecord, variant: str) -> list[float]:
    """In every round; empty where it was not timed."""
    blocks = record.variants.get(variant)
    return blocks.step_s if blocks else []


def _difference_s(record: CommunicationRecord, longer: str, shorter: str) -> list[float]:
    """Return the difference of two steps in every round."""
    return list(map(sub, _step_s(record, longer), _step_s(record, shorter)))


def _control(record: CommunicationRecord) -> str:
    return "allreduce_hook" if "allreduce_hook" in record.variants else "training"


def _logged_s(record: CommunicationRecord) -> list[float]:
    """Exposed communication as DDP logged it."""
    return record.ddp_logger.exposed_s if record.ddp_logger else []

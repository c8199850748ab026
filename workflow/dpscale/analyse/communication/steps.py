"""Where a profiled step goes on every device: of all blocks the one with the median step."""

from collections.abc import Iterator
from dataclasses import replace

from dpscale.analyse.communication.estimators import StepsByConfiguration, devices_of, profiler_state
from dpscale.analyse.timing.points import point_fields
from dpscale.tables.communication import StepsRow

PARTS = ("compute_s", "communication_s", "copy_s", "idle_s")
# The trace counts in nanoseconds: what is below them is left over from adding up.
TRACE_DIGITS = 9


def steps_rows(steps: StepsByConfiguration) -> Iterator[StepsRow]:
    """The parts of the step of every device, which add up to `parts_s`."""
    for (configuration, environment), records in sorted(steps.items()):
        blocks = (devices for record in records for devices in devices_of(record))
        for devices in zip(*blocks, strict=True):
            middle = sorted(devices, key=lambda device: device.step_s)[len(devices) // 2]
            parts = {name: sum(getattr(phase, name) for phase in middle.phases.values()) for name in PARTS}
            yield StepsRow(
                **point_fields(configuration, environment),
                device=middle.device,
                profiler=profiler_state(records),
                **parts,
                parts_s=sum(parts.values()),
                hidden_communication_s=round(middle.communication_s - middle.exposed_s, TRACE_DIGITS),
                step_s=middle.step_s,
            )


def completed_steps(row: StepsRow) -> StepsRow:
    """With what follows from its parts."""
    return replace(row, difference=row.parts_s / row.step_s - 1)

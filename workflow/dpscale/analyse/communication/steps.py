"""Where a profiled step goes on every device, by phase and for the whole step."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dpscale.analyse.communication.estimators import profiler_state
from dpscale.analyse.communication.measured import Measurements
from dpscale.analyse.timing.points import point_fields
from dpscale.formulas.figure import Figure
from dpscale.plan.cells import Configuration
from dpscale.records.files import Record
from dpscale.tables.communication import StepsRow
from dpscale.vocabulary.states import ARTEFACT, DISTORTED, WHOLE_STEP

PARTS = ("compute_s", "communication_s", "copy_s", "idle_s")
# The trace counts in nanoseconds: what is below them is left over from adding up.
TRACE_DIGITS = 9


def steps_rows(measured: Measurements) -> Iterator[StepsRow]:
    """Where the time of every device went, by phase, and for the whole step."""
    for (configuration, environment), records in sorted(measured.steps.items()):
        yield from _rows(configuration, environment, records)


def _rows(configuration: Configuration, environment: str, records: Sequence[Record]) -> Iterator[StepsRow]:
    """Of every device, the parts of the block with the median step, which sum up to it, between the least and the most
    of all blocks."""
    blocks = [block["devices"] for record in records if record["profile"] for block in record["profile"]["blocks"]]
    for devices in zip(*blocks, strict=True):
        middle = sorted(devices, key=lambda device: float(device["step_s"]))[len(devices) // 2]
        row = StepsRow(
            **point_fields(configuration, environment),
            profiler=profiler_state(records),
            n=len(devices),
            device=middle["device"],
        )
        for phase, parts in middle["phases"].items():
            of_phase = [device["phases"].get(phase, dict.fromkeys(PARTS, 0.0)) for device in devices]
            yield replace(_with_parts(row, parts, of_phase), phase=phase)
        yield _whole_step(row, middle, devices)


def _whole_step(row: StepsRow, middle: Mapping[str, Any], devices: Sequence[Mapping[str, Any]]) -> StepsRow:
    def total(device: Mapping[str, Any]) -> dict[str, float]:
        return {part: sum(phase[part] for phase in device["phases"].values()) for part in PARTS}

    parts_s = sum(total(middle).values())
    return replace(
        _with_parts(row, total(middle), list(map(total, devices))),
        phase=WHOLE_STEP,
        hidden_communication_s=round(middle["communication_s"] - middle["exposed_s"], TRACE_DIGITS),
        parts_s=parts_s,
        step_s=_between([device["step_s"] for device in devices], middle["step_s"]),
        difference=parts_s / middle["step_s"] - 1,
    )


def _with_parts(row: StepsRow, middle: Mapping[str, float], blocks: Sequence[Mapping[str, float]]) -> StepsRow:
    def part(name: str) -> Figure:
        return _between([block[name] for block in blocks], middle[name])

    return replace(
        row,
        compute_s=part("compute_s"),
        communication_s=part("communication_s"),
        copy_s=part("copy_s"),
        idle_s=part("idle_s"),
    )


def _between(values: Sequence[float], middle: float) -> Figure:
    return Figure.of(middle, min(values), max(values))


def completed_steps(row: StepsRow) -> StepsRow:
    """With the shares of a whole step that the profiler tells."""
    if row.phase != WHOLE_STEP or row.profiler in (DISTORTED, ARTEFACT):
        return row
    return replace(
        row,
        compute_share=row.compute_s.value / row.parts_s,
        communication_share=row.communication_s.value / row.parts_s,
        copy_share=row.copy_s.value / row.parts_s,
        idle_share=row.idle_s.value / row.parts_s,
    )

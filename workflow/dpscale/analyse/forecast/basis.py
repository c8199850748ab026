"""What a study offers to forecast DDP's step from: step times, allreduces, buckets and profiled backward passes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median
from typing import Any

from dpscale.analyse.communication.measured import Measurements
from dpscale.analyse.forecast.allreduce import Fitted, Measured
from dpscale.analyse.forecast.overlap import Backward, Buckets, StepTimes
from dpscale.analyse.timing.points import Comparison, Points, compare
from dpscale.formulas.figure import Figure
from dpscale.formulas.statistics import derive
from dpscale.records.files import Record
from dpscale.strategies.known import BASELINE, STRATEGIES

# The strategy whose steps are forecast: the model is of buckets that are reduced while the backward pass still runs.
(FORECAST,) = (name for name, strategy in STRATEGIES.items() if strategy.has_forecast)
# Share of the backward pass in the work of a step where nothing counted it: a layer's gradients, of weights and of
# inputs, cost about its forward pass each.
BACKWARD_SHARE = 2 / 3

Place = tuple[int, int]  # GPUs and batch per GPU


@dataclass(frozen=True)
class Basis:
    """What one environment offers to forecast DDP's step from."""

    letter: str
    step_s: StepTimes
    held_out_s: StepTimes
    """Those that a forecast of the largest N is scored with."""
    allreduces: Sequence[Measured]
    buckets: Buckets
    watched: Mapping[Place, Backward]
    """What the profiler saw of DDP's backward pass, by GPUs and batch per GPU."""

    @property
    def gpus_per_node(self) -> int | None:
        """None where nothing was measured on several nodes."""
        return next((timing.gpus // timing.nodes for timing in self.allreduces if timing.nodes > 1), None)

    @cached_property
    def fitted(self) -> Fitted:
        return Fitted(self.allreduces)


def bases(points: Points, measured: Measurements) -> Iterator[Basis]:
    """One for every environment in which DDP's steps and allreduces were measured."""
    if measured.network is None:
        return
    buckets = _buckets(measured.network)
    for letter in sorted({letter for _, letter in measured.links}):
        compared = _compared(points, letter)
        step_s = _step_s(_single_s(points, letter), compared)
        if any(gpus > 1 for gpus, _ in step_s):
            allreduces = [
                Measured(gpus, message_bytes, seconds, links.nodes)
                for (gpus, of), links in measured.links.items()
                if of == letter
                for (operation, message_bytes), seconds in links.collectives.items()
                if operation == "allreduce"
            ]
            yield Basis(letter, step_s, _held_out_s(compared), allreduces, buckets, _watched(measured, letter))


def _buckets(network: Mapping[str, Any]) -> Buckets:
    flop, buckets = network["flop_per_image"], network["ddp_buckets"]
    return Buckets(
        tuple(bucket["bytes"] for bucket in buckets),
        tuple(bucket["ready_share"] for bucket in buckets),
        BACKWARD_SHARE if flop is None else 1 - flop["forward"] / flop["forward_backward"],
    )


def _compared(points: Points, letter: str) -> dict[Place, Comparison]:
    """DDP on several GPUs beside one at the same batch, where there are blocks."""
    found = {
        (configuration.gpus, configuration.batch_per_gpu): compare(points, point, configuration.batch_per_gpu)
        for (configuration, scope, of), point in points.items()
        if (of, scope, configuration.strategy) == (letter, "compute", FORECAST)
    }
    return {place: compared for place, compared in found.items() if compared.blocks}


def _single_s(points: Points, letter: str) -> dict[int, Figure]:
    """t(1,b) of the runs on one GPU, by batch."""
    return {
        configuration.batch_per_gpu: point.step
        for (configuration, scope, of), point in points.items()
        if (of, scope, configuration.strategy) == (letter, "compute", BASELINE) and point.step.is_known
    }


def _step_s(single_s: Mapping[int, Figure], compared: Mapping[Place, Comparison]) -> dict[Place, Figure]:
    """t(1,b), and for DDP that plus what its step has beyond t(1,b) within a block.

    So t(N,b) - t(1,b) is the difference within blocks in every draw: servers differ by more than communication takes.
    """
    steps = {(1, batch): step for batch, step in single_s.items()}
    for (gpus, batch), beside in compared.items():
        if batch in single_s:
            steps[gpus, batch] = derive(lambda single, more: single + more, single_s[batch], beside.communication_step)
    return steps


def _held_out_s(compared: Mapping[Place, Comparison]) -> StepTimes:
    """The steps to score a forecast with: t(N,b) of the largest N as its runs have it, and t(1,b) of their baselines.

    So prediction and measurement stand on the same servers. Draws of t(N,b) are those of t(1,b) and the difference.
    """
    most = max((gpus for gpus, _ in compared), default=0)
    held = {batch: beside for (gpus, batch), beside in compared.items() if gpus == most}
    steps = _step_s(
        {
            batch: beside.over_blocks(lambda block: block.baseline.step_s, "baseline step")
            for batch, beside in held.items()
        },
        compared,
    )
    for batch, beside in held.items():
        whole = beside.over_blocks(lambda block: block.parallel.step_s, "parallel step")
        known = whole if whole.has_interval else Figure(whole.value)
        steps[most, batch] = replace(known, drawn=steps[most, batch].draws)
    return steps


def _watched(measured: Measurements, letter: str) -> dict[Place, Backward]:
    return {
        (configuration.gpus, configuration.batch_per_gpu): _backward(profiled)
        for (configuration, of), records in measured.steps.items()
        if of == letter
        and configuration.strategy == FORECAST
        and (profiled := [record for record in records if record["profile"]])
    }


def _backward(profiled: Sequence[Record]) -> Backward:
    """The backward pass on the device that waited least, beside the step of the same job that was not profiled.

    Devices count what they compute by their own clocks, so that profiling does not lengthen it.
    """
    blocks = [block["devices"] for record in profiled for block in record["profile"]["blocks"]]
    phases = [min(devices, key=lambda device: device["communication_s"])["phases"] for devices in blocks]
    computed_s = median(sum(phase["compute_s"] for phase in of_device.values()) for of_device in phases)
    step_s = median(seconds for record in profiled for seconds in record["steps"]["variants"]["training"]["step_s"])
    return Backward(Figure(median(of_device["backward"]["compute_s"] for of_device in phases)), computed_s / step_s)

"""The tables of scaling laws, models of allreduce and forecasts, for every environment that was measured."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median
from typing import Any

from dpscale.analyse.communication_tables import Estimates, Measurements, profiler_state
from dpscale.analyse.forecast.allreduce import Fit, Fitted, Link, Measured, exact_link
from dpscale.analyse.forecast.laws import fit_laws
from dpscale.analyse.forecast.overlap import (
    Backward,
    Buckets,
    StepTimes,
    critical_batch,
    hidden_where_measured,
    inferred_backwards,
)
from dpscale.analyse.forecast.steps import Band, Prediction, extrapolate, held_out
from dpscale.analyse.points import Comparison, Points, Row, columns, compare
from dpscale.errors import DpscaleError
from dpscale.formulas.figure import Figure
from dpscale.formulas.statistics import derive
from dpscale.plan.study import Study
from dpscale.records.files import Record
from dpscale.schemas.settings import sample_of
from dpscale.strategies.known import BASELINE
from dpscale.vocabulary.states import EXTRAPOLATED, HELD_OUT, SCENARIO

# The strategy whose steps are forecast: the model is of buckets that are reduced while the backward pass still runs.
FORECAST = "ddp"
# Share of the backward pass in the work of a step where nothing counted it: a layer's gradients, of weights and of
# inputs, cost about its forward pass each.
BACKWARD_SHARE = 2 / 3
# What stands behind the name of an algorithm whose links are those between nodes.
BETWEEN_NODES = ", between nodes"


def laws_rows(weak: Iterable[Comparison]) -> Iterator[Row]:
    """A row for every parameter of every law of every weak series: a strategy in a scope at a batch per GPU."""
    series: dict[tuple[Any, ...], dict[int, Figure]] = defaultdict(dict)
    for compared in weak:
        point, configuration = compared.point, compared.point.configuration
        place = configuration.strategy, point.scope, point.environment, configuration.batch_per_gpu
        series[place][configuration.gpus] = compared.speedup
    for (strategy, scope, letter, batch), speedups in series.items():
        for fit in fit_laws(speedups):
            row = {
                "strategy": strategy,
                "scope": scope,
                "environment": letter,
                "batch_per_gpu": batch,
                "law": fit.law,
                "points": fit.points,
                "degrees_of_freedom": fit.degrees_of_freedom,
                "worst_relative_error": fit.worst_relative_error,
                "statement": fit.statement,
            }
            if not fit.parameters:
                yield row
            for name, estimate in fit.parameters.items():
                yield {**row, "parameter": name, **columns("value", estimate)}


@dataclass(frozen=True)
class Basis:
    """What one environment offers to forecast DDP's step from."""

    letter: str
    step_s: StepTimes
    held_out_s: StepTimes
    """Those that a forecast of the largest N is scored with."""
    allreduces: list[Measured]
    buckets: Buckets
    watched: Mapping[tuple[int, int], Backward]
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
        allreduces = [
            Measured(gpus, message_bytes, seconds, measured.nodes(gpus, letter))
            for (gpus, of), links in measured.links.items()
            if of == letter
            for (operation, message_bytes), seconds in links.collectives.items()
            if operation == "allreduce"
        ]
        if any(gpus > 1 for gpus, _ in step_s):
            yield Basis(letter, step_s, _held_out_step_s(compared), allreduces, buckets, _watched(measured, letter))


def _compared(points: Points, letter: str) -> dict[tuple[int, int], Comparison]:
    """DDP on several GPUs beside one at the same batch, by GPUs and batch per GPU, where there are blocks."""
    found = {}
    for point in points.values():
        configuration = point.configuration
        if (point.environment, point.scope, configuration.strategy) == (letter, "compute", FORECAST):
            compared = compare(points, point, configuration.batch_per_gpu)
            if compared.blocks:
                found[configuration.gpus, configuration.batch_per_gpu] = compared
    return found


def _single_s(points: Points, letter: str) -> dict[int, Figure]:
    """t(1,b) of the runs on one GPU, by batch."""
    return {
        point.configuration.batch_per_gpu: point.step
        for point in points.values()
        if (point.environment, point.scope, point.configuration.strategy) == (letter, "compute", BASELINE)
        and point.step
    }


def _step_s(
    single_s: Mapping[int, Figure], compared: Mapping[tuple[int, int], Comparison]
) -> dict[tuple[int, int], Figure]:
    """t(1,b), and for DDP that plus what its step has beyond t(1,b) within a block.

    So t(N,b) - t(1,b) is the difference within blocks in every draw: servers differ by more than communication takes.
    """
    steps = {(1, batch): step for batch, step in single_s.items()}
    for (gpus, batch), beside in compared.items():
        if batch in single_s:
            steps[gpus, batch] = derive(lambda single, more: single + more, single_s[batch], beside.communication_step)
    return steps


def _held_out_step_s(compared: Mapping[tuple[int, int], Comparison]) -> StepTimes:
    """The steps to score a forecast with: t(N,b) of the largest N as its runs have it, and t(1,b) of their baselines.

    So prediction and measurement stand on the same servers. Draws of t(N,b) are those of t(1,b) and the difference.
    """
    most = max((gpus for gpus, _ in compared), default=0)
    held = {batch: beside for (gpus, batch), beside in compared.items() if gpus == most}
    alone_s = {
        batch: beside.over_blocks(lambda block: block.baseline.step_s, "baseline step", "log")
        for batch, beside in held.items()
    }
    steps = _step_s(alone_s, compared)
    for batch, beside in held.items():
        whole = beside.over_blocks(lambda block: block.parallel.step_s, "parallel step", "log")
        known = whole if whole.has_interval else Figure(whole.value)
        steps[most, batch] = replace(known, drawn=steps[most, batch].draws)
    return steps


def _watched(measured: Measurements, letter: str) -> dict[tuple[int, int], Backward]:
    found = {}
    for (configuration, of), records in measured.steps.items():
        profiled = [record for record in records if record["profile"]]
        if of == letter and configuration.strategy == FORECAST and profiled:
            found[configuration.gpus, configuration.batch_per_gpu] = _backward(profiled)
    return found


def _backward(profiled: Sequence[Record]) -> Backward:
    """The backward pass on the device that waited least, beside the step of the same job that was not profiled.

    Devices count what they compute by their own clocks, so that profiling does not lengthen it.
    """
    blocks = [block["devices"] for record in profiled for block in record["profile"]["blocks"]]
    phases = [min(devices, key=lambda device: device["communication_s"])["phases"] for devices in blocks]
    computed_s = median(sum(phase["compute_s"] for phase in of_device.values()) for of_device in phases)
    step_s = median(seconds for record in profiled for seconds in record["steps"]["variants"]["training"]["step_s"])
    return Backward(Figure(median(of_device["backward"]["compute_s"] for of_device in phases)), computed_s / step_s)


def _buckets(network: Mapping[str, Any]) -> Buckets:
    flop = network["flop_per_image"]
    return Buckets(
        tuple(bucket["bytes"] for bucket in network["ddp_buckets"]),
        tuple(bucket["ready_share"] for bucket in network["ddp_buckets"]),
        BACKWARD_SHARE if flop is None else 1 - flop["forward"] / flop["forward_backward"],
    )


def model_rows(basis: Basis) -> Iterator[Row]:
    """Latency and bandwidth of every algorithm's model, and how well it describes what was measured on N GPUs; then the
    same of the links between nodes."""
    for links in ("", BETWEEN_NODES):
        try:
            fitted = basis.fitted.between if links else basis.fitted.inside
        except DpscaleError as error:
            yield {"environment": basis.letter, "status": "not available", "reason": str(error)}
            continue
        yield from _rows_of_models(basis, fitted, links)


def _rows_of_models(basis: Basis, fitted: Mapping[str, Fit], links: str) -> Iterator[Row]:
    per_node = (basis.gpus_per_node or 1) if links else 1
    for name, fit in fitted.items():
        for gpus in sorted(set(fit.gpus)):
            errors = fit.errors_on(gpus)
            yield {
                "environment": basis.letter,
                "gpus": gpus * per_node,
                "status": "ok",
                "algorithm": f"{name}{links}",
                **columns("latency_s", fit.latency_s(gpus)),
                **columns("base_latency_s", fit.link.base_s),
                **columns("bandwidth_gb_s", fit.link.beta_gb_s),
                "median_relative_error": median(map(abs, errors)),
                "lowest_relative_error": min(errors),
                "highest_relative_error": max(errors),
                "worst_relative_error": max(map(abs, errors)),
                "reason": fit.statement,
            }


def forecast_rows(study: Study, basis: Basis) -> Iterator[Row]:
    """The largest number of GPUs predicted from fewer and scored; then numbers of GPUs that were not measured."""
    try:
        yield from _held_out_rows(basis)
    except DpscaleError as error:
        yield _refused(basis, HELD_OUT, error)
    try:
        yield from _extrapolated_rows(study, basis)
    except DpscaleError as error:
        yield _refused(basis, EXTRAPOLATED, error)


def _refused(basis: Basis, kind: str, error: DpscaleError) -> Row:
    return {"kind": kind, "environment": basis.letter, "status": "not available", "reason": str(error)}


def _held_out_rows(basis: Basis) -> Iterator[Row]:
    if len({gpus for gpus, _ in basis.held_out_s}) < 3:
        raise DpscaleError("a score needs three numbers of GPUs: one to hold out, one to calibrate with, and 1")
    for score in held_out(basis.held_out_s, basis.allreduces, basis.buckets, basis.gpus_per_node):
        yield {
            **_place(basis, HELD_OUT, score.gpus, score.batch_per_gpu, score.calibrated_on, score.algorithm),
            **_parts(score.prediction),
            **_band("step_s", score.step_s),
            **columns("measured_step_s", score.measured_s),
            **columns("relative_error", score.relative_error),
            "within_tolerance": score.within_tolerance,
            # What a reader would guess without any model: the step of fewer GPUs, unchanged.
            "carried_over_relative_error": score.unchanged_error,
            "beats_unchanged": score.beats_unchanged,
        }


def _extrapolated_rows(study: Study, basis: Basis) -> Iterator[Row]:
    if study["device"] == "cpu":
        raise DpscaleError("workers on a CPU share its cores and its memory: more of them are no larger cluster")
    cluster = study["forecast"]
    network: Link = exact_link(cluster["network_latency_us"] * 1e-6, cluster["network_gb_s"])
    per_node = basis.gpus_per_node or cluster["gpus_per_node"]
    for forecast in extrapolate(basis.step_s, basis.allreduces, basis.buckets, per_node, network):
        row = {
            **_place(
                basis,
                SCENARIO if forecast.is_scenario else EXTRAPOLATED,
                forecast.gpus,
                forecast.batch_per_gpu,
                forecast.calibrated_on,
                forecast.algorithm,
            ),
            "nodes": forecast.nodes,
            **_parts(forecast.prediction),
            **_band("step_s", forecast.step_s),
            **_band("images_per_s", forecast.images_per_s),
            **_band("speedup", forecast.speedup),
            **_band("efficiency", forecast.efficiency),
            "gpus_at_most": study.epoch_images // forecast.batch_per_gpu,
        }
        if forecast.gpus * forecast.batch_per_gpu > study.epoch_images:
            samples = f"{study.epoch_images} {sample_of(study.settings.workload)}s"
            row["reason"] = f"a step takes more than the {samples} of an epoch"
        yield row


def _place(basis: Basis, kind: str, gpus: int, batch: int, calibrated_on: int, algorithm: str) -> Row:
    return {
        "kind": kind,
        "environment": basis.letter,
        "status": "ok",
        "gpus": gpus,
        "batch_per_gpu": batch,
        "global_batch": gpus * batch,
        "calibrated_on_gpus": calibrated_on,
        "algorithm": algorithm,
    }


def _parts(prediction: Prediction) -> Row:
    return {
        "compute_s": prediction.compute_s.value,
        "overhead_s": prediction.overhead_s.value,
        "exposed_s": prediction.exposed_s.value,
        "hidden_s": prediction.hidden_s.value,
    }


def _band(name: str, band: Band) -> Row:
    return {name: band.value, f"{name}_low": band.low, f"{name}_high": band.high}


def critical_batch_rows(
    basis: Basis, measured: Measurements, estimated: Sequence[tuple[Comparison, Estimates]]
) -> Iterator[Row]:
    """The batch per GPU from which on communication hides, predicted and, by the profiler, looked for in the grid."""
    try:
        fitted = min(basis.fitted.inside.values(), key=lambda fit: fit.median_relative_error)
    except DpscaleError as error:
        yield {"environment": basis.letter, "status": "not available", "reason": str(error)}
        return
    inside = basis.gpus_per_node or math.inf  # between nodes the model has two links
    for gpus in sorted({gpus for gpus, _ in basis.step_s if 1 < gpus <= inside}):
        watched = {batch: backward for (n, batch), backward in basis.watched.items() if n == gpus}
        backwards = watched or inferred_backwards(basis.step_s, basis.buckets.backward_share)
        predicted = critical_batch(gpus, backwards, fitted.seconds, basis.buckets)
        exposed, total = _profiled(basis, gpus, measured, estimated)
        yield {
            "environment": basis.letter,
            "status": "ok",
            "gpus": gpus,
            "algorithm": fitted.algorithm,
            **(columns("batch_per_gpu", predicted.batch) if predicted.batch else {}),
            "backward_from": "profiler" if watched else "t(1,b)",
            "profiled": len(total),
            "measured_batch_per_gpu": hidden_where_measured(exposed, total, basis.buckets),
            "reason": predicted.statement,
        }


def _profiled(
    basis: Basis, gpus: int, measured: Measurements, estimated: Sequence[tuple[Comparison, Estimates]]
) -> tuple[dict[int, Figure], dict[int, Figure]]:
    """DDP's exposed and whole communication of a step by the profiler, on the GPU that waited least, by batch per GPU.

    The model of the overlap knows of no waiting. Where profiling changes the step, it says nothing.
    """
    exposed, total = {}, {}
    for compared, found in estimated:
        configuration = compared.point.configuration
        if (configuration.strategy, configuration.gpus, compared.point.environment) != (FORECAST, gpus, basis.letter):
            continue
        if "profiler_least_step_s" in found and profiler_state(compared, measured) == "ok":
            exposed[configuration.batch_per_gpu] = found["profiler_least_exposed_step_s"]
            total[configuration.batch_per_gpu] = found["profiler_least_step_s"]
    return exposed, total

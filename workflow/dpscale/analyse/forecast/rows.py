"""The tables of scaling laws, models of allreduce and forecasts, for every environment that was measured."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import median

from dpscale.analyse.forecast.allreduce import Fit, exact_link
from dpscale.analyse.forecast.basis import FORECAST, Basis
from dpscale.analyse.forecast.laws import fit_laws
from dpscale.analyse.forecast.overlap import critical_batch, hidden_where_measured, inferred_backwards
from dpscale.analyse.forecast.steps import extrapolate, held_out
from dpscale.analyse.timing.points import Comparison
from dpscale.errors import DpscaleError
from dpscale.formulas.figure import Figure
from dpscale.plan.study import Study
from dpscale.schemas.settings import sample_of
from dpscale.tables.communication import CommunicationRow
from dpscale.tables.forecast import AllreduceModelsRow, CriticalBatchRow, ForecastRow, LawsRow
from dpscale.vocabulary.states import EXTRAPOLATED, HELD_OUT

# In place of a status: what too little was measured for.
NOT_AVAILABLE = "not available"


def laws_rows(weak: Iterable[Comparison]) -> Iterator[LawsRow]:
    """A row for every parameter of every law of every weak series: a strategy in a scope at a batch per GPU."""
    series: dict[tuple[str, str, str, int], dict[int, Figure]] = defaultdict(dict)
    for compared in weak:
        point, configuration = compared.point, compared.point.configuration
        place = configuration.strategy, point.scope, point.environment, configuration.batch_per_gpu
        series[place][configuration.gpus] = compared.speedup
    for (strategy, scope, environment, batch), speedups in series.items():
        for fit in fit_laws(speedups):
            row = LawsRow(
                strategy=strategy,
                scope=scope,
                environment=environment,
                batch_per_gpu=batch,
                law=fit.law.name,
                points=len(speedups),
                degrees_of_freedom=fit.degrees_of_freedom,
                worst_relative_error=fit.worst_relative_error,
                statement=fit.statement,
            )
            if not fit.parameters:
                yield row
            for name, value in fit.parameters.items():
                yield replace(row, parameter=name, value=value)


def model_rows(basis: Basis) -> Iterator[AllreduceModelsRow]:
    """Latency and bandwidth of every algorithm's model, and how well it describes what was measured on N GPUs; then the
    same of the links between nodes."""
    try:
        yield from _rows_of_models(basis.letter, basis.fitted.inside)
    except DpscaleError as error:
        yield AllreduceModelsRow(environment=basis.letter, status=NOT_AVAILABLE, reason=str(error))
    try:
        yield from _rows_of_models(basis.letter, basis.fitted.between, ", between nodes", basis.gpus_per_node or 1)
    except DpscaleError as error:
        yield AllreduceModelsRow(environment=basis.letter, status=NOT_AVAILABLE, reason=str(error))


def _rows_of_models(
    environment: str, fitted: Mapping[str, Fit], links: str = "", gpus_per_node: int = 1
) -> Iterator[AllreduceModelsRow]:
    for name, fit in fitted.items():
        for gpus in sorted(set(fit.gpus)):
            errors = fit.errors_on(gpus)
            yield AllreduceModelsRow(
                environment=environment,
                gpus=gpus * gpus_per_node,
                status="ok",
                algorithm=f"{name}{links}",
                latency_s=fit.latency_s(gpus),
                base_latency_s=fit.link.base_s,
                bandwidth_gb_s=fit.link.beta_gb_s,
                median_relative_error=median(map(abs, errors)),
                lowest_relative_error=min(errors),
                highest_relative_error=max(errors),
                worst_relative_error=max(map(abs, errors)),
                reason=fit.statement,
            )


def forecast_rows(study: Study, basis: Basis) -> Iterator[ForecastRow]:
    """The largest number of GPUs predicted from fewer and scored; then numbers of GPUs that were not measured."""
    for kind, rows_of in ((HELD_OUT, _held_out), (EXTRAPOLATED, _extrapolated)):
        try:
            rows = list(rows_of(study, basis))
        except DpscaleError as error:
            rows = [ForecastRow(kind=kind, status=NOT_AVAILABLE, reason=str(error))]
        for row in rows:
            yield replace(row, environment=basis.letter)


def _held_out(_: Study, basis: Basis) -> Iterable[ForecastRow]:
    if len({gpus for gpus, _ in basis.held_out_s}) < 3:
        raise DpscaleError("a score needs three numbers of GPUs: one to hold out, one to calibrate with, and 1")
    return held_out(basis.held_out_s, basis.allreduces, basis.buckets, basis.gpus_per_node)


def _extrapolated(study: Study, basis: Basis) -> Iterator[ForecastRow]:
    if study["device"] == "cpu":
        raise DpscaleError("workers on a CPU share its cores and its memory: more of them are no larger cluster")
    cluster = study["forecast"]
    network = exact_link(cluster["network_latency_us"] * 1e-6, cluster["network_gb_s"])
    per_node = basis.gpus_per_node or cluster["gpus_per_node"]
    images = study.epoch_images
    too_many = f"a step takes more than the {images} {sample_of(study.settings.workload)}s of an epoch"
    for row in extrapolate(basis.step_s, basis.allreduces, basis.buckets, per_node, network):
        reason = too_many if row.global_batch > images else ""
        yield replace(row, gpus_at_most=images // row.batch_per_gpu, reason=reason)


def critical_batch_rows(basis: Basis, communication: Sequence[CommunicationRow]) -> Iterator[CriticalBatchRow]:
    """The batch per GPU from which on communication hides, predicted and, by the profiler, looked for in the grid."""
    try:
        fitted = min(basis.fitted.inside.values(), key=lambda fit: fit.median_relative_error)
    except DpscaleError as error:
        yield CriticalBatchRow(environment=basis.letter, status=NOT_AVAILABLE, reason=str(error))
        return
    inside = basis.gpus_per_node or math.inf  # between nodes the model has two links
    for gpus in sorted({gpus for gpus, _ in basis.step_s if 1 < gpus <= inside}):
        watched = {batch: backward for (n, batch), backward in basis.watched.items() if n == gpus}
        backwards = watched or inferred_backwards(basis.step_s, basis.buckets.backward_share)
        batch, statement = critical_batch(gpus, backwards, fitted.seconds, basis.buckets)
        profiled = dict(_profiled(basis.letter, gpus, communication))
        yield CriticalBatchRow(
            environment=basis.letter,
            status="ok",
            gpus=gpus,
            algorithm=fitted.algorithm,
            batch_per_gpu=batch,
            backward_from="profiler" if watched else "t(1,b)",
            profiled=len(profiled),
            measured_batch_per_gpu=hidden_where_measured(profiled, basis.buckets),
            reason=statement,
        )


def _profiled(
    environment: str, gpus: int, communication: Sequence[CommunicationRow]
) -> Iterator[tuple[int, tuple[float, float]]]:
    """DDP's exposed and whole communication of a step by the profiler, on the GPU that waited least, by batch per GPU.

    The model of the overlap knows of no waiting. Where profiling changes the step, it says nothing.
    """
    for row in communication:
        is_here = (row.strategy, row.gpus, row.environment) == (FORECAST, gpus, environment)
        if is_here and row.profiler == "ok" and row.profiler_least_step_s.is_known:
            yield row.batch_per_gpu, (row.profiler_least_exposed_step_s.value, row.profiler_least_step_s.value)

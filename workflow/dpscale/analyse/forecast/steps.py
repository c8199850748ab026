"""DDP's step time from its parts: predicted for GPUs that were held out, and extrapolated to many. Seconds.

t(N,b) = t(1,b) + overhead(b) + exposed(N,b): compute as on one GPU, what DDP itself costs on the host and in copies,
and the part of the allreduces that backward does not hide (Li et al. VLDB 2020). Assumed throughout:

- The allreduces of DDP's buckets run one after the other, each as fast as alone, and slow no computation down.
- The forward and backward pass take as long as on one GPU, with gradients ready at the same share of backward.
- Overhead is what the largest measured N below the predicted one has beyond compute and exposed communication. It may
  be negative within noise, and is carried over unchanged: stragglers among more GPUs are not foreseen.
- Beyond the measured GPUs, a step is at least as long as one GPU's: efficiency is at most 100 %.

Intervals carry the spread of the timings and what the model of allreduce misses of the measured points; bands also the
choice of algorithm. Neither carries a wrong assumption. Where links between nodes were not measured, a forecast that
needs them is a scenario.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from dpscale.analyse.forecast.allreduce import (
    ALGORITHMS,
    Fit,
    Fitted,
    LinkModel,
    Measured,
    allreduce_s,
    hierarchical_s,
    slowest_link,
)
from dpscale.analyse.forecast.overlap import Allreduce, Buckets, StepTimes, exposed_s
from dpscale.errors import DpscaleError
from dpscale.formulas import scaling
from dpscale.formulas.figure import Figure
from dpscale.formulas.statistics import derive
from dpscale.tables.forecast import ForecastRow
from dpscale.vocabulary.states import EXTRAPOLATED, HELD_OUT, SCENARIO, UNDECIDED

# What a held-out step time may be off by, and the sizes that are forecast.
HELD_OUT_TOLERANCE = 0.10
FORECAST_GPUS = (8, 16, 32, 64, 128, 256, 512, 1024)


@dataclass(frozen=True)
class Model:
    """An allreduce on the GPUs that were measured, with which overhead is calibrated, and on those to be predicted.
    `relative_error` is the median of what it misses of the measured ones."""

    relative_error: float
    known: Allreduce
    predicted: Allreduce


Models = Mapping[str, Model]  # by algorithm


@dataclass(frozen=True)
class Prediction:
    """A predicted step and its parts. `step_s` = compute + overhead + exposed; hidden communication costs nothing."""

    step_s: Figure
    compute_s: Figure
    overhead_s: Figure
    exposed_s: Figure
    hidden_s: Figure


def predict_step(gpus: int, single_s: Figure, overhead_s: Figure, allreduce: Allreduce, buckets: Buckets) -> Prediction:
    """The step on N GPUs from that on one, the overhead, and a model of allreduce."""
    bucket_s = [allreduce(gpus, size) for size in buckets.sizes_bytes]
    exposed = derive(lambda single, *each: exposed_s(single, each, buckets), single_s, *bucket_s)
    hidden = derive(lambda shown, *each: sum(each) - shown, exposed, *bucket_s)
    step = derive(lambda *parts: sum(parts), single_s, overhead_s, exposed)
    return Prediction(step, single_s, overhead_s, exposed, hidden)


def overhead_s(gpus: int, single_s: Figure, step_s: Figure, allreduce: Allreduce, buckets: Buckets) -> Figure:
    """What a measured step on N GPUs has beyond compute and exposed communication: t(N,b) - t(1,b) - exposed(N,b)."""
    bucket_s = [allreduce(gpus, size) for size in buckets.sizes_bytes]
    return derive(
        lambda step, single, *each: step - single - exposed_s(single, each, buckets), step_s, single_s, *bucket_s
    )


def held_out(
    step_s: StepTimes, measured: Sequence[Measured], buckets: Buckets, gpus_per_node: int | None = None
) -> list[ForecastRow]:
    """Predict the steps on the largest N from measurements on fewer GPUs alone, and score them.

    More than `gpus_per_node` are on several nodes; None says that all are on one. `buckets` must not come from the
    largest N either. Batches without a step on one GPU, on the largest N, or on any N between are left out. Raises
    DpscaleError where fewer GPUs leave no model of allreduce, or none between nodes where the largest N needs one.
    """
    gpus = max(n for n, _ in step_s)
    known = {place: step for place, step in step_s.items() if place[0] < gpus}
    models = _models(gpus, Fitted([timing for timing in measured if timing.gpus < gpus]), gpus_per_node, None)
    return [
        _scored(*_predicted(gpus, batch, known, models, buckets), known, step_s[gpus, batch])
        for batch in _batches(known)
        if (gpus, batch) in step_s
    ]


def _scored(row: ForecastRow, steps: Sequence[Figure], known: StepTimes, measured_s: Figure) -> ForecastRow:
    """With the errors of the likeliest algorithm, and of the simplest guess: the step on fewer GPUs, unchanged.

    The error is within tolerance by its value: its interval may be wider. Whether the model is the nearer one is
    undecided where the interval of what it gains holds zero, and where there is none.
    """
    assert row.calibrated_on_gpus
    fewer_s = known[row.calibrated_on_gpus, row.batch_per_gpu]
    error = derive(lambda predicted, true: predicted / true - 1, steps[0], measured_s)
    gain = derive(
        lambda fewer, predicted, true: (abs(fewer - true) - abs(predicted - true)) / true,
        fewer_s,
        steps[0],
        measured_s,
    )
    return replace(
        row,
        kind=HELD_OUT,
        step_s=_band(steps),
        measured_step_s=measured_s,
        relative_error=error,
        within_tolerance=abs(error.value) <= HELD_OUT_TOLERANCE,
        carried_over_relative_error=fewer_s.value / measured_s.value - 1,
        beats_unchanged="yes" if gain.is_above(0) else "no" if gain.is_below(0) else UNDECIDED,
    )


def extrapolate(
    step_s: StepTimes,
    measured: Sequence[Measured],
    buckets: Buckets,
    gpus_per_node: int,
    network: LinkModel,
    gpus: Sequence[int] = FORECAST_GPUS,
) -> Iterator[ForecastRow]:
    """Forecast DDP's step on N GPUs in nodes of `gpus_per_node`, each GPU with its own share of the network.

    Inside a node allreduce is a ring or a tree; beyond it is hierarchical, a ring or a tree across nodes, or, as the
    pessimistic bound, one ring whose every link is the slowest. Links between nodes are the measured ones, and where
    none were measured, `network`: the forecast is then a scenario. Numbers of GPUs up to the largest measured one are
    left out, as are batches without a step on one GPU and on any more. Raises DpscaleError where GPUs do not fill
    nodes, or allreduce was measured too little.
    """
    fitted = Fitted(measured)
    largest = max(n for n, _ in step_s)
    for n in (n for n in gpus if n > largest):
        nodes = -(-n // gpus_per_node)
        kind = SCENARIO if nodes > 1 and not fitted.network_is_measured else EXTRAPOLATED
        models = _models(n, fitted, gpus_per_node, network)
        for batch in _batches(step_s):
            row, steps = _predicted(n, batch, step_s, models, buckets)
            yield replace(_with_bands(row, steps, step_s[1, batch]), kind=kind, nodes=nodes)


def _with_bands(row: ForecastRow, steps: Sequence[Figure], single_s: Figure) -> ForecastRow:
    """No step is faster than without any communication: what a negative overhead of a few GPUs says is noise."""
    steps = [derive(np.maximum, single_s, step) for step in steps]
    speedups = [derive(partial(scaling.speedup_from_steps, row.gpus), single_s, step) for step in steps]
    return replace(
        row,
        step_s=_band(steps),
        images_per_s=_band([derive(partial(scaling.throughput, row.global_batch), step) for step in steps]),
        speedup=_band(speedups),
        efficiency=_band([derive(lambda value: scaling.efficiency(value, row.gpus), speedup) for speedup in speedups]),
    )


def _band(figures: Sequence[Figure]) -> Figure:
    """The figure of the likeliest algorithm, the first, within the union of all algorithms' intervals; without ends
    where one of them is not known."""
    low, high = np.min([figure.low for figure in figures]), np.max([figure.high for figure in figures])
    return Figure.of(figures[0].value, float(low), float(high))


def _batches(step_s: StepTimes) -> list[int]:
    """Batches with a step on one GPU and on at least one larger number of GPUs."""
    single = {batch for gpus, batch in step_s if gpus == 1}
    return sorted(single & {batch for gpus, batch in step_s if gpus > 1})


def _models(gpus: int, fitted: Fitted, gpus_per_node: int | None, network: LinkModel | None) -> Models:
    """Those for so many GPUs; `network` is the link between nodes where none was measured. Raises DpscaleError where
    there is none at all."""
    if gpus_per_node is None or gpus <= gpus_per_node:
        return {name: Model(fit.median_relative_error, fit.seconds, fit.seconds) for name, fit in fitted.inside.items()}
    if fitted.between:
        # With one GPU per node nothing is sent inside one.
        ring = fitted.inside["ring"] if gpus_per_node > 1 else None
        return {
            f"hierarchical, {name}": _measured_across(across, gpus_per_node, ring or across)
            for name, across in fitted.between.items()
        }
    if network is None:
        nodes = -(-gpus // gpus_per_node)
        raise DpscaleError(f"{gpus} GPUs are on {nodes} nodes: no links between fewer were measured")
    return _beyond(gpus_per_node, fitted.inside["ring"], network)


def _measured_across(across: Fit, gpus_per_node: int, ring: Fit) -> Model:
    def seconds(gpus: int, size: int) -> Figure:
        if gpus <= gpus_per_node:
            return ring.seconds(gpus, size)
        return hierarchical_s(across.algorithm, gpus, gpus_per_node, size, ring.link, across.link)

    return Model(across.median_relative_error, seconds, seconds)


def _beyond(gpus_per_node: int, ring: Fit, network: LinkModel) -> Models:
    slowest = slowest_link(ring.link, network)

    def hierarchical(across: str) -> Allreduce:
        return lambda gpus, size: hierarchical_s(across, gpus, gpus_per_node, size, ring.link, network)

    predicted = {f"hierarchical, {across}": hierarchical(across) for across in ALGORITHMS}
    predicted["flat ring"] = lambda gpus, size: allreduce_s("ring", gpus, size, slowest)
    return {name: Model(ring.median_relative_error, ring.seconds, allreduce) for name, allreduce in predicted.items()}


def _predicted(
    gpus: int, batch: int, step_s: StepTimes, models: Models, buckets: Buckets
) -> tuple[ForecastRow, list[Figure]]:
    """The parts of the likeliest algorithm's step, and the steps of all, the likeliest first.

    Likeliest is the one whose model fits the measured allreduces best, and of those that fit alike the fastest, which
    NCCL's tuning aims at. The others stay in the band: NCCL may choose differently at other sizes and on more GPUs.
    """
    calibrated_on = max(n for n, measured_batch in step_s if measured_batch == batch and n < gpus)
    single_s = step_s[1, batch]
    predictions = {}
    for name, model in models.items():
        overhead = overhead_s(calibrated_on, single_s, step_s[calibrated_on, batch], model.known, buckets)
        predictions[name] = predict_step(gpus, single_s, overhead, model.predicted, buckets)
    likeliest, *_ = ordered = sorted(
        predictions, key=lambda name: (models[name].relative_error, predictions[name].step_s.value)
    )
    parts = predictions[likeliest]
    row = ForecastRow(
        status="ok",
        gpus=gpus,
        batch_per_gpu=batch,
        global_batch=gpus * batch,
        calibrated_on_gpus=calibrated_on,
        algorithm=likeliest,
        compute_s=parts.compute_s.value,
        overhead_s=parts.overhead_s.value,
        exposed_s=parts.exposed_s.value,
        hidden_s=parts.hidden_s.value,
    )
    return row, [predictions[name].step_s for name in ordered]

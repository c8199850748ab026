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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dpscale.analyse.forecast.allreduce import (
    Fit,
    Fitted,
    Link,
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


@dataclass(frozen=True)
class Band:
    """The figure of the likeliest algorithm, and the union of all algorithms' intervals.

    Likeliest is the one whose model fits the measured allreduces best, and of those that fit alike the fastest, which
    NCCL's tuning aims at. The others stay in the band: NCCL may choose differently at other sizes and on more GPUs.
    """

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class HeldOut:
    """A step on the most GPUs, predicted without any measurement on as many, beside the measured one.

    `algorithm` and `prediction` are those of the likeliest one, `step_s` the band over all. `relative_error` is
    predicted / measured - 1, and `within_tolerance` is said of its value: its interval may be wider. `calibrated_on`
    are the GPUs whose step gave the overhead. `unchanged_error` is that of the simplest guess, their step unchanged,
    and `gain` how much larger it is than the model's, both without their signs.
    """

    gpus: int
    batch_per_gpu: int
    calibrated_on: int
    algorithm: str
    prediction: Prediction
    step_s: Band
    measured_s: Figure
    relative_error: Figure
    within_tolerance: bool
    unchanged_error: float
    gain: Figure

    @property
    def beats_unchanged(self) -> str:
        """Whether the model is nearer to the measured step than the step on fewer GPUs is: `yes`, `no`, `undecided`.

        It is undecided where the interval of the gain holds zero, and where there is none.
        """
        low, high = self.gain.interval
        return "yes" if low > 0 else "no" if high < 0 else "undecided"


@dataclass(frozen=True)
class Forecast:
    """A step on GPUs that nobody measured; `algorithm` and `prediction` are those of the likeliest one.

    It is a scenario where it needs links between `nodes` that are configured, not measured.
    """

    gpus: int
    batch_per_gpu: int
    nodes: int
    network_is_measured: bool
    calibrated_on: int
    algorithm: str
    prediction: Prediction
    step_s: Band
    images_per_s: Band
    speedup: Band
    efficiency: Band

    @property
    def is_scenario(self) -> bool:
        return self.nodes > 1 and not self.network_is_measured


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
) -> list[HeldOut]:
    """Predict the steps on the largest N from measurements on fewer GPUs alone, and score them.

    More than `gpus_per_node` are on several nodes; None says that all are on one. `buckets` must not come from the
    largest N either. Batches without a step on one GPU, on the largest N, or on any N between are left out. Raises
    DpscaleError where fewer GPUs leave no model of allreduce, or none between nodes where the largest N needs one.
    """
    gpus = max(n for n, _ in step_s)
    known = {place: estimate for place, estimate in step_s.items() if place[0] < gpus}
    models = _models(gpus, Fitted([timing for timing in measured if timing.gpus < gpus]), gpus_per_node, None)
    scores = []
    for batch in _batches(known):
        if (gpus, batch) not in step_s:
            continue
        calibrated_on, predictions = _predict(gpus, batch, known, models, buckets)
        algorithm, prediction = next(iter(predictions.items()))
        measured_s, fewer_s = step_s[gpus, batch], known[calibrated_on, batch]
        error = derive(lambda predicted, true: predicted / true - 1, prediction.step_s, measured_s)
        gain = derive(
            lambda fewer, predicted, true: (abs(fewer - true) - abs(predicted - true)) / true,
            fewer_s,
            prediction.step_s,
            measured_s,
        )
        scores.append(
            HeldOut(
                gpus,
                batch,
                calibrated_on,
                algorithm,
                prediction,
                _band([predicted.step_s for predicted in predictions.values()]),
                measured_s,
                error,
                abs(error.value) <= HELD_OUT_TOLERANCE,
                fewer_s.value / measured_s.value - 1,
                gain,
            )
        )
    return scores


def extrapolate(
    step_s: StepTimes,
    measured: Sequence[Measured],
    buckets: Buckets,
    gpus_per_node: int,
    network: Link,
    gpus: Sequence[int] = FORECAST_GPUS,
) -> list[Forecast]:
    """Forecast DDP's step on N GPUs in nodes of `gpus_per_node`, each GPU with its own share of the network.

    Inside a node allreduce is a ring or a tree; beyond it is hierarchical, a ring or a tree across nodes, or, as the
    pessimistic bound, one ring whose every link is the slowest. Links between nodes are the measured ones, and where
    none were measured, `network`. Numbers of GPUs up to the largest measured one are left out, as are batches without
    a step on one GPU and on any more. Raises DpscaleError where GPUs do not fill nodes, or allreduce was measured too
    little.
    """
    fitted = Fitted(measured)
    largest = max(n for n, _ in step_s)
    forecasts = []
    for n in (n for n in gpus if n > largest):
        models = _models(n, fitted, gpus_per_node, network)
        for batch in _batches(step_s):
            calibrated_on, predictions = _predict(n, batch, step_s, models, buckets)
            nodes = -(-n // gpus_per_node), fitted.network_is_measured
            forecasts.append(_forecast(n, batch, nodes, calibrated_on, step_s[1, batch], predictions))
    return forecasts


def _batches(step_s: StepTimes) -> list[int]:
    """Batches with a step on one GPU and on at least one larger number of GPUs."""
    single = {batch for gpus, batch in step_s if gpus == 1}
    return sorted(single & {batch for gpus, batch in step_s if gpus > 1})


def _models(gpus: int, fitted: Fitted, gpus_per_node: int | None, network: Link | None) -> Models:
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


def _beyond(gpus_per_node: int, ring: Fit, network: Link) -> Models:
    slowest = slowest_link(ring.link, network)

    def hierarchical(across: str) -> Allreduce:
        return lambda gpus, size: hierarchical_s(across, gpus, gpus_per_node, size, ring.link, network)

    predicted = {
        "hierarchical, ring": hierarchical("ring"),
        "hierarchical, tree": hierarchical("tree"),
        "flat ring": lambda gpus, size: allreduce_s("ring", gpus, size, slowest),
    }
    return {name: Model(ring.median_relative_error, ring.seconds, allreduce) for name, allreduce in predicted.items()}


def _predict(
    gpus: int,
    batch: int,
    step_s: StepTimes,
    models: Models,
    buckets: Buckets,
) -> tuple[int, dict[str, Prediction]]:
    """The GPUs that gave the overhead, and every algorithm's prediction, the likeliest first."""
    calibrated_on = max(n for n, measured_batch in step_s if measured_batch == batch and n < gpus)
    single = step_s[1, batch]
    predictions = {}
    for name, model in models.items():
        overhead = overhead_s(calibrated_on, single, step_s[calibrated_on, batch], model.known, buckets)
        predictions[name] = predict_step(gpus, single, overhead, model.predicted, buckets)

    def unlikeliness(name: str) -> tuple[float, float]:
        return models[name].relative_error, predictions[name].step_s.value

    return calibrated_on, {name: predictions[name] for name in sorted(predictions, key=unlikeliness)}


def _forecast(
    gpus: int,
    batch: int,
    nodes: tuple[int, bool],
    calibrated_on: int,
    single: Figure,
    predictions: Mapping[str, Prediction],
) -> Forecast:
    # No faster than without any communication: what a negative overhead of a few GPUs says is noise.
    steps = [derive(np.maximum, single, predicted.step_s) for predicted in predictions.values()]
    speedups = [
        derive(lambda single_s, step_s: scaling.speedup_from_steps(gpus, single_s, step_s), single, step)
        for step in steps
    ]
    algorithm, prediction = next(iter(predictions.items()))
    return Forecast(
        gpus,
        batch,
        *nodes,
        calibrated_on,
        algorithm,
        prediction,
        step_s=_band(steps),
        images_per_s=_band([derive(lambda step: scaling.throughput(gpus * batch, step), step) for step in steps]),
        speedup=_band(speedups),
        efficiency=_band([derive(lambda value: scaling.efficiency(value, gpus), speedup) for speedup in speedups]),
    )


def _band(estimates: Sequence[Figure]) -> Band:
    """The first estimate's value within the union of all intervals; nan where one of them is not known."""
    lows, highs = zip(*(estimate.interval for estimate in estimates), strict=True)
    return Band(estimates[0].value, float(np.min(lows)), float(np.max(highs)))

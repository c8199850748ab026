"""DDP's step time from its parts: predicted for GPUs that were held out, and extrapolated to many. Seconds.

t(N,b) = t(1,b) + overhead(b) + exposed(N,b): compute as on one GPU, what DDP itself costs on the host and in copies,
and the part of the allreduces that backward does not hide (Li et al. VLDB 2020). Assumed throughout:

- The allreduces of DDP's buckets run one after the other, each as fast as alone, and slow no computation down.
- The forward and backward pass take as long as on one GPU, with gradients ready at the same share of backward.
- Overhead is what the largest measured N below the predicted one has beyond compute and exposed communication. It may
  be negative within noise, and is carried over unchanged: stragglers among more GPUs are not foreseen.

Intervals carry the spread of the timings, bands also the choice of algorithm. Neither carries a wrong assumption.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpscale.analyse import scaling
from dpscale.analyse.allreduce_model import Fit, Link, Measured, allreduce_s, fits, hierarchical_s, slowest_link
from dpscale.analyse.statistics import Estimate, derive

# What a held-out step time may be off by, and the sizes that are forecast.
HELD_OUT_TOLERANCE = 0.10
FORECAST_GPUS = (8, 16, 32, 64, 128, 256, 512, 1024)
# What the exposed share of communication may exceed the last bucket's share of the bytes by: a small bucket has more
# latency a byte, and its kernel also waits for the slowest rank.
HIDDEN_TOLERANCE = 0.10

Seconds = TypeVar("Seconds", float, NDArray[np.float64])
StepTimes = Mapping[tuple[int, int], Estimate]  # by (gpus, batch per GPU): `single` on 1 GPU, `ddp` on more
Allreduce = Callable[[int, int], Estimate]  # seconds by (gpus, message bytes)
# By algorithm: the model that was fitted, with which overhead is calibrated, and that of the GPUs to be predicted.
Models = Mapping[str, tuple[Fit, Allreduce]]


@dataclass(frozen=True)
class Buckets:
    """DDP's buckets in the order in which they become ready.

    `ready_fraction` is the share of the backward pass after which a bucket's gradients are all there: increasing, in
    (0, 1], the last one 1. `backward_share` is the share of t(1,b) that is the backward pass.
    """

    sizes_bytes: tuple[int, ...]
    ready_fraction: tuple[float, ...]
    backward_share: float

    def __post_init__(self) -> None:
        increasing = all(one < next_one for one, next_one in pairwise((0.0, *self.ready_fraction)))
        if len(self.sizes_bytes) != len(self.ready_fraction) or not increasing or self.ready_fraction[-1] != 1:
            raise ValueError(f"every bucket needs a ready fraction, increasing from above 0 to 1: {self}")


@dataclass(frozen=True)
class Prediction:
    """A predicted step and its parts. `step_s` = compute + overhead + exposed; hidden communication costs nothing."""

    step_s: Estimate
    compute_s: Estimate
    overhead_s: Estimate
    exposed_s: Estimate
    hidden_s: Estimate


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
    are the GPUs whose step gave the overhead.
    """

    gpus: int
    batch_per_gpu: int
    calibrated_on: int
    algorithm: str
    prediction: Prediction
    step_s: Band
    measured_s: Estimate
    relative_error: Estimate
    within_tolerance: bool


@dataclass(frozen=True)
class Forecast:
    """A step on GPUs that nobody measured; `algorithm` and `prediction` are those of the likeliest one."""

    gpus: int
    batch_per_gpu: int
    nodes: int
    calibrated_on: int
    algorithm: str
    prediction: Prediction
    step_s: Band
    images_per_s: Band
    speedup: Band
    efficiency: Band


def exposed_s(single_s: Seconds, bucket_s: Sequence[Seconds], buckets: Buckets) -> Seconds:
    """Time from the end of backward to the end of the last allreduce, given t(1,b) and the time of every allreduce.

    A bucket's allreduce starts when its gradients are ready and the one before has ended (Li et al. VLDB 2020).
    The last bucket is ready only when backward ends, so at least its own time is exposed.
    """
    backward_s = buckets.backward_share * single_s
    end_s = 0 * single_s
    for fraction, one_s in zip(buckets.ready_fraction, bucket_s, strict=True):
        end_s = np.maximum(end_s, fraction * backward_s) + one_s
    return end_s - backward_s


def predict_step(
    gpus: int, single_s: Estimate, overhead_s: Estimate, allreduce: Allreduce, buckets: Buckets
) -> Prediction:
    """The step on N GPUs from that on one, the overhead, and a model of allreduce."""
    bucket_s = [allreduce(gpus, size) for size in buckets.sizes_bytes]
    exposed = derive(lambda single, *each: exposed_s(single, each, buckets), single_s, *bucket_s)
    hidden = derive(lambda shown, *each: sum(each) - shown, exposed, *bucket_s)
    step = derive(lambda *parts: sum(parts), single_s, overhead_s, exposed)
    return Prediction(step, single_s, overhead_s, exposed, hidden)


def overhead_s(gpus: int, single_s: Estimate, step_s: Estimate, allreduce: Allreduce, buckets: Buckets) -> Estimate:
    """What a measured step on N GPUs has beyond compute and exposed communication: t(N,b) - t(1,b) - exposed(N,b)."""
    bucket_s = [allreduce(gpus, size) for size in buckets.sizes_bytes]
    return derive(
        lambda step, single, *each: step - single - exposed_s(single, each, buckets), step_s, single_s, *bucket_s
    )


def held_out(step_s: StepTimes, measured: Sequence[Measured], buckets: Buckets) -> list[HeldOut]:
    """Predict the steps on the largest N from measurements on fewer GPUs alone, and score them.

    `buckets` must not come from the largest N either. Batches without a step on one GPU, on the largest N, or on any
    N between are left out. Raises DpscaleError where fewer GPUs leave no model of allreduce.
    """
    gpus = max(n for n, _ in step_s)
    known = {at: estimate for at, estimate in step_s.items() if at[0] < gpus}
    models = _inside(fits([one for one in measured if one.gpus < gpus]))
    scores = []
    for batch in _batches(known):
        if (gpus, batch) not in step_s:
            continue
        calibrated_on, predictions = _predict(gpus, batch, known, models, buckets)
        algorithm, prediction = next(iter(predictions.items()))
        measured_s = step_s[gpus, batch]
        error = derive(lambda predicted, true: predicted / true - 1, prediction.step_s, measured_s)
        scores.append(
            HeldOut(
                gpus,
                batch,
                calibrated_on,
                algorithm,
                prediction,
                _band([one.step_s for one in predictions.values()]),
                measured_s,
                error,
                abs(error.value) <= HELD_OUT_TOLERANCE,
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

    All measurements count as made inside one node. Inside a node allreduce is a ring or a tree; beyond it is
    hierarchical, a ring or a tree across nodes, or, as the pessimistic bound, one ring whose every link is the
    slowest. Numbers of GPUs up to the largest measured one are left out, as are batches without a step on one GPU
    and on any more. Raises DpscaleError where GPUs do not fill nodes, or allreduce was measured too little.
    """
    inside = fits(measured)
    largest = max(n for n, _ in step_s)
    forecasts = []
    for n in (n for n in gpus if n > largest):
        models = _inside(inside) if n <= gpus_per_node else _beyond(gpus_per_node, inside["ring"], network)
        for batch in _batches(step_s):
            calibrated_on, predictions = _predict(n, batch, step_s, models, buckets)
            forecasts.append(_forecast(n, batch, -(-n // gpus_per_node), calibrated_on, step_s[1, batch], predictions))
    return forecasts


def _batches(step_s: StepTimes) -> list[int]:
    """Batches with a step on one GPU and on at least one larger number of GPUs."""
    single = {batch for gpus, batch in step_s if gpus == 1}
    return sorted(single & {batch for gpus, batch in step_s if gpus > 1})


def _inside(fitted: Mapping[str, Fit]) -> Models:
    return {name: (fit, fit.seconds) for name, fit in fitted.items()}


def _beyond(gpus_per_node: int, ring: Fit, network: Link) -> Models:
    slowest = slowest_link(ring.link, network)

    def hierarchical(across: str) -> Allreduce:
        return lambda gpus, size: hierarchical_s(across, gpus, gpus_per_node, size, ring.link, network)

    return {
        "hierarchical, ring": (ring, hierarchical("ring")),
        "hierarchical, tree": (ring, hierarchical("tree")),
        "flat ring": (ring, lambda gpus, size: allreduce_s("ring", gpus, size, slowest)),
    }


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
    for name, (fit, allreduce) in models.items():
        overhead = overhead_s(calibrated_on, single, step_s[calibrated_on, batch], fit.seconds, buckets)
        predictions[name] = predict_step(gpus, single, overhead, allreduce, buckets)

    def unlikeliness(name: str) -> tuple[float, float]:
        return models[name][0].median_relative_error, predictions[name].step_s.value

    return calibrated_on, {name: predictions[name] for name in sorted(predictions, key=unlikeliness)}


def _forecast(
    gpus: int, batch: int, nodes: int, calibrated_on: int, single: Estimate, predictions: Mapping[str, Prediction]
) -> Forecast:
    steps = [one.step_s for one in predictions.values()]
    speedups = [derive(lambda one, n: scaling.speedup_from_steps(gpus, one, n), single, step) for step in steps]
    algorithm, prediction = next(iter(predictions.items()))
    return Forecast(
        gpus,
        batch,
        nodes,
        calibrated_on,
        algorithm,
        prediction,
        step_s=_band(steps),
        images_per_s=_band([derive(lambda step: scaling.throughput(gpus * batch, step), step) for step in steps]),
        speedup=_band(speedups),
        efficiency=_band([derive(lambda one: scaling.efficiency(one, gpus), speedup) for speedup in speedups]),
    )


def _band(estimates: Sequence[Estimate]) -> Band:
    """The first estimate's value within the union of all intervals; nan where one of them is not known."""
    lows, highs = zip(*(estimate.interval for estimate in estimates), strict=True)
    return Band(estimates[0].value, float(np.min(lows)), float(np.max(highs)))


@dataclass(frozen=True)
class CriticalBatch:
    """The batch per GPU from which on backward hides all communication but the last bucket's.

    Within the grid: at its ends `statement` says "at most" and "above", and `batch` is the end itself.
    """

    gpus: int
    batch: Estimate
    statement: str


def critical_batch(gpus: int, step_s: StepTimes, allreduce: Allreduce, buckets: Buckets) -> CriticalBatch:
    """Smallest batch per GPU at which N GPUs expose the last bucket's allreduce alone, by the model of the overlap.

    t(1,b) is interpolated between the grid's batches, linearly in the logarithms of both, never beyond them. A step
    that is shorter at a larger batch counts as long as the longest before it.
    """
    batches = sorted(batch for n, batch in step_s if n == 1)
    bucket_s = [allreduce(gpus, size) for size in buckets.sizes_bytes]
    needed_s = derive(lambda *each: _needed_single_s(each, buckets), *bucket_s)
    batch = derive(
        lambda needed, *singles: _interpolated_batch(needed, singles, batches),
        needed_s,
        *(step_s[1, one] for one in batches),
    )
    return CriticalBatch(gpus, batch, _critical_statement(gpus, batch, batches))


def hidden_where_measured(
    exposed: Mapping[int, Estimate], communication: Mapping[int, Estimate], buckets: Buckets
) -> int | None:
    """Smallest measured batch per GPU at which no more than the last bucket's share of communication is exposed.

    Both mappings are seconds a step by batch. None where that holds at no batch: the check of `critical_batch`.
    """
    share = buckets.sizes_bytes[-1] / sum(buckets.sizes_bytes) + HIDDEN_TOLERANCE
    hidden = (b for b in sorted(exposed) if exposed[b].value <= share * communication[b].value)
    return next(hidden, None)


def _needed_single_s(bucket_s: Sequence[Any], buckets: Buckets) -> Any:
    """Shortest t(1,b) in whose backward pass all allreduces but the last one end.

    From when bucket j is ready, the rest of backward, share * (1 - ready_j) * t(1,b), has to hold the allreduces of
    j and of all that follow but the last; this for every j.
    """
    needed_s = pending_s = 0 * bucket_s[-1]
    for fraction, one_s in reversed(list(zip(buckets.ready_fraction[:-1], bucket_s[:-1], strict=True))):
        pending_s = pending_s + one_s
        needed_s = np.maximum(needed_s, pending_s / (buckets.backward_share * (1 - fraction)))
    return needed_s


def _interpolated_batch(needed_s: Any, single_s: Sequence[Any], batches: Sequence[int]) -> Any:
    """The batch at which t(1,b), (batches,) or (batches, draws), reaches `needed_s`; the grid's ends beyond it."""
    longest_s = np.maximum.accumulate(np.array(single_s))
    needed_s = np.maximum(needed_s, longest_s[0])  # a single bucket needs no time at all, which has no logarithm
    each = zip(np.atleast_1d(np.log(needed_s)), np.atleast_2d(np.log(longest_s).T), strict=True)
    found = [np.exp(np.interp(needed, singles, np.log(batches))) for needed, singles in each]
    return np.reshape(np.rint(found), np.shape(needed_s))


def _critical_statement(gpus: int, batch: Estimate, batches: Sequence[int]) -> str:
    def words(value: float) -> str:
        if value <= batches[0]:
            return f"at most {batches[0]:,}"
        return f"above {batches[-1]:,}" if value >= batches[-1] else f"{value:,.0f}"

    low, high = ("?", "?") if batch.draws is None else map(words, batch.interval)
    interval = "" if batch.draws is None or low == high == words(batch.value) else f" [{low}, {high}]"
    return (
        f"On {gpus} GPUs backward hides all communication but the last bucket's from a batch per GPU of "
        f"{words(batch.value)}{interval} on."
    )

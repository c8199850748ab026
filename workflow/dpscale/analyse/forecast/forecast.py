"""ddp's step on twice the GPUs that were measured, shown only where the model passes a test.

The step on N GPUs is the step on fewer, plus what more of the allreduce the backward pass cannot hide. That stragglers
grow with N is not foreseen. The test holds every measured number of GPUs out that has two smaller ones, 1 and another:
its steps are predicted from fewer GPUs alone. The model helps where its mean error over all of them, three at least, is
less than half of that of the step on fewer GPUs unchanged. Batches share servers, so they have no interval between
them; a smaller gain may be chance.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from dpscale.analyse.forecast.allreduce import Allreduce, fit
from dpscale.analyse.forecast.overlap import Buckets
from dpscale.formulas import scaling
from dpscale.formulas.figure import Figure
from dpscale.plan.study import Study
from dpscale.strategies.known import BASELINE, STRATEGIES
from dpscale.strategies.strategy import Facts
from dpscale.tables.communication import CollectivesRow
from dpscale.tables.forecast import ForecastRow, HeldOutRow
from dpscale.tables.timing import TimesRow

# The strategy whose steps are forecast: the model is of buckets that are reduced while the backward pass still runs.
(FORECAST,) = (name for name, strategy in STRATEGIES.items() if strategy.has_forecast)
# The fewest held-out steps that a test needs, and the part of the error without a model that the model may keep.
STEPS_NEEDED = 3
ERROR_KEPT = 0.5


def forecasts(
    study: Study, network: Facts | None, times: Sequence[TimesRow], collectives: Sequence[CollectivesRow]
) -> tuple[list[HeldOutRow], list[ForecastRow]]:
    """The tables held_out and forecast: of every environment in which ddp's steps were measured on several GPUs."""
    held_out, forecast = [], []
    for ground in _grounds(network, times, collectives):
        tested = list(held_out_rows(ground))
        held_out += tested
        forecast += list(forecast_rows(study, ground, tested))
    return held_out, forecast


@dataclass(frozen=True)
class Ground:
    """What one environment offers: t(1,b), t(N,b) of ddp, and allreduces by the number of GPUs that were timed."""

    environment: str
    step_s: Mapping[tuple[int, int], Figure]
    allreduces: Mapping[int, Allreduce]
    buckets: Buckets
    nodes: int

    @property
    def gpus(self) -> list[int]:
        """Numbers of GPUs, above 1, whose steps were measured."""
        return sorted({gpus for gpus, _ in self.step_s if gpus > 1})

    def batches(self, *gpus: int) -> list[int]:
        """Those that were measured on all these numbers of GPUs."""
        every = [{batch for n, batch in self.step_s if n == of} for of in gpus]
        return sorted(set.intersection(*every))

    def links(self, gpus: int) -> Allreduce | None:
        """Of the most GPUs below so many on which allreduces were timed."""
        return self.allreduces.get(max((n for n in self.allreduces if n < gpus), default=0))

    def predicted_s(self, gpus: int, fewer: int, batch: int, links: Allreduce) -> float:
        """t(N,b) from `fewer` GPUs: never below t(1,b), for no step is faster than without communication."""
        single_s = self.step_s[1, batch].value
        before_s, then_s = (self.buckets.exposed_s(single_s, links.on(n).seconds) for n in (fewer, gpus))
        return max(single_s, self.step_s[fewer, batch].value + then_s - before_s)


def _grounds(network: Facts | None, times: Sequence[TimesRow], collectives: Sequence[CollectivesRow]) -> list[Ground]:
    """One for every environment in which ddp's steps were measured, if the network's facts are known."""
    steps: dict[str, dict[tuple[int, int], Figure]] = defaultdict(dict)
    nodes: dict[str, int] = defaultdict(lambda: 1)
    for row in times:
        if row.scope == "compute" and row.strategy in (BASELINE, FORECAST) and row.step_s.is_known:
            steps[row.environment][row.gpus, row.batch_per_gpu] = row.step_s
            nodes[row.environment] = max(nodes[row.environment], row.nodes or 1)
    if network is None:
        return []
    found = [
        Ground(letter, steps[letter], _allreduces(letter, collectives), Buckets.of(network), nodes[letter])
        for letter in sorted(steps)
    ]
    return [ground for ground in found if ground.gpus]


def _allreduces(environment: str, collectives: Sequence[CollectivesRow]) -> dict[int, Allreduce]:
    timed: dict[int, dict[int, float]] = defaultdict(dict)
    for row in collectives:
        if (row.operation, row.environment) == ("allreduce", environment):
            timed[row.gpus][row.message_bytes] = row.time_s.value
    return {gpus: fit(gpus, seconds) for gpus, seconds in timed.items() if len(seconds) > 1}


def held_out_rows(ground: Ground) -> Iterator[HeldOutRow]:
    """Every step that can be predicted from fewer GPUs than it was measured on, and its errors."""
    for fewer, gpus in pairwise(ground.gpus):
        links = ground.links(gpus)
        if links is None:
            continue
        for batch in ground.batches(1, fewer, gpus):
            measured_s = ground.step_s[gpus, batch]
            predicted_s = ground.predicted_s(gpus, fewer, batch, links)
            yield HeldOutRow(
                environment=ground.environment,
                gpus=gpus,
                fewer_gpus=fewer,
                batch_per_gpu=batch,
                step_s=predicted_s,
                measured_step_s=measured_s,
                relative_error=predicted_s / measured_s.value - 1,
                unchanged_relative_error=ground.step_s[fewer, batch].value / measured_s.value - 1,
            )


def model_helps(held_out: Sequence[HeldOutRow]) -> bool:
    """Whether the test shows it: by all held-out steps, none left out."""
    kept = fmean(abs(row.relative_error) for row in held_out)
    return kept < ERROR_KEPT * fmean(abs(row.unchanged_relative_error) for row in held_out)


def forecast_rows(study: Study, ground: Ground, held_out: Sequence[HeldOutRow]) -> Iterator[ForecastRow]:
    """A step for every batch of the most GPUs that makes an epoch; or the reason why there is none."""
    most = ground.gpus[-1]
    gpus, links = 2 * most, ground.links(2 * most)
    reason = _why_none(study, ground, held_out)
    if reason or not links:
        yield ForecastRow(environment=ground.environment, status="not available", reason=reason)
        return
    for batch in ground.batches(1, most):
        if gpus * batch > study.epoch_images:
            continue
        step_s = ground.predicted_s(gpus, most, batch, links)
        speedup = scaling.speedup_from_steps(gpus, ground.step_s[1, batch].value, step_s)
        yield ForecastRow(
            environment=ground.environment,
            status="ok",
            reason="" if ground.nodes > 1 else "a scenario on more than one node: links between nodes were not timed",
            gpus=gpus,
            batch_per_gpu=batch,
            global_batch=gpus * batch,
            step_s=step_s,
            images_per_s=scaling.throughput(gpus * batch, step_s),
            speedup=speedup,
            efficiency=scaling.efficiency(speedup, gpus),
        )


def _why_none(study: Study, ground: Ground, held_out: Sequence[HeldOutRow]) -> str:
    if study["device"] == "cpu":
        return "workers on a CPU share its cores, so more of them are no larger cluster"
    if not ground.allreduces:
        return "allreduce was not timed"
    if not held_out:
        return "its test needs a third number of GPUs"
    if len(held_out) < STEPS_NEEDED:
        return f"its test needs {STEPS_NEEDED} steps, not {len(held_out)}"
    return "" if model_helps(held_out) else "this test does not show that the model helps"

"""The points of a study: what its timing records say of every configuration, and what they can be compared with.

Times are those that runs took. A speedup is formed in blocks: over the blocks of a row, it is the quotient of their
T(1,b) and T(N,b) (docs/method.md, "Times that fit").
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isclose, nan
from typing import Any

from dpscale.analyse.timing.blocks import Block, OneGpu, OneGpuJob, Timed, blocks_of, one_gpu_times
from dpscale.analyse.timing.records import weightiest
from dpscale.formulas import scaling
from dpscale.formulas.figure import UNKNOWN, Figure
from dpscale.formulas.statistics import estimate_of_blocks, interval_of_two, is_uneven
from dpscale.plan.cells import Configuration
from dpscale.plan.plan import Plan
from dpscale.plan.study import Study
from dpscale.records.files import Record
from dpscale.records.timed import step_quartiles_s
from dpscale.strategies.known import BASELINE
from dpscale.tables.row import PlaceFields, PointFields, grouped
from dpscale.tables.study import MissingRow


def point_fields(configuration: Configuration, environment: str) -> PointFields:
    """What rows say of where they are."""
    return {
        "strategy": configuration.strategy,
        "gpus": configuration.gpus,
        "batch_per_gpu": configuration.batch_per_gpu,
        "global_batch": configuration.global_batch,
        "environment": environment,
    }


# Fewer full steps make no epoch that speaks for a configuration: its ends, which are no steps, weigh too much.
HEADLINE_STEPS = 10
# Means of the same numbers differ by less, in whatever order a computer adds them up.
_LAST_DIGITS = 1e-9

# Records by their configuration and environment.
ByConfiguration = Mapping[tuple[Configuration, str], Sequence[Record]]
OneGpuKey = tuple[int, str, str]  # batch, scope and environment
PointKey = tuple[Configuration, str, str]


@dataclass(frozen=True)
class Point:
    """A configuration, in one scope and one environment (empty where it was measured in none), and what its records
    say.

    A record whose memory ran out first holds nothing of this scope. `epoch` and `step` are means over servers, of
    logarithms: on several GPUs over its own runs, on one GPU over every block that timed one GPU at this batch.
    """

    configuration: Configuration
    scope: str
    environment: str
    status: str
    reason: str
    records: Sequence[Record]
    others: "Points" = field(repr=False)
    alone: Mapping[OneGpuKey, OneGpu] = field(repr=False)

    def one_gpu(self, batch: int) -> OneGpu:
        """One GPU at a batch, in this scope and environment; of no job where nothing timed it."""
        return self.alone.get((batch, self.scope, self.environment), OneGpu())

    @property
    def measured(self) -> Sequence[Record]:
        """The records that hold something of this scope."""
        return [record for record in self.records if self.scope in record["scopes"]]

    @property
    def results(self) -> Sequence[Mapping[str, Any]]:
        """What they hold of it."""
        return [record["scopes"][self.scope] for record in self.measured]

    @property
    def full_steps(self) -> int | None:
        """Full steps of an epoch, None where none was measured."""
        return next((result["full_steps_per_epoch"] for result in self.results), None)

    @property
    def has_uneven_steps(self) -> bool | None:
        """Whether steps differ in length inside any of its runs; None where its records do not say."""
        found = [
            is_uneven(lower, upper, middle) for one in self.results for lower, middle, upper in step_quartiles_s(one)
        ]
        return any(found) if found else None

    @property
    def place(self) -> PlaceFields:
        return {**point_fields(self.configuration, self.environment), "scope": self.scope}

    @cached_property
    def weak(self) -> "Comparison":
        """Beside one GPU at the same batch."""
        return self.beside(self.configuration.batch_per_gpu)

    @cached_property
    def epoch(self) -> Figure:
        """T(N,b); unknown where no record holds something of this scope."""
        if self.configuration.strategy == BASELINE and self.measured:
            return self.one_gpu(self.configuration.batch_per_gpu).epoch
        return self.over_runs(lambda record: Timed.of(record["scopes"][self.scope]).epoch_s)

    @cached_property
    def step(self) -> Figure:
        """t(N,b), alike."""
        if self.configuration.strategy == BASELINE and self.measured:
            return self.one_gpu(self.configuration.batch_per_gpu).step
        return self.over_runs(lambda record: Timed.of(record["scopes"][self.scope]).step_s)

    def over_runs(self, figure: Callable[[Record], float | None]) -> Figure:
        """The mean over the runs that have this figure above zero, of logarithms."""
        values = {record["block"]: float(value) for record in self.measured if (value := figure(record) or 0.0) > 0}
        return estimate_of_blocks(values) if values else UNKNOWN

    def beside(self, batch: int) -> "Comparison":
        """Its runs against one GPU at `batch`, in its own scope and environment, block by block.

        No other baseline is borrowed.
        """
        if self.status != "ok":
            return Comparison(self, (), self.status, self.reason)
        single = Configuration(BASELINE, 1, batch)
        found = (self.others.get((single, self.scope, environment)) for environment in (self.environment, ""))
        baseline = next(filter(None, found), None)
        one_gpu = self.one_gpu(batch)
        blocks, without = blocks_of(self.measured, one_gpu, self.scope, batch)
        if blocks:
            return Comparison(self, blocks, "ok", self.reason, one_gpu, without)
        return Comparison(self, (), "no baseline", self._why_alone(baseline, batch, without), without=without)

    def _why_alone(self, baseline: "Point | None", batch: int, without: Mapping[str, str]) -> str:
        if any(record.get("alone") for record in self.measured) or (baseline and baseline.status == "ok"):
            return "; ".join(f"{run}: {why}" for run, why in without.items())
        if baseline is None:
            return f"one device alone at batch {batch} was not measured in environment {self.environment}"
        return f"one device alone at batch {batch}: {baseline.status} ({baseline.reason})"


Points = Mapping[PointKey, Point]


def points_of(study: Study, planned: Plan, found: ByConfiguration, missing: Iterable[MissingRow]) -> Points:
    """Every configuration of the study in every scope, and in every environment it was measured in: of the records
    that were `found` of its timing, and the cells of it that are `missing`."""
    not_run = {item.configuration: (item.state, item.reason) for item in planned.not_run}
    letters = sorted({letter for _, letter in found})
    without = grouped(missing, lambda row: (row.strategy, row.gpus, row.batch_per_gpu))
    points: dict[PointKey, Point] = {}
    alone: dict[OneGpuKey, OneGpu] = {}
    for configuration in sorted({*planned.configurations, *not_run}):
        if not configuration.batch_per_gpu:
            continue  # the largest that fits, which is not found yet
        gone = without.get((configuration.strategy, configuration.gpus, configuration.batch_per_gpu), [])
        for scope in study["scopes"]:
            for environment in [letter for letter in letters if (configuration, letter) in found] or [""]:
                measured = found.get((configuration, environment), [])
                told = _state(scope, measured, gone) if measured else not_run.get(configuration)
                key = configuration, scope, environment
                points[key] = Point(*key, *(told or weightiest(gone)), measured, points, alone)
    alone |= _one_gpu(points.values())
    return points


def _state(scope: str, records: Sequence[Record], missing: Sequence[MissingRow]) -> tuple[str, str]:
    """Of what has records, with a word on those of its runs that have none."""
    too_large = [record["oom"] for record in records if scope not in record["scopes"]]
    reasons = [f"run {row.run} {row.status}" for row in missing]
    if len(too_large) == len(records):
        return "oom", "; ".join([f"out of memory in {too_large[0]['phase']}", *reasons])
    if too_large:
        reasons = [f"out of memory in {len(too_large)} of {len(records)} runs", *reasons]
    return "ok", "; ".join(reasons)


def _one_gpu(points: Iterable[Point]) -> dict[OneGpuKey, OneGpu]:
    """One GPU at every batch, in every scope and environment, of all jobs that timed it."""
    jobs: dict[OneGpuKey, list[OneGpuJob]] = defaultdict(list)
    for point in points:
        for record in point.records:
            for batch, timed in one_gpu_times(record, point.scope):
                jobs[batch, point.scope, point.environment].append(OneGpuJob(record, timed))
    return {key: OneGpu(of_batch) for key, of_batch in jobs.items()}


class ComparedFields(PlaceFields):
    """What rows say of a comparison."""

    status: str
    reason: str
    full_steps_per_epoch: int | None
    blocks: int


@dataclass(frozen=True)
class Comparison:
    """A point beside the plain module on one GPU, block by block; without a block the two cannot be compared.

    All of its figures are over its own blocks, so they fit each other: S is T(1,b) over T(N,b). `one_gpu` has T(1,b) as
    it is printed for one GPU, which other blocks may have timed too. `without` says of the runs that are left out, by
    name, why they have no baseline.
    """

    point: Point
    blocks: Sequence[Block]
    status: str
    reason: str
    one_gpu: OneGpu = field(default_factory=OneGpu)
    without: Mapping[str, str] = field(default_factory=dict)

    @property
    def fields(self) -> ComparedFields:
        return {
            **self.point.place,
            "status": self.status,
            "reason": "; ".join(filter(None, [self.reason, self._left_out, self._drifted])),
            "full_steps_per_epoch": self.point.full_steps,
            "blocks": len(self.blocks),
        }

    @property
    def _left_out(self) -> str:
        """Which runs are left out beside others that are not."""
        return "; ".join(f"{run} left out: {why}" for run, why in self.without.items()) if self.blocks else ""

    @property
    def _drifted(self) -> str:
        drifted = [f"{block.name} by {100 * block.drift:+.1f} %" for block in self.blocks if block.has_drifted]
        return f"one device alone drifted in {', '.join(drifted)}" if drifted else ""

    @property
    def drift(self) -> float:
        """The largest of its blocks, NaN where none is known."""
        return max((block.drift for block in self.blocks if block.drift == block.drift), key=abs, default=nan)

    @property
    def drifted(self) -> int:
        return sum(block.has_drifted for block in self.blocks)

    def over_blocks(self, figure: Callable[[Block], float]) -> Figure:
        """A figure of every block, and its mean over them. Only where there is a block."""
        return estimate_of_blocks({block.key: figure(block) for block in self.blocks})

    @cached_property
    def baseline(self) -> Figure:
        """T(1,b)."""
        return self.over_blocks(lambda block: block.baseline.epoch_s)

    @cached_property
    def baseline_step(self) -> Figure:
        """t(1,b)."""
        return self.over_blocks(lambda block: block.baseline.step_s)

    @cached_property
    def epoch(self) -> Figure:
        """T(N,b)."""
        return self.over_blocks(lambda block: block.parallel.epoch_s)

    @cached_property
    def step(self) -> Figure:
        """t(N,b)."""
        return self.over_blocks(lambda block: block.parallel.step_s)

    @property
    def is_of_other_runs(self) -> bool:
        """Whether the times as they are printed, of one GPU and of this point, rest on other runs than the speedup: the
        quotient of these times is another number then."""
        printed = (self.one_gpu.epoch, self.baseline), (self.point.epoch, self.epoch)
        return not all(isclose(time.value, own.value, rel_tol=_LAST_DIGITS) for time, own in printed)

    @cached_property
    def speedup(self) -> Figure:
        """T(1,b) / T(N,b); in a strong series T(1,B) over the point's T(N,b)."""
        return self._of_two(self.own_speedup, [other.own_speedup for other in self.lenders])

    @cached_property
    def speedup_from_steps(self) -> Figure:
        """N·t(1,b) / t(N,b)."""
        return self._of_two(self.own_speedup_from_steps, [other.own_speedup_from_steps for other in self.lenders])

    @cached_property
    def own_speedup(self) -> Figure:
        """From its own blocks alone."""
        return self.over_blocks(lambda block: scaling.speedup(block.baseline.epoch_s, block.parallel.epoch_s))

    @cached_property
    def own_speedup_from_steps(self) -> Figure:
        """From its own blocks alone."""
        gpus = self.point.configuration.gpus
        return self.over_blocks(
            lambda block: scaling.speedup_from_steps(gpus, block.baseline.step_s, block.parallel.step_s)
        )

    def _of_two(self, speedup: Figure, others: Sequence[Figure]) -> Figure:
        """With the interval that two servers have. Most speedups rest on more or fewer, and keep their own."""
        return interval_of_two(speedup, self.point.has_uneven_steps, others) if speedup.is_of_two else speedup

    @cached_property
    def lenders(self) -> Sequence["Comparison"]:
        """The other configurations whose spread a weak speedup of two servers borrows: weak ones on several GPUs with
        uneven steps, ten of them full, in the same environment, of either scope. A strong speedup borrows nothing."""
        if self is not self.point.weak:
            return ()
        configuration, environment = self.point.configuration, self.point.environment
        return [
            other.weak
            for other in self.point.others.values()
            if other.environment == environment
            and other.configuration != configuration
            and other.configuration.gpus > 1
            and (other.full_steps or 0) >= HEADLINE_STEPS
            and other.has_uneven_steps
            and other.weak.blocks
        ]

    @cached_property
    def communication(self) -> Figure:
        """Communication time of an epoch by subtraction (E1), in seconds: T(1,b)(1/S - 1/N), at this T(1,b)."""
        alone_s, gpus = self.baseline.value, self.point.configuration.gpus
        return self.speedup.map(lambda speedup: scaling.communication_s(alone_s, alone_s / speedup, gpus))

    @cached_property
    def communication_step(self) -> Figure:
        """The same of a full step, from full steps alone: t(N,b) - t(1,b), at this t(1,b)."""
        alone_s, gpus = self.baseline_step.value, self.point.configuration.gpus
        return self.speedup_from_steps.map(
            lambda speedup: scaling.communication_step_s(alone_s, gpus * alone_s / speedup)
        )

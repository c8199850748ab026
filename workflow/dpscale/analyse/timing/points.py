"""The points of a study: what its timing records say of every configuration, and what they can be compared with.

Times are those that runs took. A speedup is formed in blocks: over the blocks of a row, it is the quotient of their
T(1,b) and T(N,b) (docs/method.md, "Times that fit").
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isclose, isnan, nan

from dpscale.analyse.timing.blocks import Block, OneGpu, OneGpuJob, Timed, blocks_of, one_gpu_times
from dpscale.analyse.timing.records import weightiest
from dpscale.formulas import scaling
from dpscale.formulas.figure import UNKNOWN, Figure
from dpscale.formulas.statistics import estimate_of_blocks, interval_of_two, is_uneven
from dpscale.plan.cells import Configuration
from dpscale.plan.plan import Plan
from dpscale.plan.study import Study
from dpscale.records.kinds import Scope, TimingRecord
from dpscale.records.timed import step_quartiles_s
from dpscale.strategies.known import BASELINE
from dpscale.tables.row import PlaceFields, PointFields, grouped
from dpscale.tables.study import MissingRow


def point_fields(configuration: Configuration, environment: str) -> PointFields:
    """Return the fields that say where a row is."""
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
ByConfiguration = Mapping[tuple[Configuration, str], Sequence[TimingRecord]]
OneGpuKey = tuple[int, str, str]  # batch, scope and environment
PointKey = tuple[Configuration, str, str]


@dataclass(frozen=True)
class Point:
    """A configuration, in one scope and one environment (empty where it was measured in none), and what its records
    say.

    A record whose memory ran out first holds nothing of this scope. `epoch` and `step` are means over servers, of
    logarithms: on several GPUs over its own runs, on one GPU over every block that timed one GPU at this batch.
    `all_points` are those of the study, `one_gpus` the times of one GPU that go with them.
    """

    configuration: Configuration
    scope: str
    environment: str
    status: str
    reason: str
    records: Sequence[TimingRecord]
    all_points: "Points" = field(repr=False)
    one_gpus: Mapping[OneGpuKey, OneGpu] = field(repr=False)

    def one_gpu(self, batch: int) -> OneGpu:
        """Return one GPU at a batch, in this scope and environment; of no job where nothing timed it."""
        return self.one_gpus.get((batch, self.scope, self.environment), OneGpu())

    @property
    def measured(self) -> Sequence[TimingRecord]:
        """The records that hold something of this scope."""
        return [record for record in self.records if self.scope in record.scopes]

    @property
    def results(self) -> Sequence[Scope]:
        """The contents of this scope in those records."""
        return [record.scopes[self.scope] for record in self.measured]

    @property
    def full_steps(self) -> int | None:
        """Full steps of an epoch, None where none was measured."""
        return next((result.full_steps_per_epoch for result in self.results), None)

    @property
    def has_uneven_steps(self) -> bool | None:
        """Whether steps differ in length inside any of its runs; None where its records do not say."""
        quartiles_s = [quartiles for result in self.results for quartiles in step_quartiles_s(result)]
        if not quartiles_s:
            return None
        return any(is_uneven(lower, upper, middle) for lower, middle, upper in quartiles_s)

    @property
    def place(self) -> PlaceFields:
        return {**point_fields(self.configuration, self.environment), "scope": self.scope}

    @cached_property
    def weak(self) -> "Comparison":
        """The point beside one GPU at the same batch."""
        return self.beside(self.configuration.batch_per_gpu)

    @cached_property
    def epoch(self) -> Figure:
        """T(N,b) in seconds; unknown where no record holds something of this scope."""
        if self.configuration.strategy == BASELINE and self.measured:
            return self.one_gpu(self.configuration.batch_per_gpu).epoch
        return self.over_runs(lambda record: Timed.of(record.scopes[self.scope]).epoch_s)

    @cached_property
    def step(self) -> Figure:
        """t(N,b) in seconds; unknown where no record holds something of this scope."""
        if self.configuration.strategy == BASELINE and self.measured:
            return self.one_gpu(self.configuration.batch_per_gpu).step
        return self.over_runs(lambda record: Timed.of(record.scopes[self.scope]).step_s)

    def over_runs(self, figure: Callable[[TimingRecord], float | None]) -> Figure:
        """Return the mean over the runs that have this figure above zero, of logarithms."""
        values = {record.block: float(value) for record in self.measured if (value := figure(record) or 0.0) > 0}
        return estimate_of_blocks(values) if values else UNKNOWN

    def beside(self, batch: int) -> "Comparison":
        """Return its runs against one GPU at `batch`, in its own scope and environment, block by block.

        No other baseline is borrowed.
        """
        if self.status != "ok":
            return Comparison(self, (), self.status, self.reason)
        single = Configuration(BASELINE, 1, batch)
        measured_there = self.all_points.get((single, self.scope, self.environment))
        baseline = measured_there or self.all_points.get((single, self.scope, ""))
        one_gpu = self.one_gpu(batch)
        blocks, without = blocks_of(self.measured, one_gpu, self.scope, batch)
        if blocks:
            return Comparison(self, blocks, "ok", self.reason, one_gpu, without)
        return Comparison(self, (), "no baseline", self._why_alone(baseline, batch, without), without=without)

    def _why_alone(self, baseline: "Point | None", batch: int, without: Mapping[str, str]) -> str:
        if any(record.alone for record in self.measured) or (baseline and baseline.status == "ok"):
            return "; ".join(f"{run}: {why}" for run, why in without.items())
        if baseline is None:
            return f"one device alone at batch {batch} was not measured in environment {self.environment}"
        return f"one device alone at batch {batch}: {baseline.status} ({baseline.reason})"


Points = Mapping[PointKey, Point]


def points_of(study: Study, planned: Plan, timed: ByConfiguration, missing: Iterable[MissingRow]) -> Points:
    """Return every configuration of the study in every scope, and in every environment it was measured in.

    `timed` are the records of its timing, `missing` its timing cells without a record.
    """
    not_run = {item.configuration: (item.state, item.reason) for item in planned.not_run}
    letters = sorted({letter for _, letter in timed})
    missing_rows = grouped(missing, lambda row: (row.strategy, row.gpus, row.batch_per_gpu))
    points: dict[PointKey, Point] = {}
    one_gpus: dict[OneGpuKey, OneGpu] = {}
    for configuration in sorted({*planned.configurations, *not_run}):
        unmeasured = missing_rows.get((configuration.strategy, configuration.gpus, configuration.batch_per_gpu), [])
        for scope in study["scopes"]:
            for environment in [letter for letter in letters if (configuration, letter) in timed] or [""]:
                measured = timed.get((configuration, environment), [])
                state = _state(scope, measured, unmeasured) if measured else not_run.get(configuration)
                status, reason = state or weightiest(unmeasured)
                points[configuration, scope, environment] = Point(
                    configuration=configuration,
                    scope=scope,
                    environment=environment,
                    status=status,
                    reason=reason,
                    records=measured,
                    all_points=points,
                    one_gpus=one_gpus,
                )
    one_gpus |= _one_gpu(points.values())
    return points


def _state(scope: str, records: Sequence[TimingRecord], missing: Sequence[MissingRow]) -> tuple[str, str]:
    """Return status and reason of a configuration that has records, with a word on those of its runs that have none."""
    too_large = [record for record in records if scope not in record.scopes]
    reasons = [f"run {row.run} {row.status}" for row in missing]
    if len(too_large) == len(records):
        phase = too_large[0].oom.phase if too_large[0].oom else ""
        return "oom", "; ".join([f"out of memory in {phase}", *reasons])
    if too_large:
        reasons = [f"out of memory in {len(too_large)} of {len(records)} runs", *reasons]
    return "ok", "; ".join(reasons)


def _one_gpu(points: Iterable[Point]) -> dict[OneGpuKey, OneGpu]:
    """Return one GPU at every batch, in every scope and environment, of all jobs that timed it."""
    jobs: dict[OneGpuKey, list[OneGpuJob]] = defaultdict(list)
    for point in points:
        for record in point.records:
            for batch, timed in one_gpu_times(record, point.scope):
                jobs[batch, point.scope, point.environment].append(OneGpuJob(record, timed))
    return {key: OneGpu(of_batch) for key, of_batch in jobs.items()}


class ComparedFields(PlaceFields):
    """The fields that rows have of a comparison."""

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
        """The runs that are left out beside others that are not, and why."""
        return "; ".join(f"{run} left out: {why}" for run, why in self.without.items()) if self.blocks else ""

    @property
    def _drifted(self) -> str:
        drifted = [f"{block.name} by {100 * block.drift:+.1f} %" for block in self.blocks if block.has_drifted]
        return f"one device alone drifted in {', '.join(drifted)}" if drifted else ""

    @property
    def drift(self) -> float:
        """The largest drift of its blocks, NaN where none is known."""
        return max((block.drift for block in self.blocks if not isnan(block.drift)), key=abs, default=nan)

    @property
    def drifted(self) -> int:
        return sum(block.has_drifted for block in self.blocks)

    def over_blocks(self, figure: Callable[[Block], float]) -> Figure:
        """Return the mean over the blocks of a figure that every block has. Only where there is a block."""
        return estimate_of_blocks({block.key: figure(block) for block in self.blocks})

    @cached_property
    def baseline(self) -> Figure:
        """T(1,b) in seconds."""
        return self.over_blocks(lambda block: block.baseline.epoch_s)

    @cached_property
    def baseline_step(self) -> Figure:
        """t(1,b) in seconds."""
        return self.over_blocks(lambda block: block.baseline.step_s)

    @cached_property
    def epoch(self) -> Figure:
        """T(N,b) in seconds."""
        return self.over_blocks(lambda block: block.parallel.epoch_s)

    @cached_property
    def step(self) -> Figure:
        """t(N,b) in seconds."""
        return self.over_blocks(lambda block: block.parallel.step_s)

    @property
    def is_of_other_runs(self) -> bool:
        """Whether the times as they are printed, of one GPU and of this point, rest on other runs than the speedup: the
        quotient of these times is another number then."""
        pairs = (self.one_gpu.epoch, self.baseline), (self.point.epoch, self.epoch)
        return not all(isclose(printed.value, in_blocks.value, rel_tol=_LAST_DIGITS) for printed, in_blocks in pairs)

    @cached_property
    def speedup(self) -> Figure:
        """T(1,b) / T(N,b); in a strong series T(1,B) over the point's T(N,b)."""
        return self._with_interval(self.own_speedup, [lender.own_speedup for lender in self.lenders])

    @cached_property
    def speedup_from_steps(self) -> Figure:
        """N·t(1,b) / t(N,b)."""
        return self._with_interval(
            self.own_speedup_from_steps, [lender.own_speedup_from_steps for lender in self.lenders]
        )

    @cached_property
    def own_speedup(self) -> Figure:
        """The speedup from its own blocks alone."""
        return self.over_blocks(lambda block: scaling.speedup(block.baseline.epoch_s, block.parallel.epoch_s))

    @cached_property
    def own_speedup_from_steps(self) -> Figure:
        """The speedup from full steps, from its own blocks alone."""
        gpus = self.point.configuration.gpus
        return self.over_blocks(
            lambda block: scaling.speedup_from_steps(gpus, block.baseline.step_s, block.parallel.step_s)
        )

    def _with_interval(self, speedup: Figure, lent: Sequence[Figure]) -> Figure:
        """Return a speedup with the interval that two servers have. Most rest on more or fewer, and keep their own."""
        return interval_of_two(speedup, self.point.has_uneven_steps, lent) if speedup.is_of_two else speedup

    @cached_property
    def lenders(self) -> Sequence["Comparison"]:
        """The other configurations whose spread a weak speedup of two servers borrows: weak ones on several GPUs with
        uneven steps, ten of them full, in the same environment, of either scope. A strong speedup borrows nothing."""
        if self is not self.point.weak:
            return ()
        configuration, environment = self.point.configuration, self.point.environment
        return [
            point.weak
            for point in self.point.all_points.values()
            if point.environment == environment
            and point.configuration != configuration
            and point.configuration.gpus > 1
            and (point.full_steps or 0) >= HEADLINE_STEPS
            and point.has_uneven_steps
            and point.weak.blocks
        ]

    @cached_property
    def communication(self) -> Figure:
        """Communication time of an epoch by subtraction (E1), in seconds: T(1,b)(1/S - 1/N), at this T(1,b)."""
        one_gpu_s, gpus = self.baseline.value, self.point.configuration.gpus
        return self.speedup.map(lambda speedup: scaling.communication_s(one_gpu_s, one_gpu_s / speedup, gpus))

    @cached_property
    def communication_step(self) -> Figure:
        """Communication time of a full step in seconds, from full steps alone: t(N,b) - t(1,b), at this t(1,b)."""
        one_gpu_s, gpus = self.baseline_step.value, self.point.configuration.gpus
        return self.speedup_from_steps.map(
            lambda speedup: scaling.communication_step_s(one_gpu_s, gpus * one_gpu_s / speedup)
        )

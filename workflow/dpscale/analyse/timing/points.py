"""Times and speedups of a study's configurations: what timing records say, formed in blocks.

A block is a run on a server, with all that one GPU and several took there. Servers, GPUs and hours differ by more than
the effects looked for, so ratios and differences are formed inside blocks alone, and then averaged over servers
(docs/method/statistics.md, "Blocks"). A `Point` has the times of a configuration, over its runs. A `Comparison` has its
speedup over one GPU: over its blocks, the quotient of their T(1,b) and T(N,b) ("Times that fit").
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from math import isclose, isnan, nan
from statistics import geometric_mean, median
from typing import NamedTuple

from dpscale.analyse.timing.records import weightiest
from dpscale.formulas import OnServer, scaling
from dpscale.formulas.figure import UNKNOWN, Figure, estimate_of_blocks, interval_of_two, is_uneven
from dpscale.plan.cells import Configuration
from dpscale.plan.plan import Plan
from dpscale.plan.study import Study
from dpscale.records.kinds import Halves, Scope, TimingRecord
from dpscale.strategies.known import BASELINE
from dpscale.tables.row import PlaceFields, PointFields, grouped
from dpscale.tables.study import MissingRow
from dpscale.tables.timing import BlocksRow, SpeedupRow

# What before and after may differ by, relative to their mean: more is drift, and said.
DRIFT_TOLERANCE = 0.02
# Fewer full steps make no epoch that speaks for a configuration: its ends, which are no steps, weigh too much.
HEADLINE_STEPS = 10
# Means of the same numbers differ by less, in whatever order a computer adds them up.
_LAST_DIGITS = 1e-9

# Records by their configuration and environment.
ByConfiguration = Mapping[tuple[Configuration, str], Sequence[TimingRecord]]
OneGpuKey = tuple[int, str, str]  # batch, scope and environment
PointKey = tuple[Configuration, str, str]  # configuration, scope and environment


def point_fields(configuration: Configuration, environment: str) -> PointFields:
    """Return the fields that say where a row is."""
    return {
        "strategy": configuration.strategy,
        "gpus": configuration.gpus,
        "batch_per_gpu": configuration.batch_per_gpu,
        "global_batch": configuration.global_batch,
        "environment": environment,
    }


@dataclass(frozen=True)
class Timed:
    """Seconds of an epoch and of a full step. Those of a job are medians over its timed epochs."""

    epoch_s: float
    step_s: float

    @classmethod
    def of(cls, scope: Scope) -> "Timed":
        """Return the medians over the timed epochs that a record holds of a scope."""
        return cls(median(scope.slowest_rank_epoch_s), median(scope.step_s_median))

    @classmethod
    def around(cls, halves: Halves) -> "Timed":
        """Return the mean of one GPU before and after the parallel epochs of its job, which takes out a steady
        drift."""
        return cls.mean([cls.of(half) for half in halves.measured])

    @classmethod
    def mean(cls, jobs: Sequence["Timed"]) -> "Timed":
        """Return the geometric means over jobs, each of which counts once, however many epochs it timed."""
        return cls(geometric_mean(job.epoch_s for job in jobs), geometric_mean(job.step_s for job in jobs))


def one_gpu_times(record: TimingRecord, scope: str) -> Iterator[tuple[int, Timed]]:
    """Yield what a record says of one GPU alone in a scope: the batch and its times."""
    if record.cell.strategy == BASELINE and scope in record.scopes:
        yield record.cell.batch_per_gpu, Timed.of(record.scopes[scope])
    for baseline in record.alone or ():
        if baseline.status == "ok" and scope in baseline.scopes:
            yield baseline.batch_per_gpu, Timed.around(baseline.scopes[scope])


class Baseline(NamedTuple):
    """One GPU alone, beside several, and the block that timed it."""

    block: OnServer
    timed: Timed


@dataclass(frozen=True)
class OneGpu:
    """One GPU alone at a batch, in a scope and an environment.

    `jobs` are all records that timed it, with their times: those of `single`, and those of several GPUs with their own
    baseline. T(1,b) and t(1,b) of them are means over servers, in seconds.
    """

    jobs: Sequence[tuple[TimingRecord, Timed]] = ()

    @cached_property
    def by_block(self) -> Mapping[OnServer, Timed]:
        """T(1,b) and t(1,b) of every block."""
        jobs_by_block = grouped(self.jobs, lambda job: job[0].block)
        return {block: Timed.mean([timed for _, timed in jobs]) for block, jobs in jobs_by_block.items()}

    @cached_property
    def epoch(self) -> Figure:
        return _over_servers({block: timed.epoch_s for block, timed in self.by_block.items()})

    @cached_property
    def step(self) -> Figure:
        return _over_servers({block: timed.step_s for block, timed in self.by_block.items()})

    def baseline_of(self, record: TimingRecord) -> Baseline | None:
        """Return the baseline of the speedups of a record of several GPUs; None where nothing timed one GPU on its
        server.

        This is the one place that chooses it. It is T(1,b) of the record's own block: all jobs there that timed one GPU
        count, not the record's own job alone. Where its block has no such job, as in records of version 1, it is T(1,b)
        of the block on the same server with the job that was nearest in time.
        """
        if record.block in self.by_block:
            return Baseline(record.block, self.by_block[record.block])
        same_server = [job for job, _ in self.jobs if job.block.server == record.block.server]
        if not same_server:
            return None
        nearest = min(same_server, key=lambda job: _seconds_apart(job, record))
        return Baseline(nearest.block, self.by_block[nearest.block])


def _over_servers(values_by_block: Mapping[OnServer, float]) -> Figure:
    return estimate_of_blocks(values_by_block) if values_by_block else UNKNOWN


def _seconds_apart(first: TimingRecord, second: TimingRecord) -> float:
    """Return the seconds between the starts of two jobs."""
    first_start, second_start = (datetime.fromisoformat(job.started_at) for job in (first, second))
    return abs((first_start - second_start).total_seconds())


@dataclass(frozen=True)
class Block:
    """N GPUs and one of them alone, at a batch and in a scope.

    `drift` is the epoch of one GPU after the parallel ones of its job less the one before, over their mean; NaN without
    these.
    """

    key: OnServer
    parallel: Timed
    baseline: Timed
    drift: float = nan

    @classmethod
    def of(cls, records: Sequence[TimingRecord], baseline: Baseline, scope: str, batch: int) -> "Block":
        """Return the block of the runs that share a baseline: they are not independent, so they are one."""
        runs = sorted(record.cell.run for record in records)
        name = f"run {runs[0]}" if len(runs) == 1 else f"runs {', '.join(map(str, runs))}"
        drifts = [drift for record in records for drift in _drifts(record, scope, batch)]
        return cls(
            key=OnServer(name, baseline.block.server),
            parallel=Timed.mean([Timed.of(record.scopes[scope]) for record in records]),
            baseline=baseline.timed,
            drift=max(drifts, key=abs, default=nan),
        )

    @property
    def name(self) -> str:
        """`run 3`, or `runs 1, 2` that share a baseline."""
        return self.key.block

    @property
    def has_drifted(self) -> bool:
        """Whether before and after differ by more than `DRIFT_TOLERANCE`."""
        return abs(self.drift) > DRIFT_TOLERANCE


def _drifts(record: TimingRecord, scope: str, batch: int) -> Iterator[float]:
    """Yield the drift of the baseline in the record's own job, relative to its mean, where it has one."""
    for baseline in record.alone or ():
        if baseline.batch_per_gpu == batch and baseline.status == "ok" and scope in baseline.scopes:
            before_s, after_s = (Timed.of(half).epoch_s for half in baseline.scopes[scope].measured)
            yield 2 * (after_s - before_s) / (after_s + before_s)


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
        quartiles = [of_epoch for result in self.results for of_epoch in result.step_quartiles]
        if not quartiles:
            return None
        return any(is_uneven(of_epoch.lower_s, of_epoch.upper_s, of_epoch.median_s) for of_epoch in quartiles)

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
        return _over_servers(
            {record.block: float(value) for record in self.measured if (value := figure(record) or 0.0) > 0}
        )

    def beside(self, batch: int) -> "Comparison":
        """Return its runs against one GPU at `batch`, in its own scope and environment, block by block.

        No other baseline is borrowed. Runs that share a baseline are one block.
        """
        if self.status != "ok":
            return Comparison(self, (), self.status, self.reason)
        one_gpu = self.one_gpu(batch)
        runs_by_baseline: dict[Baseline, list[TimingRecord]] = {}
        left_out = {}
        for record in self.measured:
            baseline = one_gpu.baseline_of(record)
            if baseline is None:
                left_out[record.block.block] = _why_without_baseline(record, batch)
            else:
                runs_by_baseline.setdefault(baseline, []).append(record)
        blocks = [Block.of(runs, baseline, self.scope, batch) for baseline, runs in runs_by_baseline.items()]
        if blocks:
            return Comparison(self, blocks, "ok", self.reason, one_gpu, left_out)
        return Comparison(self, (), "no baseline", self._why_no_baseline(batch, left_out), left_out=left_out)

    def _why_no_baseline(self, batch: int, left_out: Mapping[str, str]) -> str:
        """Return why none of its runs has a baseline at `batch`."""
        single = Configuration(BASELINE, 1, batch)
        measured_there = self.all_points.get((single, self.scope, self.environment))
        one_gpu = measured_there or self.all_points.get((single, self.scope, ""))
        if any(record.alone for record in self.measured) or (one_gpu and one_gpu.status == "ok"):
            return "; ".join(f"{run}: {why}" for run, why in left_out.items())
        if one_gpu is None:
            return f"one device alone at batch {batch} was not measured in environment {self.environment}"
        return f"one device alone at batch {batch}: {one_gpu.status} ({one_gpu.reason})"


Points = Mapping[PointKey, Point]


def _why_without_baseline(record: TimingRecord, batch: int) -> str:
    """Return why a record has no baseline at `batch`."""
    if any(baseline.batch_per_gpu == batch and baseline.status != "ok" for baseline in record.alone or ()):
        return f"one device alone at batch {batch} ran out of memory in its job"
    return f"one device alone at batch {batch} was not measured on its server"


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
    jobs: dict[OneGpuKey, list[tuple[TimingRecord, Timed]]] = defaultdict(list)
    for point in points:
        for record in point.records:
            for batch, timed in one_gpu_times(record, point.scope):
                jobs[batch, point.scope, point.environment].append((record, timed))
    return {key: OneGpu(jobs_at_batch) for key, jobs_at_batch in jobs.items()}


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
    it is printed for one GPU, which other blocks may have timed too. `left_out` says of the runs that are left out, by
    name, why they have no baseline.
    """

    point: Point
    blocks: Sequence[Block]
    status: str
    reason: str
    one_gpu: OneGpu = field(default_factory=OneGpu)
    left_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def fields(self) -> ComparedFields:
        return {
            **self.point.place,
            "status": self.status,
            "reason": "; ".join(filter(None, [self.reason, self._runs_left_out])),
            "full_steps_per_epoch": self.point.full_steps,
            "blocks": len(self.blocks),
        }

    @property
    def _runs_left_out(self) -> str:
        """The runs that are left out beside others that are not, and why."""
        return "; ".join(f"{run} left out: {why}" for run, why in self.left_out.items()) if self.blocks else ""

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
        return self._with_interval_of_two(lambda comparison: comparison.own_speedup)

    @cached_property
    def speedup_from_steps(self) -> Figure:
        """N·t(1,b) / t(N,b)."""
        return self._with_interval_of_two(lambda comparison: comparison.own_speedup_from_steps)

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

    def _with_interval_of_two(self, own_figure: Callable[["Comparison"], Figure]) -> Figure:
        """Return a speedup with the interval that two servers have. Most rest on more or fewer, and keep their own."""
        speedup = own_figure(self)
        if not speedup.is_of_two:
            return speedup
        return interval_of_two(speedup, self.point.has_uneven_steps, [own_figure(lender) for lender in self.lenders])

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


def speedup_row(series: str, compared: Comparison) -> SpeedupRow:
    """Speedup and efficiency of a point in a `series`, `weak` or `strong`, over one GPU."""
    gpus = compared.point.configuration.gpus
    row = SpeedupRow(
        **compared.fields,
        scaling=series,
        nodes=compared.point.configuration.nodes,
    )
    if not compared.blocks:
        return row
    row = replace(
        row,
        servers=len({block.key.server for block in compared.blocks}),
        epoch_s=compared.epoch,
        baseline_epoch_s=compared.baseline,
        other_runs=compared.is_of_other_runs,
        speedup=compared.speedup,
        borrowed_from=compared.speedup.borrowed_from,
        efficiency=compared.speedup.map(lambda speedup: scaling.efficiency(speedup, gpus)),
    )
    return row if series == "strong" else replace(row, speedup_from_steps=compared.speedup_from_steps)


def block_rows(compared: Iterable[tuple[str, Comparison]]) -> Iterator[BlocksRow]:
    """A row for every block of a series, weak or strong, and one for every run that has no baseline."""
    for series, comparison in compared:
        row = BlocksRow(**comparison.point.place, scaling=series)
        for block in comparison.blocks:
            yield _block_row(row, block)
        for run, why in comparison.left_out.items():
            yield replace(row, block=run, status="no baseline", reason=why)


def _block_row(row: BlocksRow, block: Block) -> BlocksRow:
    one_gpu, parallel = block.baseline, block.parallel
    speedup = scaling.speedup(one_gpu.epoch_s, parallel.epoch_s)
    return replace(
        row,
        block=block.name,
        server=block.key.server,
        status="ok",
        epoch_s=parallel.epoch_s,
        baseline_epoch_s=one_gpu.epoch_s,
        drift=block.drift,
        has_drifted=None if isnan(block.drift) else block.has_drifted,
        speedup=speedup,
        efficiency=scaling.efficiency(speedup, row.gpus),
    )

"""Times and speedups of a study's configurations: what timing records say, formed in blocks.

A block is a run on a server, with all that one GPU and several took there. Servers, GPUs and hours differ by more than
the effects looked for, so ratios and differences are formed inside blocks alone, and then averaged over servers
(docs/method/statistics.md, "Blocks"). A `Point` has the times of a configuration, over its runs. A `Comparison` has its
speedup over one GPU: over its blocks, the quotient of their T(1,b) and T(N,b) ("Times that fit").
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import isclose, isnan, nan
from statistics import geometric_mean, median

from dpscale.analyse.records import weightiest
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
    def mean(cls, jobs: Sequence["Timed"]) -> "Timed":
        """Return the geometric means over jobs, each of which counts once, however many epochs it timed."""
        return cls(geometric_mean(job.epoch_s for job in jobs), geometric_mean(job.step_s for job in jobs))


@dataclass(frozen=True)
class OneGpu:
    """One GPU alone at a batch, in a scope and an environment.

    `jobs` are all records that timed it, with their times: those of `single`, and those of several GPUs with their own
    baseline.
    """

    jobs: Sequence[tuple[TimingRecord, Timed]] = ()

    @cached_property
    def by_block(self) -> Mapping[OnServer, Timed]:
        """T(1,b) and t(1,b) of every block."""
        jobs_by_block = grouped(self.jobs, lambda job: job[0].block)
        return {block: Timed.mean([timed for _, timed in jobs]) for block, jobs in jobs_by_block.items()}

    def baseline_of(self, record: TimingRecord) -> OnServer | None:
        """Return the block that has the baseline of a record of several GPUs; None where nothing timed one GPU on its
        server.

        This is the one place that chooses it. It is the record's own block: all jobs there that timed one GPU count,
        not the record's own job alone. Where its block has no such job, as in records of version 1, it is the block on
        the same server with the job that was nearest in time.
        """
        if record.block in self.by_block:
            return record.block
        same_server = [job for job, _ in self.jobs if job.block.server == record.block.server]
        nearest = min(same_server, key=lambda job: abs(job.started_at - record.started_at), default=None)
        return nearest.block if nearest else None


def one_gpu_times(record: TimingRecord, scope: str) -> Iterator[tuple[int, Timed]]:
    """Yield what a record says of one GPU alone in a scope: the batch, and its times. The mean of before and after the
    parallel epochs of a job takes out a steady drift."""
    if record.cell.strategy == BASELINE and scope in record.scopes:
        yield record.cell.batch_per_gpu, Timed.of(record.scopes[scope])
    for batch, halves in _own_baselines(record, scope):
        yield batch, Timed.mean([Timed.of(half) for half in halves.measured])


def _own_baselines(record: TimingRecord, scope: str) -> Iterator[tuple[int, Halves]]:
    """Yield the batch of every baseline that a record of several GPUs has of its own, and the baseline."""
    for baseline in record.alone or ():
        if baseline.status == "ok" and scope in baseline.scopes:
            yield baseline.batch_per_gpu, baseline.scopes[scope]


@dataclass(frozen=True)
class Block:
    """N GPUs and one of them alone, at a batch and in a scope.

    `drift` is the epoch of one GPU after the parallel ones of its job less the one before, over their mean; NaN without
    these.
    """

    key: OnServer
    gpus: int
    parallel: Timed
    baseline: Timed
    drift: float

    @classmethod
    def of(
        cls, records: Sequence[TimingRecord], one_gpu: OneGpu, baseline: OnServer, scope: str, batch: int
    ) -> "Block":
        """Return the block of the runs that share a baseline: they are not independent, so they are one."""
        runs = sorted(record.cell.run for record in records)
        name = f"run {runs[0]}" if len(runs) == 1 else f"runs {', '.join(map(str, runs))}"
        baselines = (pair for record in records for pair in _own_baselines(record, scope))
        drifts = [_drift(halves) for at_batch, halves in baselines if at_batch == batch]
        return cls(
            key=OnServer(name, baseline.server),
            gpus=records[0].cell.gpus,
            parallel=Timed.mean([Timed.of(record.scopes[scope]) for record in records]),
            baseline=one_gpu.by_block[baseline],
            drift=max(drifts, key=abs, default=nan),
        )


def _drift(halves: Halves) -> float:
    """Return the drift of a baseline, relative to its mean."""
    before_s, after_s = (Timed.of(half).epoch_s for half in halves.measured)
    return 2 * (after_s - before_s) / (after_s + before_s)


@dataclass(frozen=True)
class Point:
    """A configuration, in one scope and one environment (empty where it was measured in none), and what its records
    say.

    A record whose memory ran out first holds nothing of this scope. `all_points` are those of the study, `one_gpus` the
    times of one GPU that go with them.
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
    def is_headline(self) -> bool | None:
        """Whether findings and verdict may speak of it; None where it was not measured."""
        return None if self.full_steps is None else self.full_steps >= HEADLINE_STEPS

    @property
    def has_uneven_steps(self) -> bool | None:
        """Whether steps differ in length inside any of its runs; None where its records do not say."""
        quartiles = [of_epoch for result in self.results for of_epoch in result.step_quartiles]
        if not quartiles:
            return None
        return any(is_uneven(*of_epoch) for of_epoch in quartiles)

    @property
    def place(self) -> PlaceFields:
        """The fields that say where its rows are."""
        return {**point_fields(self.configuration, self.environment), "scope": self.scope}

    @cached_property
    def by_block(self) -> Mapping[OnServer, Timed]:
        """Its times: on several GPUs of every run of its own, on one GPU of every block that timed one at this
        batch."""
        if self.configuration.strategy == BASELINE and self.measured:
            return self.one_gpu(self.configuration.batch_per_gpu).by_block
        return {record.block: Timed.of(record.scopes[self.scope]) for record in self.measured}

    @cached_property
    def epoch(self) -> Figure:
        """T(N,b) in seconds, the mean over servers; unknown where no record holds something of this scope."""
        return _over_servers({block: timed.epoch_s for block, timed in self.by_block.items()})

    @cached_property
    def step(self) -> Figure:
        """t(N,b) in seconds, the mean over servers; unknown where no record holds something of this scope."""
        return _over_servers({block: timed.step_s for block, timed in self.by_block.items()})

    def over_runs(self, figure: Callable[[TimingRecord], float | None]) -> Figure:
        """Return the mean over the runs that have this figure above zero, of logarithms."""
        return _over_servers(
            {record.block: float(value) for record in self.measured if (value := figure(record) or 0.0) > 0}
        )

    @cached_property
    def weak(self) -> "Comparison":
        """The point beside one GPU at the same batch."""
        return self.beside(self.configuration.batch_per_gpu)

    def beside(self, batch: int) -> "Comparison":
        """Return its runs against one GPU at `batch`, in its own scope and environment, block by block.

        No other baseline is borrowed. Runs that share a baseline are one block.
        """
        if self.status != "ok":
            return Comparison(self, (), self.status, self.reason)
        one_gpu = self.one_gpu(batch)
        runs_by_baseline: dict[OnServer, list[TimingRecord]] = {}
        reasons = list(filter(None, [self.reason]))
        for record in self.measured:
            baseline = one_gpu.baseline_of(record)
            if baseline is None:
                why = f"one device alone at batch {batch} was not measured on its server"
                reasons.append(f"{record.block.block} left out: {why}")
            else:
                runs_by_baseline.setdefault(baseline, []).append(record)
        if not runs_by_baseline:
            return Comparison(self, (), "no baseline", self._why_no_baseline(batch))
        blocks = [Block.of(runs, one_gpu, baseline, self.scope, batch) for baseline, runs in runs_by_baseline.items()]
        return Comparison(self, blocks, "ok", "; ".join(reasons), one_gpu)

    def _why_no_baseline(self, batch: int) -> str:
        """Return why none of its runs has a baseline at `batch`."""
        one_device = f"one device alone at batch {batch}"
        if any(baseline.batch_per_gpu == batch for record in self.measured for baseline in record.alone or ()):
            return f"{one_device} ran out of memory in the same jobs"
        single = Configuration(BASELINE, 1, batch)
        points = [self.all_points.get((single, self.scope, place)) for place in (self.environment, "")]
        missing = [f"{point.status} ({point.reason})" for point in points if point and point.status != "ok"]
        return f"{one_device}: {missing[0]}" if missing else f"{one_device} was not measured on the same servers"


Points = Mapping[PointKey, Point]


def _over_servers(values_by_block: Mapping[OnServer, float]) -> Figure:
    return estimate_of_blocks(values_by_block) if values_by_block else UNKNOWN


def points_of(study: Study, planned: Plan, timed: ByConfiguration, missing: Iterable[MissingRow]) -> Points:
    """Return every configuration of the study in every scope, and in every environment it was measured in.

    `timed` are the records of its timing, `missing` its timing cells without a record.
    """
    letters = sorted({letter for _, letter in timed})
    missing_rows = grouped(missing, lambda row: (row.strategy, row.gpus, row.batch_per_gpu))
    points: dict[PointKey, Point] = {}
    one_gpus: dict[OneGpuKey, OneGpu] = {}
    for configuration in sorted({*planned.configurations, *planned.not_run}):
        unmeasured = missing_rows.get((configuration.strategy, configuration.gpus, configuration.batch_per_gpu), [])
        for scope in study["scopes"]:
            for environment in [letter for letter in letters if (configuration, letter) in timed] or [""]:
                measured = timed.get((configuration, environment), [])
                state = _state(scope, measured, unmeasured) if measured else planned.not_run.get(configuration)
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
    one_gpus |= _one_gpus(points.values())
    return points


def _one_gpus(points: Iterable[Point]) -> dict[OneGpuKey, OneGpu]:
    """Return one GPU at every batch, in every scope and environment, of all jobs that timed it."""
    jobs: dict[OneGpuKey, list[tuple[TimingRecord, Timed]]] = defaultdict(list)
    for point in points:
        for record in point.records:
            for batch, timed in one_gpu_times(record, point.scope):
                jobs[batch, point.scope, point.environment].append((record, timed))
    return {key: OneGpu(jobs_at_batch) for key, jobs_at_batch in jobs.items()}


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


class ComparisonFields(PlaceFields):
    """The fields that every row about a comparison has."""

    status: str
    reason: str
    full_steps_per_epoch: int | None
    is_headline: bool | None
    blocks: int


@dataclass(frozen=True)
class Comparison:
    """A point beside the plain module on one GPU, block by block; without a block the two cannot be compared.

    All of its figures are over its own blocks, so they fit each other: S is T(1,b) over T(N,b). `one_gpu` is one GPU as
    it is printed, which other blocks may have timed too.
    """

    point: Point
    blocks: Sequence[Block]
    status: str
    reason: str
    one_gpu: OneGpu = field(default_factory=OneGpu)

    @property
    def fields(self) -> ComparisonFields:
        """The fields that all its rows have."""
        return {
            **self.point.place,
            "status": self.status,
            "reason": self.reason,
            "full_steps_per_epoch": self.point.full_steps,
            "is_headline": self.point.is_headline,
            "blocks": len(self.blocks),
        }

    def over_blocks(self, figure: Callable[[Block], float]) -> Figure:
        """Return the mean over the blocks of a figure that every block has. Only where there is a block."""
        return estimate_of_blocks({block.key: figure(block) for block in self.blocks})

    @cached_property
    def baseline(self) -> Figure:
        """T(1,b) in seconds."""
        return self.over_blocks(lambda block: block.baseline.epoch_s)

    @cached_property
    def epoch(self) -> Figure:
        """T(N,b) in seconds."""
        return self.over_blocks(lambda block: block.parallel.epoch_s)

    @property
    def is_of_other_runs(self) -> bool:
        """Whether the times as they are printed, of one GPU and of this point, rest on other runs than the speedup: the
        quotient of these times is another number then."""
        one_gpu = _over_servers({block: timed.epoch_s for block, timed in self.one_gpu.by_block.items()})
        pairs = (one_gpu, self.baseline), (self.point.epoch, self.epoch)
        return not all(isclose(printed.value, in_blocks.value, rel_tol=_LAST_DIGITS) for printed, in_blocks in pairs)

    @cached_property
    def speedup(self) -> Figure:
        """T(1,b) / T(N,b); in a strong series T(1,B) over the point's T(N,b)."""
        return self._with_interval_of_two(lambda block: scaling.speedup(block.baseline.epoch_s, block.parallel.epoch_s))

    @cached_property
    def speedup_from_steps(self) -> Figure:
        """N·t(1,b) / t(N,b)."""
        return self._with_interval_of_two(
            lambda block: scaling.speedup_from_steps(block.gpus, block.baseline.step_s, block.parallel.step_s)
        )

    def _with_interval_of_two(self, figure: Callable[[Block], float]) -> Figure:
        """Return a speedup over its blocks, with the interval that two servers have. Most rest on more or fewer, and
        borrow nothing."""
        speedup = self.over_blocks(figure)
        if not speedup.is_of_two:
            return speedup
        return interval_of_two(
            speedup, self.point.has_uneven_steps, [lender.over_blocks(figure) for lender in self.lenders]
        )

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
            and point.is_headline
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
        one_gpu_s = self.over_blocks(lambda block: block.baseline.step_s).value
        gpus = self.point.configuration.gpus
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
    return replace(
        row,
        servers=compared.epoch.servers,
        epoch_s=compared.epoch,
        baseline_epoch_s=compared.baseline,
        other_runs=compared.is_of_other_runs,
        speedup=compared.speedup,
        borrowed_from=compared.speedup.borrowed_from,
        efficiency=compared.speedup.map(lambda speedup: scaling.efficiency(speedup, gpus)),
        speedup_from_steps=UNKNOWN if series == "strong" else compared.speedup_from_steps,
    )


def block_rows(compared: Iterable[tuple[str, Comparison]]) -> Iterator[BlocksRow]:
    """A row for every block of a series, weak or strong."""
    for series, comparison in compared:
        for block in comparison.blocks:
            speedup = scaling.speedup(block.baseline.epoch_s, block.parallel.epoch_s)
            yield BlocksRow(
                **comparison.point.place,
                scaling=series,
                block=block.key.block,
                server=block.key.server,
                epoch_s=block.parallel.epoch_s,
                baseline_epoch_s=block.baseline.epoch_s,
                drift=block.drift,
                has_drifted=None if isnan(block.drift) else abs(block.drift) > DRIFT_TOLERANCE,
                speedup=speedup,
                efficiency=scaling.efficiency(speedup, block.gpus),
            )

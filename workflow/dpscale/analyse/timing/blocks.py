"""Blocks: a run on a server, with all that one GPU and several took there. Differences and ratios are formed inside
blocks alone.

Servers, GPUs and hours differ by more than the effects looked for (docs/method.md, "Blocks").
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from math import isnan, nan
from statistics import geometric_mean, median
from typing import NamedTuple

from dpscale.formulas.figure import UNKNOWN, Figure, estimate_of_blocks
from dpscale.formulas.on_server import OnServer
from dpscale.records.kinds import Halves, Scope, TimingRecord
from dpscale.records.timed import epochs_s
from dpscale.strategies.known import BASELINE
from dpscale.tables.row import grouped

# What before and after may differ by, relative to their mean: more is drift, and said.
DRIFT_TOLERANCE = 0.02
SAME_RUN, NEAREST_RUN = "same run", "nearest run"


@dataclass(frozen=True)
class Timed:
    """Seconds of an epoch and of a full step. Those of a job are medians over its timed epochs."""

    epoch_s: float
    step_s: float

    @classmethod
    def of(cls, scope: Scope) -> "Timed":
        """Return the medians over the timed epochs that a record holds of a scope."""
        return cls(median(epochs_s(scope)), median(scope.step_s_median))

    @classmethod
    def around(cls, halves: Halves) -> "Timed":
        """Return the mean of one GPU before and after the parallel epochs of its job, which takes out a steady
        drift."""
        return cls.mean([cls.of(halves.before), cls.of(halves.after)])

    @classmethod
    def mean(cls, jobs: Sequence["Timed"]) -> "Timed":
        """Return the geometric means over jobs, each of which counts once, however many epochs it timed."""
        return cls(geometric_mean(job.epoch_s for job in jobs), geometric_mean(job.step_s for job in jobs))


@dataclass(frozen=True)
class OneGpuJob:
    """A job that timed one GPU alone, at a batch and in a scope: one of `single`, or one of several GPUs with its own
    baseline."""

    record: TimingRecord
    timed: Timed

    @property
    def block(self) -> OnServer:
        """The run that the job is part of, on its server."""
        return self.record.block


@dataclass(frozen=True)
class OneGpu:
    """One GPU alone at a batch, in a scope and an environment: every job that timed it, and T(1,b) and t(1,b) of these
    in seconds, over servers."""

    jobs: Sequence[OneGpuJob] = ()

    @cached_property
    def by_block(self) -> Mapping[OnServer, Timed]:
        """T(1,b) and t(1,b) of every block."""
        jobs = grouped(self.jobs, lambda job: job.block)
        return {block: Timed.mean([job.timed for job in of_block]) for block, of_block in jobs.items()}

    @cached_property
    def epoch(self) -> Figure:
        return self._over_blocks({block: timed.epoch_s for block, timed in self.by_block.items()})

    @cached_property
    def step(self) -> Figure:
        return self._over_blocks({block: timed.step_s for block, timed in self.by_block.items()})

    @staticmethod
    def _over_blocks(values: Mapping[OnServer, float]) -> Figure:
        return estimate_of_blocks(values) if values else UNKNOWN

    def baseline_of(self, record: TimingRecord) -> "Baseline | None":
        """Return the baseline of the speedups of a record of several GPUs; None where nothing timed one GPU on its
        server.

        This is the one place that chooses it. It is T(1,b) of the record's own block: all jobs there that timed one GPU
        count, not the record's own job alone. Where its block has no such job, as in records of version 1, it is T(1,b)
        of the block on the same server with the job that was nearest in time.
        """
        block: OnServer | None = record.block
        if block not in self.by_block:
            jobs = [job for job in self.jobs if job.block.server == record.block.server]
            block = min(jobs, key=lambda job: _seconds_apart(job.record, record)).block if jobs else None
        return Baseline(block, self.by_block[block]) if block else None


class Baseline(NamedTuple):
    """One GPU, beside several, and the block that timed it."""

    block: OnServer
    timed: Timed


def _seconds_apart(first: TimingRecord, second: TimingRecord) -> float:
    """Return the seconds between the starts of two jobs."""
    first_start, second_start = (datetime.fromisoformat(job.started_at) for job in (first, second))
    return abs((first_start - second_start).total_seconds())


def one_gpu_times(record: TimingRecord, scope: str) -> Iterator[tuple[int, Timed]]:
    """Yield what a record says of one GPU alone in a scope: the batch and its times."""
    if record.cell.strategy == BASELINE and scope in record.scopes:
        yield record.cell.batch_per_gpu, Timed.of(record.scopes[scope])
    for baseline in record.alone or ():
        if baseline.status == "ok" and scope in baseline.scopes:
            yield baseline.batch_per_gpu, Timed.around(baseline.scopes[scope])


@dataclass(frozen=True)
class Block:
    """N GPUs and one of them alone, at a batch and in a scope.

    `origin` says whether one GPU was timed in the same run, or in another one there, the nearest in time. `drift` is
    the epoch of one GPU after the parallel ones of its job less the one before, over their mean; NaN without these.
    """

    key: OnServer
    origin: str
    parallel: Timed
    baseline: Timed
    drift: float = nan

    @property
    def name(self) -> str:
        """`run 3`, or `runs 1, 2` that share a baseline."""
        return self.key.block

    @property
    def has_drifted(self) -> bool:
        """Whether before and after differ by more than `DRIFT_TOLERANCE`."""
        return abs(self.drift) > DRIFT_TOLERANCE


def blocks_of(
    records: Sequence[TimingRecord], one_gpu: OneGpu, scope: str, batch: int
) -> tuple[list[Block], dict[str, str]]:
    """The blocks of a configuration's records, and why the runs have none that are left out, by run.

    `one_gpu` is one GPU at `batch` in the same environment. Runs that share a baseline are one block: they are not
    independent.
    """
    sharing: dict[Baseline, list[TimingRecord]] = {}
    without = {}
    for record in records:
        baseline = one_gpu.baseline_of(record)
        if baseline is None:
            without[record.block.block] = _why_alone(record, batch)
        else:
            sharing.setdefault(baseline, []).append(record)
    return [_block(shared, baseline, scope, batch) for baseline, shared in sharing.items()], without


def _why_alone(record: TimingRecord, batch: int) -> str:
    """Return why a record has no baseline."""
    baselines = record.alone or ()
    if any(baseline.batch_per_gpu == batch and baseline.status != "ok" for baseline in baselines):
        return f"one device alone at batch {batch} ran out of memory in its job"
    return f"one device alone at batch {batch} was not measured on its server"


def _block(records: Sequence[TimingRecord], baseline: Baseline, scope: str, batch: int) -> Block:
    runs = sorted(record.cell.run for record in records)
    drifts = [drift for drift in (_drift(record, scope, batch) for record in records) if not isnan(drift)]
    name = f"run {runs[0]}" if len(runs) == 1 else f"runs {', '.join(map(str, runs))}"
    is_same_run = all(record.block == baseline.block for record in records)
    return Block(
        key=OnServer(name, baseline.block.server),
        origin=SAME_RUN if is_same_run else NEAREST_RUN,
        parallel=Timed.mean([Timed.of(record.scopes[scope]) for record in records]),
        baseline=baseline.timed,
        drift=max(drifts, key=abs, default=nan),
    )


def _drift(record: TimingRecord, scope: str, batch: int) -> float:
    """Return the drift of the baseline in the record's own job, relative to its mean; NaN where it has none."""
    for baseline in record.alone or ():
        if baseline.batch_per_gpu == batch and baseline.status == "ok" and scope in baseline.scopes:
            halves = baseline.scopes[scope]
            before_s, after_s = Timed.of(halves.before).epoch_s, Timed.of(halves.after).epoch_s
            return 2 * (after_s - before_s) / (after_s + before_s)
    return nan

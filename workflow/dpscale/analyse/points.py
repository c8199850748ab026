"""The points of a study: what its timing records say of every configuration, and what they can be compared with."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from dpscale.formulas import scaling
from dpscale.formulas.statistics import Estimate, bootstrap_median, derive
from dpscale.plan.cells import AnyCell, Configuration, TimingCell
from dpscale.plan.plan import NotRun, plan
from dpscale.plan.study import Study
from dpscale.records.collect import Collected
from dpscale.records.files import Record
from dpscale.vocabulary.strategies import BASELINE

# Why a cell is missing that was never tried.
NO_RECORD = "no record yet"
# States of cells without a record; the first says most.
STATES_BY_WEIGHT = ("failed", "unfinished", "missing")

Row = dict[str, Any]


@dataclass(frozen=True)
class Point:
    """A configuration, in one scope and one environment, and what its records say.

    `results` are what the records hold of this scope; a record whose memory ran out first holds nothing of it.
    """

    configuration: Configuration
    scope: str
    environment: str | None
    status: str
    reason: str
    records: Sequence[Record] = ()
    results: Sequence[Mapping[str, Any]] = ()
    epoch: Estimate | None = None
    step: Estimate | None = None
    n: int = 0

    @property
    def keys(self) -> Row:
        configuration = self.configuration
        return {
            "strategy": configuration.strategy,
            "gpus": configuration.gpus,
            "batch_per_gpu": configuration.batch_per_gpu,
            "global_batch": configuration.global_batch,
            "scope": self.scope,
            "environment": self.environment,
        }


PointKey = tuple[Configuration, str, str | None]
Points = Mapping[PointKey, Point]


def points_of(study: Study, collected: Collected, environments: Mapping[AnyCell, str]) -> Points:
    """Every configuration of the study in every scope, and in every environment it was measured in."""
    records: dict[Configuration, dict[str, list[Record]]] = defaultdict(lambda: defaultdict(list))
    here = plan(study)
    for cell, record in collected.records.items():
        if isinstance(cell, TimingCell):
            records[cell.configuration][environments[cell]].append(record)
    not_run = {item.configuration: item for item in here.not_run}
    without_record: dict[Configuration, list[TimingCell]] = defaultdict(list)
    for cell in here.timing:
        if cell not in collected.records:
            without_record[cell.configuration].append(cell)
    points: dict[PointKey, Point] = {}
    for configuration in sorted({*here.configurations, *not_run}):
        states = [(cell, *why_missing(cell, collected)) for cell in without_record[configuration]]
        for scope in study["scopes"]:
            measured = records.get(configuration)
            if measured:
                for environment, some in sorted(measured.items()):
                    point = _measured(configuration, scope, environment, some)
                    points[configuration, scope, environment] = _with_missing_runs(point, states)
            else:
                state, reason = _unmeasured(configuration, not_run, states)
                points[configuration, scope, None] = Point(configuration, scope, None, state, reason)
    return points


def _measured(configuration: Configuration, scope: str, environment: str, records: Sequence[Record]) -> Point:
    fitted = [record["scopes"][scope] for record in records if scope in record["scopes"]]
    too_large = [record["oom"] for record in records if scope not in record["scopes"]]
    if not fitted:
        reason = f"out of memory in {too_large[0]['phase']}"
        return Point(configuration, scope, environment, "oom", reason, records)
    label = f"{configuration} {scope} {environment}"
    return Point(
        configuration,
        scope,
        environment,
        "ok",
        f"out of memory in {len(too_large)} of {len(records)} runs" if too_large else "",
        records,
        fitted,
        epoch=bootstrap_median([result["epoch_s"] for result in fitted], f"epoch {label}"),
        step=bootstrap_median([result["step_s_median"] for result in fitted], f"step {label}"),
        n=sum(len(result["epoch_s"]) for result in fitted),
    )


CellState = tuple[TimingCell, str, str]  # a cell without a record, its status, and the reason


def _unmeasured(
    configuration: Configuration, not_run: Mapping[Configuration, NotRun], states: Sequence[CellState]
) -> tuple[str, str]:
    """Status and reason of a configuration without any record; a failure says more than a run never tried."""
    if configuration in not_run:
        item = not_run[configuration]
        return item.state, item.reason
    _, status, reason = min(states, key=lambda item: (STATES_BY_WEIGHT.index(item[1]), item[2] == NO_RECORD))
    return status, reason


def _with_missing_runs(point: Point, states: Sequence[CellState]) -> Point:
    """The point, and which of its runs have no record."""
    runs = [f"run {cell.run} {status}" for cell, status, _ in states]
    return replace(point, reason="; ".join(filter(None, [point.reason, *runs])))


def why_missing(cell: AnyCell, collected: Collected) -> tuple[str, str]:
    """Status and reason of a cell without a record."""
    if cell in collected.failures:
        return collected.failures[cell].state, collected.failures[cell].reason
    if cell in collected.rejected:
        return "missing", f"record not used: {collected.rejected[cell]}"
    return "missing", NO_RECORD


@dataclass(frozen=True)
class Comparison:
    """A point beside the plain module on one GPU; `baseline` is None where the two cannot be compared."""

    point: Point
    baseline: Point | None
    status: str
    reason: str

    @property
    def row(self) -> Row:
        return {**self.point.keys, "status": self.status, "reason": self.reason, "n": self.point.n}

    @cached_property
    def speedup(self) -> Estimate:
        """Speedup of the epoch. Only where there is a baseline."""
        assert self.baseline and self.baseline.epoch and self.point.epoch
        return derive(scaling.speedup, self.baseline.epoch, self.point.epoch)

    @cached_property
    def communication(self) -> Estimate:
        """Communication time of an epoch by subtraction, in seconds. Only where there is a baseline."""
        assert self.baseline and self.baseline.epoch and self.point.epoch
        gpus = self.point.configuration.gpus
        return derive(lambda one, n: scaling.communication_s(one, n, gpus), self.baseline.epoch, self.point.epoch)


def compare(points: Points, point: Point, batch: int) -> Comparison:
    """Set a point against one GPU at `batch`, in its own scope and environment. No other baseline is borrowed."""
    single = Configuration(BASELINE, 1, batch)
    baseline = points.get((single, point.scope, point.environment)) or points.get((single, point.scope, None))
    if point.status != "ok":
        return Comparison(point, None, point.status, point.reason)
    if baseline is None:
        reason = f"one GPU at batch {batch} was not measured in environment {point.environment}"
        return Comparison(point, None, "no baseline", reason)
    if baseline.status != "ok":
        reason = f"one GPU at batch {batch}: {baseline.status} ({baseline.reason})"
        return Comparison(point, None, "no baseline", reason)
    return Comparison(point, baseline, "ok", point.reason)


def columns(name: str, estimate: Estimate) -> Row:
    """A figure and its interval as columns of a table."""
    low, high = estimate.interval
    return {name: estimate.value, f"{name}_low": low, f"{name}_high": high}

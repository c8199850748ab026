"""The points of a study: what its timing records say of every configuration, and what they can be compared with."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from dpscale.analyse.blocks import Block, Timed, blocks_of, run_name
from dpscale.formulas import scaling
from dpscale.formulas.figure import Figure
from dpscale.formulas.statistics import Scale, estimate_of_blocks
from dpscale.plan.cells import AnyCell, Configuration, TimingCell
from dpscale.plan.plan import NotRun, plan
from dpscale.plan.study import Study
from dpscale.records.collect import Collected
from dpscale.records.files import Record
from dpscale.strategies.known import BASELINE

# Why a cell is missing that was never tried.
NO_RECORD = "no record yet"
# States of cells without a record; the first says most.
STATES_BY_WEIGHT = ("failed", "unfinished", "missing")

Row = dict[str, Any]


@dataclass(frozen=True)
class Point:
    """A configuration, in one scope and one environment, and what its records say.

    A record whose memory ran out first holds nothing of this scope. `epoch` and `step` are over its runs.
    """

    configuration: Configuration
    scope: str
    environment: str | None
    status: str
    reason: str
    records: Sequence[Record] = ()
    epoch: Figure | None = None
    step: Figure | None = None

    @property
    def measured(self) -> Sequence[Record]:
        """The records that hold something of this scope."""
        return [record for record in self.records if self.scope in record["scopes"]]

    @property
    def results(self) -> Sequence[Mapping[str, Any]]:
        """What they hold of it."""
        return [record["scopes"][self.scope] for record in self.measured]

    @property
    def n(self) -> int:
        """Timed epochs of all runs."""
        return sum(len(result["epoch_s"]) for result in self.results)

    @property
    def full_steps(self) -> int | None:
        """Full steps of an epoch, None where none was measured."""
        return next((result["full_steps_per_epoch"] for result in self.results), None)

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
                for environment, in_environment in sorted(measured.items()):
                    point = _measured(configuration, scope, environment, in_environment)
                    points[configuration, scope, environment] = _with_missing_runs(point, states)
            else:
                state, reason = _unmeasured(configuration, not_run, states)
                points[configuration, scope, None] = Point(configuration, scope, None, state, reason)
    return points


def _measured(configuration: Configuration, scope: str, environment: str, records: Sequence[Record]) -> Point:
    point = Point(configuration, scope, environment, "ok", "", records)
    too_large = [record["oom"] for record in records if scope not in record["scopes"]]
    if not point.measured:
        return replace(point, status="oom", reason=f"out of memory in {too_large[0]['phase']}")
    runs = {run_name(record): Timed.of(record["scopes"][scope]) for record in point.measured}
    label = f"{configuration} {scope} {environment}"
    return replace(
        point,
        reason=f"out of memory in {len(too_large)} of {len(records)} runs" if too_large else "",
        epoch=estimate_of_blocks({name: run.epoch_s for name, run in runs.items()}, f"epoch {label}"),
        step=estimate_of_blocks({name: run.step_s for name, run in runs.items()}, f"step {label}"),
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
    """A point beside the plain module on one GPU, block by block; without a block the two cannot be compared.

    `without` says of the runs that are left out, by name, why they have no baseline.
    """

    point: Point
    blocks: Sequence[Block]
    status: str
    reason: str
    without: Mapping[str, str] = field(default_factory=dict)

    @property
    def row(self) -> Row:
        return {
            **self.point.keys,
            "status": self.status,
            "reason": "; ".join(filter(None, [self.reason, self._left_out, self._drifted])),
            "n": self.point.n,
            "full_steps_per_epoch": self.point.full_steps,
            "blocks": len(self.blocks),
            "runs_without_baseline": len(self.without),
            "drift": max((block.drift for block in self.blocks if block.drift is not None), key=abs, default=None),
            "drifted": sum(block.has_drifted for block in self.blocks),
        }

    @property
    def _left_out(self) -> str:
        """Which runs are left out beside others that are not."""
        return "; ".join(f"{run} left out: {why}" for run, why in self.without.items()) if self.blocks else ""

    @property
    def _drifted(self) -> str:
        drifted = [f"{block.name} by {100 * (block.drift or 0):+.1f} %" for block in self.blocks if block.has_drifted]
        return f"one GPU alone drifted in {', '.join(drifted)}" if drifted else ""

    def over_blocks(self, figure: Callable[[Block], float], name: str, scale: Scale) -> Figure:
        """A figure of every block, and its mean over them. Only where there is a block."""
        label = f"{name} {self.point.configuration} {self.point.scope} {self.point.environment}"
        return estimate_of_blocks({block.name: figure(block) for block in self.blocks}, label, scale)

    @cached_property
    def speedup(self) -> Figure:
        """Speedup of the epoch."""
        return self.over_blocks(
            lambda block: scaling.speedup(block.baseline.epoch_s, block.parallel.epoch_s), "speedup", "log"
        )

    @cached_property
    def communication(self) -> Figure:
        """Communication time of an epoch by subtraction (E1), in seconds."""
        gpus = self.point.configuration.gpus
        return self.over_blocks(
            lambda block: scaling.communication_s(block.baseline.epoch_s, block.parallel.epoch_s, gpus), "E1", "linear"
        )

    @cached_property
    def communication_step(self) -> Figure:
        """The same of a full step."""

        def figure(block: Block) -> float:
            return scaling.communication_step_s(block.baseline.step_s, block.parallel.step_s)

        return self.over_blocks(figure, "E1 step", "linear")


def compare(points: Points, point: Point, batch: int) -> Comparison:
    """Set the runs of a point against one GPU at `batch`, in its own scope and environment, block by block.

    No other baseline is borrowed.
    """
    if point.status != "ok":
        return Comparison(point, (), point.status, point.reason)
    single = Configuration(BASELINE, 1, batch)
    baseline = points.get((single, point.scope, point.environment)) or points.get((single, point.scope, None))
    blocks, without = blocks_of(point.measured, baseline.records if baseline else (), point.scope, batch)
    if blocks:
        return Comparison(point, blocks, "ok", point.reason, without)
    return Comparison(point, (), "no baseline", _why_no_baseline(point, baseline, batch, without), without)


def _why_no_baseline(point: Point, baseline: Point | None, batch: int, without: Mapping[str, str]) -> str:
    if any(record.get("alone") for record in point.measured) or (baseline and baseline.status == "ok"):
        return "; ".join(f"{run}: {why}" for run, why in without.items())
    if baseline is None:
        return f"one GPU at batch {batch} was not measured in environment {point.environment}"
    return f"one GPU at batch {batch}: {baseline.status} ({baseline.reason})"


def columns(name: str, estimate: Figure) -> Row:
    """A figure and what it lies between as columns of a table: its 95 % interval, or the range of two blocks."""
    low, high = estimate.interval
    return {name: estimate.value, f"{name}_low": low, f"{name}_high": high}


def figures(estimates: Mapping[str, Figure]) -> Row:
    """Figures as columns of a table, and `ranges`: the names of those that lie in a range, not in an interval."""
    ranges = [name for name, estimate in estimates.items() if estimate.is_range]
    row: Row = {"ranges": "; ".join(ranges) or None}
    for name, estimate in estimates.items():
        row |= columns(name, estimate)
    return row

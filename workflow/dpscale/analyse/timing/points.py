"""The points of a study: what its timing records say of every configuration, and what they can be compared with.

Numbers that stand together fit together: a point has one estimated quantity, its speedup S, formed in blocks, and a
batch one scale, T(1,b), of all that timed one GPU at it. T(N,b) is T(1,b)/S (docs/method.md, "Times that fit").
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import nan
from typing import Any

from dpscale.analyse.timing.blocks import Block, Timed, blocks_of
from dpscale.analyse.timing.records import weightiest
from dpscale.formulas import scaling
from dpscale.formulas.figure import UNKNOWN, Figure, OnServer, moved
from dpscale.formulas.statistics import estimate_of_blocks
from dpscale.plan.cells import Configuration
from dpscale.plan.plan import Plan
from dpscale.plan.study import Study
from dpscale.records.files import Record
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


@dataclass(frozen=True)
class OneGpu:
    """T(1,b) and t(1,b), in seconds: the scale of all times at a batch."""

    epoch: Figure = UNKNOWN
    step: Figure = UNKNOWN


# Records by their configuration and environment.
ByConfiguration = Mapping[tuple[Configuration, str], Sequence[Record]]
ScaleKey = tuple[int, str, str]  # batch, scope and environment
PointKey = tuple[Configuration, str, str]


@dataclass(frozen=True)
class Point:
    """A configuration, in one scope and one environment (empty where it was measured in none), and what its records
    say.

    A record whose memory ran out first holds nothing of this scope. `epoch` and `step` are on the scale of one GPU at
    this batch: on one GPU they are that scale, on several it over the speedup. Without a baseline they are as measured.
    """

    configuration: Configuration
    scope: str
    environment: str
    status: str
    reason: str
    records: Sequence[Record]
    others: "Points" = field(repr=False)
    scales: Mapping[ScaleKey, OneGpu] = field(repr=False)

    def one_gpu(self, batch: int) -> OneGpu:
        """The scale of this scope and environment at a batch; unknown where nothing timed one GPU there."""
        return self.scales.get((batch, self.scope, self.environment), OneGpu())

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
    def place(self) -> PlaceFields:
        return {**point_fields(self.configuration, self.environment), "scope": self.scope}

    @cached_property
    def weak(self) -> "Comparison":
        """Beside one GPU at the same batch."""
        return self.beside(self.configuration.batch_per_gpu)

    @cached_property
    def epoch(self) -> Figure:
        alone = self.one_gpu(self.configuration.batch_per_gpu).epoch
        if self.configuration.strategy == BASELINE and self.measured:
            return alone
        blocks = self.weak.blocks
        return self.weak.in_blocks.map(lambda times: alone.value / times) if blocks else self.measured_epoch

    @cached_property
    def step(self) -> Figure:
        if self.configuration.strategy == BASELINE and self.measured:
            return self.one_gpu(self.configuration.batch_per_gpu).step
        return self.weak.step if self.weak.blocks else self.measured_step

    @cached_property
    def measured_epoch(self) -> Figure:
        """Over its own runs; unknown where none holds something of this scope."""
        return self.over_runs(lambda record: Timed.of(record["scopes"][self.scope]).epoch_s)

    @cached_property
    def measured_step(self) -> Figure:
        """The same of a full step."""
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
        blocks, without = blocks_of(self.measured, baseline.records if baseline else (), self.scope, batch)
        if blocks:
            return Comparison(self, blocks, "ok", self.reason, self.one_gpu(batch), without)
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
    scales: dict[ScaleKey, OneGpu] = {}
    for configuration in sorted({*planned.configurations, *not_run}):
        if not configuration.batch_per_gpu:
            continue  # the largest that fits, which is not found yet
        gone = without.get((configuration.strategy, configuration.gpus, configuration.batch_per_gpu), [])
        for scope in study["scopes"]:
            for environment in [letter for letter in letters if (configuration, letter) in found] or [""]:
                measured = found.get((configuration, environment), [])
                told = _state(scope, measured, gone) if measured else not_run.get(configuration)
                key = configuration, scope, environment
                points[key] = Point(*key, *(told or weightiest(gone)), measured, points, scales)
    scales |= _scales(points.values())
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


def _scales(points: Iterable[Point]) -> dict[ScaleKey, OneGpu]:
    """The geometric mean over all that timed one GPU at a batch: cells of one GPU, and the baselines in the jobs of
    several."""
    timed: dict[ScaleKey, dict[OnServer, Timed]] = defaultdict(dict)
    for point in points:
        for record in point.records:
            run, server = record["block"]
            key = OnServer(f"{point.configuration} {run}", server)
            for batch, alone in _alone(record, point.scope):
                timed[batch, point.scope, point.environment][key] = alone
    return {
        place: OneGpu(
            estimate_of_blocks({key: alone.epoch_s for key, alone in of.items()}),
            estimate_of_blocks({key: alone.step_s for key, alone in of.items()}),
        )
        for place, of in timed.items()
    }


def _alone(record: Record, scope: str) -> Iterator[tuple[int, Timed]]:
    """What a record says of the plain module on one GPU, by batch."""
    if record["cell"]["strategy"] == BASELINE and scope in record["scopes"]:
        yield record["cell"]["batch_per_gpu"], Timed.of(record["scopes"][scope])
    for around in record.get("alone") or ():
        if around["status"] == "ok" and scope in around["scopes"]:
            yield around["batch_per_gpu"], Timed.around(around["scopes"][scope])


class ComparedFields(PlaceFields):
    """What rows say of a comparison."""

    status: str
    reason: str
    full_steps_per_epoch: int | None
    blocks: int


@dataclass(frozen=True)
class Comparison:
    """A point beside the plain module on one GPU, block by block; without a block the two cannot be compared.

    `without` says of the runs that are left out, by name, why they have no baseline.
    """

    point: Point
    blocks: Sequence[Block]
    status: str
    reason: str
    scale: OneGpu = OneGpu()
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
    def in_blocks(self) -> Figure:
        """Speedup of the epoch, of every block and over them."""
        return self.over_blocks(lambda block: scaling.speedup(block.baseline.epoch_s, block.parallel.epoch_s))

    @cached_property
    def speedup(self) -> Figure:
        """The same at the times that are shown: in a strong series T(1,B) over the point's T(N,b)."""
        return moved(self.in_blocks, scaling.speedup(self.scale.epoch.value, self.point.epoch.value))

    @cached_property
    def speedup_from_steps(self) -> Figure:
        """N·t(1,b) / t(N,b)."""
        gpus = self.point.configuration.gpus
        return self.over_blocks(
            lambda block: scaling.speedup_from_steps(gpus, block.baseline.step_s, block.parallel.step_s)
        )

    @cached_property
    def epoch(self) -> Figure:
        """T(N,b), at this T(1,b)."""
        return self.speedup.map(lambda speedup: self.scale.epoch.value / speedup)

    @cached_property
    def step(self) -> Figure:
        """t(N,b), at this t(1,b)."""
        gpus = self.point.configuration.gpus
        return self.speedup_from_steps.map(lambda speedup: gpus * self.scale.step.value / speedup)

    @cached_property
    def communication(self) -> Figure:
        """Communication time of an epoch by subtraction (E1), in seconds: T(1,b)(1/S - 1/N)."""
        alone_s, gpus = self.scale.epoch.value, self.point.configuration.gpus
        return self.epoch.map(lambda epoch_s: scaling.communication_s(alone_s, epoch_s, gpus))

    @cached_property
    def communication_step(self) -> Figure:
        """The same of a full step: t(N,b) - t(1,b)."""
        return self.step.map(lambda step_s: scaling.communication_step_s(self.scale.step.value, step_s))

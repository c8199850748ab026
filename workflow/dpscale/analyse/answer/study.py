"""The times by probe of a study's tables: those of every configuration on several devices.

Times are of a step, b images on each of N devices, as an epoch has them: N·b images at the images per second of the
epoch (docs/method.md, "Causes").
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import isfinite
from typing import TypeVar

from dpscale.analyse.answer.causes import exact
from dpscale.analyse.answer.claims import SLOW_DEVICE
from dpscale.analyse.answer.probes import Link, ProbeCost, Probes, minus
from dpscale.analyse.answer.series import (
    COMPUTE,
    END_TO_END,
    Configuration,
    configuration_of,
    of_configuration,
)
from dpscale.analyse.answer.verdict import Units
from dpscale.analyse.communication.collectives import between
from dpscale.formulas.figure import Figure, multiplied, ratio
from dpscale.strategies.known import BASELINE, strategy
from dpscale.strategies.strategy import WHOLE
from dpscale.tables.communication import CollectivesRow, LadderRow
from dpscale.tables.row import OfConfiguration
from dpscale.tables.tables import Tables
from dpscale.tables.timing import ScopesRow, SpeedupRow, TimesRow
from dpscale.vocabulary.causes import NOTHING
from dpscale.vocabulary.chips import chip_named

# The whole step with its batches in memory, by strategy: what a diagnosis calls it. Others are not told.
IN_MEMORY = {"dp": "dp", "ddp": "training"}
R = TypeVar("R", bound=OfConfiguration)


def places(tables: Tables) -> Iterator["StudyPlace"]:
    """Every configuration beside its baseline: at the batch per device, or at the global batch, of that; then the same
    with loading, where that was measured."""
    speaking = [row for row in tables.times if row.status == "ok" and row.is_headline and row.images_per_s.is_known]
    times = {(configuration_of(row), row.scope): row for row in reversed(speaking)}
    for gain in tables.speedup:
        speaks = gain.status == "ok" and gain.is_headline and gain.scope == COMPUTE and gain.strategy in IN_MEMORY
        if speaks and (configuration_of(gain), COMPUTE) in times:
            in_memory = StudyPlace(gain, tables, times)
            loading = in_memory.measured_loading
            yield in_memory
            if loading:
                yield replace(in_memory, loading=loading)


@dataclass(frozen=True)
class StudyPlace:
    """A configuration on several devices beside its baseline; where `loading` is given, with data loading in the step.
    Of `times` those that speak for their configuration."""

    gain: SpeedupRow
    tables: Tables
    times: Mapping[tuple[Configuration, str], TimesRow]
    loading: ScopesRow | None = None

    @cached_property
    def probes(self) -> Probes:
        gain = self.gain
        return Probes(
            times=self.steps,
            whole="end_to_end" if self.loading else self.in_memory,
            in_memory=self.in_memory,
            devices=gain.gpus,
            batch=gain.batch_per_gpu,
            keeps_global_batch=gain.scaling == "strong",
            costs=dict(self.costs()),
            workers=self.workers,
            link=self.link,
            uneven=next(
                (ProbeCost(row.uneven_s.sure) for row in SLOW_DEVICE.of(self.of(self.tables.ladder)).holding), None
            ),
        )

    @property
    def scope(self) -> str:
        return END_TO_END if self.loading else COMPUTE

    @property
    def is_by_steps(self) -> bool:
        """Whether the efficiency is surer by the time of a step than by that of an epoch: its interval is narrower."""
        by_epochs, by_steps = self.gain.efficiency, self.gain.speedup_from_steps
        if not by_steps.has_interval:
            return False
        return not by_epochs.has_interval or by_steps.high / by_steps.low < by_epochs.high / by_epochs.low

    @property
    def efficiency(self) -> Figure:
        """One device alone, with its batches in memory, over the whole step: by epochs or by steps, whichever is surer.
        With loading as if its two parts were independent: they hold the same epochs, so the interval is rather too
        wide."""
        by_steps = self.gain.speedup_from_steps.map(lambda speedup: speedup / self.gain.gpus)
        efficiency = (by_steps if self.is_by_steps else self.gain.efficiency).sure
        return ratio(efficiency, self.loading.loading_ratio.sure) if self.loading else efficiency

    @property
    def is_loss_likely(self) -> bool:
        """Whether every machine, or run, lost more than what is not named as a reason."""
        return Units.of(self.gain.efficiency).are_below(1 - NOTHING.least_share)

    @property
    def in_memory(self) -> str:
        return IN_MEMORY[self.gain.strategy]

    @property
    def measured_loading(self) -> ScopesRow | None:
        """The epochs with loading beside those without, where runs had both."""
        return next((row for row in self.of(self.tables.scopes) if row.loader_s.is_known and self.loaded), None)

    @property
    def loaded(self) -> TimesRow | None:
        return self.times.get((configuration_of(self.gain), END_TO_END))

    def of(self, rows: Iterable[R]) -> list[R]:
        """The rows of this configuration."""
        return of_configuration(rows, self.gain)

    def step_s(self, name: str, devices: int, batch: int = 0, scope: str = COMPUTE) -> Figure | None:
        """A step of one batch per device, at its own batch or at another; None where that was not measured."""
        at = name, devices, batch or self.gain.batch_per_gpu, self.gain.environment
        row = self.times.get((at, scope))
        return _step_s(row, devices * self.gain.batch_per_gpu) if row else None

    @cached_property
    def steps(self) -> dict[str, Figure]:
        """A small batch is no cause of a speedup: one device pays for it too, at the same batch. Where the global batch
        is held it does not."""
        gain, alone = self.gain, self.step_s(BASELINE, 1)
        at_global_batch = self.step_s(BASELINE, 1, gain.global_batch) if alone and gain.scaling == "strong" else None
        found: dict[str, Figure | None] = {
            "first": alone,
            "alone_reference": at_global_batch,
            "training": self.step_s("ddp", gain.gpus),
            self.in_memory: self.step_s(gain.strategy, gain.gpus),
            "end_to_end": self.step_s(gain.strategy, gain.gpus, scope=END_TO_END) if self.loading else None,
            "loader_at_best": self.loader_at_best_s,
            "allreduce": self.allreduce_s,
        }
        return {name: figure for name, figure in found.items() if figure is not None}

    def costs(self) -> Iterator[tuple[tuple[str, str], ProbeCost]]:
        """What is known better than from two times: of the same blocks, or run by run."""
        if self.in_memory == "dp" and "training" in self.steps:
            step, other = self.steps["dp"], self.steps["training"]
            share = None if self.loading else ratio(other, step).map(lambda value: 1 - value)
            yield ("dp", "training"), ProbeCost(minus(step, other), share)
        if self.loading:
            row = self.times[configuration_of(self.gain), COMPUTE]
            per_epoch = self.gain.global_batch / (row.images_per_s.value * row.epoch_s.value)
            cost = multiplied(self.loading.loader_s.sure, per_epoch)
            # Of the step as it is printed: its own spread is part of the differences already.
            share = multiplied(cost, 1 / self.steps["end_to_end"].value)
            yield ("end_to_end", self.in_memory), ProbeCost(cost, share)
        if self.in_memory == "training":
            rungs = {row.rung: row for row in self.of(self.tables.ladder)}
            ablation = (row for row in self.of(self.tables.communication) if row.ablation_step_s.is_known)
            if {WHOLE, "no_op_hook"} <= set(rungs):
                yield ("training", "no_op_hook"), ProbeCost(rungs[WHOLE].difference_s.sure)
            elif told := next(ablation, None):  # records without a ladder
                yield ("training", "no_op_hook"), ProbeCost(told.ablation_step_s.sure)

    @property
    def workers(self) -> int | None:
        loads = self.loaded.loader_processes if self.loading and self.loaded else None
        return None if loads is None else loads // strategy(self.gain.strategy).processes(self.gain.gpus)

    @property
    def loader_at_best_s(self) -> Figure | None:
        """What as many loader processes take for a step's images in their fastest epoch, if that is another one."""
        loaded = self.loaded
        if not self.loading or loaded is None or loaded.loader_processes is None:
            return None
        alike = (
            row
            for (_, scope), row in self.times.items()
            if scope == END_TO_END
            and (row.environment, row.loader_processes) == (loaded.environment, loaded.loader_processes)
        )
        fastest = max(alike, key=lambda row: row.images_per_s.value)
        is_faster = fastest.images_per_s.value > loaded.images_per_s.value
        return _step_s(fastest, self.gain.global_batch) if is_faster else None

    @cached_property
    def largest_part(self) -> LadderRow | None:
        """Of what makes the step longer than on one device, by intervention, the part that takes most."""
        parts = [row for row in self.of(self.tables.ladder) if row.order > 0 and row.difference_s.value > 0]
        return max(parts, key=lambda row: row.difference_s.value, default=None)

    @property
    def gradient_bytes(self) -> int | None:
        """Of the study's network, the same everywhere."""
        return next((int(row.gradient_bytes) for row in self.tables.bandwidth if isfinite(row.gradient_bytes)), None)

    @cached_property
    def timed_alone(self) -> list[CollectivesRow]:
        """Between as many devices, with nothing else running."""
        return between(self.tables.collectives, self.gain.gpus, self.gain.environment)

    @property
    def allreduce_s(self) -> Figure | None:
        """Of the whole gradient."""
        whole = "allreduce", self.gradient_bytes
        return next((row.time_s.sure for row in self.timed_alone if (row.operation, row.message_bytes) == whole), None)

    @cached_property
    def link(self) -> Link | None:
        """None where collectives and copies between as many devices were not timed."""
        allreduces = [row for row in self.timed_alone if row.operation == "allreduce"]
        copies = [row.bus_bandwidth_gb_s.value for row in self.timed_alone if row.operation == "peer_copy"]
        if not allreduces or not copies:
            return None
        bus = max(allreduces, key=lambda row: row.message_bytes).bus_bandwidth_gb_s
        # Of the slowest pair: an allreduce goes through all of them.
        return Link(bus.sure, exact(min(copies)), self._nominal_gb_s())

    def _nominal_gb_s(self) -> float | None:
        """The data sheet's, where all links between devices are NVLink and the model is known."""
        here = (row for row in self.tables.environments if row.environment == self.gain.environment)
        row = next(here, None)
        chip = chip_named(row.device_model) if row else None
        return chip.nvlink_gb_s if row and chip and all("NVLink" in kind for kind in row.links.split("; ")) else None


def _step_s(row: TimesRow, images: int) -> Figure:
    """What so many images take at the images per second of an epoch."""
    return row.images_per_s.sure.map(lambda rate: images / rate)

"""Why more devices are not faster, from the tables of a study: the causes of a diagnosis, as far as it saw them.

Times are of a step, b images on each of N devices, as an epoch has them: N·b images at the images per second of the
epoch (docs/method.md, "Causes").
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import isfinite
from typing import NamedTuple, TypeVar

from dpscale.analyse.answer import COMPUTE, END_TO_END, Configuration, configuration_of, of_configuration
from dpscale.analyse.answer.answer import Units
from dpscale.analyse.answer.claims import LOSES, NOTHING_WRONG, SLOW_DEVICE, SURER_BY_STEPS
from dpscale.analyse.causes import FoundCause, ProbeCost, Probes, causes_of, found, minus
from dpscale.analyse.communication import between
from dpscale.formulas.figure import Figure, multiplied, ratio
from dpscale.strategies.known import strategy
from dpscale.strategies.strategy import WHOLE
from dpscale.tables.answer import CausesRow
from dpscale.tables.communication import CollectivesRow
from dpscale.tables.row import OfConfiguration
from dpscale.tables.tables import Tables
from dpscale.tables.timing import ScopesRow, SpeedupRow, TimesRow
from dpscale.vocabulary.causes import NO_CERTAIN_LOSS, NOTHING, UNKNOWN

# Strategies whose steps have causes here.
WITH_CAUSES = ("dp", "ddp")
# An allreduce that reaches a smaller part of what a plain copy over the same link does has a slow link.
SLOW_LINK_SHARE = 0.25
R = TypeVar("R", bound=OfConfiguration)


def causes_rows(tables: Tables) -> list[CausesRow]:
    """Return the causes of every configuration on several devices, without and with loading: those that are reasons
    first, in the order of their costs.

    A configuration without a reason has a row that says whether anything is wrong at all, and stands first.
    """
    return [row for place in _places(tables) for row in _rows_of(place)]


def _rows_of(place: "StudyPlace") -> Iterator[CausesRow]:
    speedup_row, probes = place.speedup_row, place.probes
    shared = CausesRow(
        **speedup_row.point,
        scope=place.scope,
        whole_s=probes[probes.whole],
        efficiency=place.efficiency,
        is_by_steps=place.is_by_steps,
    )
    # Every machine, or run, lost more than what is not named as a reason; or all of them together surely lose.
    is_loss = Units.of(speedup_row.efficiency).are_below(1 - NOTHING.least_share) or LOSES.holds(shared)
    rows = [_row(shared, finding, is_loss) for finding in causes_of(probes, place.further_causes())]
    if not any(row.is_reason for row in rows):
        rows.insert(0, _without_a_reason(shared, place, is_loss))
    yield from (replace(row, order=order) for order, row in enumerate(rows))


def _row(shared: CausesRow, finding: FoundCause, is_loss: bool) -> CausesRow:
    is_reason = finding.is_reason and is_loss
    return replace(shared, cause=finding.cause.name, is_reason=is_reason, cost_s=finding.cost_s, share=finding.share)


def _without_a_reason(shared: CausesRow, place: "StudyPlace", is_loss: bool) -> CausesRow:
    """Return a row that says that nothing is wrong, or may be; otherwise the largest part of the step that is known."""
    row = replace(shared, is_reason=False)
    if NOTHING_WRONG.holds(row):
        return replace(row, cause=NOTHING.name)
    if not is_loss:
        return replace(row, cause=NO_CERTAIN_LOSS.name)
    row = replace(row, cause=UNKNOWN.name)
    longer = [rung for rung in place.of(place.tables.ladder) if rung.order > 0 and rung.difference_s.value > 0]
    largest = max(longer, key=lambda rung: rung.difference_s.value, default=None)
    return replace(row, part=largest.adds, part_s=largest.difference_s) if largest else row


def _places(tables: Tables) -> Iterator["StudyPlace"]:
    """Yield every configuration beside one device at its batch; then the same with loading, where that was measured."""
    speaking = [row for row in tables.times if row.status == "ok" and row.is_headline and row.images_per_s.is_known]
    times = {(configuration_of(row), row.scope): row for row in reversed(speaking)}
    for row in tables.speedup:
        is_weak = row.scaling == "weak" and row.scope == COMPUTE
        speaks = row.status == "ok" and row.is_headline and is_weak and row.strategy in WITH_CAUSES
        in_memory, loaded = (times.get((configuration_of(row), scope)) for scope in (COMPUTE, END_TO_END))
        if speaks and in_memory:
            yield StudyPlace(row, in_memory, tables, times)
            with_both = (scopes for scopes in of_configuration(tables.scopes, row) if scopes.loader_s.is_known)
            if loaded and (scopes := next(with_both, None)):
                yield StudyPlace(row, in_memory, tables, times, EpochsWithLoading(loaded, scopes))


class EpochsWithLoading(NamedTuple):
    """The epochs of a configuration with loading; and the same beside those without, in the runs that had both."""

    epochs: TimesRow
    scopes: ScopesRow


@dataclass(frozen=True)
class StudyPlace:
    """A configuration on several devices beside its baseline; where `loading` is given, with data loading in the step.
    `times` are the rows that speak for their configuration, `in_memory` is that of this one."""

    speedup_row: SpeedupRow
    in_memory: TimesRow
    tables: Tables
    times: Mapping[tuple[Configuration, str], TimesRow]
    loading: EpochsWithLoading | None = None

    def of(self, rows: Iterable[R]) -> list[R]:
        """Return the rows of this configuration."""
        return of_configuration(rows, self.speedup_row)

    def step_s(self, row: TimesRow) -> Figure:
        """Return the seconds that the images of a step take at the images per second of a row's epochs."""
        return row.images_per_s.sure.map(lambda rate: self.speedup_row.global_batch / rate)

    @property
    def scope(self) -> str:
        return END_TO_END if self.loading else COMPUTE

    @property
    def is_by_steps(self) -> bool:
        """Whether the efficiency is surer by the time of a step than by that of an epoch: its interval is narrower."""
        return SURER_BY_STEPS.surely(self.speedup_row)

    @property
    def efficiency(self) -> Figure:
        """The speed of one device alone, with its batches in memory, over that of the whole step: by epochs or by
        steps, whichever is surer.

        With loading as if its two parts were independent: they hold the same epochs, so the interval is rather too
        wide.
        """
        by_steps = self.speedup_row.speedup_from_steps.map(lambda speedup: speedup / self.speedup_row.gpus)
        efficiency = (by_steps if self.is_by_steps else self.speedup_row.efficiency).sure
        return ratio(efficiency, self.loading.scopes.loading_ratio.sure) if self.loading else efficiency

    @cached_property
    def probes(self) -> Probes:
        """The step of the study's tables, in memory and with loading, by probe. A small batch is no cause of a speedup:
        one device pays for it too."""
        row = self.speedup_row
        probes = Probes(
            times={"in_memory": self.step_s(self.in_memory)},
            whole="in_memory",
            in_memory="in_memory",
            devices=row.gpus,
            batch=row.batch_per_gpu,
        )
        if self.loading is None:
            return probes
        epochs, whole_s = self.loading.epochs, self.step_s(self.loading.epochs)
        per_epoch = row.global_batch / (self.in_memory.images_per_s.value * self.in_memory.epoch_s.value)
        cost = multiplied(self.loading.scopes.loader_s.sure, per_epoch)
        return replace(
            probes,
            times={**probes.times, "end_to_end": whole_s, "loader_at_best": self.step_s(self.fastest_like(epochs))},
            whole="end_to_end",
            # Of the step as it is printed: its own spread is part of the differences already.
            loading=ProbeCost(cost, multiplied(cost, 1 / whole_s.value)),
            workers=(epochs.loader_processes or 0) // strategy(row.strategy).processes(row.gpus),
        )

    def fastest_like(self, epochs: TimesRow) -> TimesRow:
        """Return the epochs of the most images per second that as many loader processes had."""
        alike = (
            row
            for (_, scope), row in self.times.items()
            if scope == END_TO_END
            and (row.environment, row.loader_processes) == (epochs.environment, epochs.loader_processes)
        )
        return max(alike, key=lambda row: row.images_per_s.value)

    def further_causes(self) -> Iterator[FoundCause]:
        """Yield what a study has and a script has not: DataParallel's step less DDP's, the exchange of gradients by the
        ladder, and a slow device.

        The exchange counts at most as long as it takes alone: what it adds beyond that is waiting for a rank that comes
        later.
        """
        name = self.speedup_row.strategy
        ddp = self.times.get((("ddp", *configuration_of(self.speedup_row)[1:]), COMPUTE))
        if name == "dp" and ddp:
            dp_step, ddp_step = self.step_s(self.in_memory), self.step_s(ddp)
            share = None if self.loading else ratio(ddp_step, dp_step).map(lambda value: 1 - value)
            yield found("data_parallel", self.probes, ProbeCost(minus(dp_step, ddp_step), share))
        added_s, allreduce_s, link_share = self.exchange_s, self.allreduce_s, self.link_share
        if name == "ddp" and added_s and allreduce_s and link_share:
            cost = ProbeCost(added_s.map(lambda seconds: min(seconds, allreduce_s)))
            yield found("slow_link" if link_share < SLOW_LINK_SHARE else "heavy_gradients", self.probes, cost)
        for row in SLOW_DEVICE.of(self.of(self.tables.ladder)).holding[:1]:
            yield found("slow_device", self.probes, ProbeCost(row.uneven_s.sure))

    @property
    def exchange_s(self) -> Figure | None:
        """DDP's step less that without allreduce, by its ladder; of records without one by ablation."""
        rungs = {row.rung: row for row in self.of(self.tables.ladder)}
        if {WHOLE, "no_op_hook"} <= set(rungs):
            return rungs[WHOLE].difference_s.sure
        ablations = (row.ablation_step_s for row in self.of(self.tables.communication))
        return next((figure.sure for figure in ablations if figure.is_known), None)

    @cached_property
    def timed_alone(self) -> list[CollectivesRow]:
        """Collectives between as many devices, with nothing else running."""
        return between(self.tables.collectives, self.speedup_row.gpus, self.speedup_row.environment)

    @property
    def allreduce_s(self) -> float | None:
        """Seconds of an allreduce of the whole gradient, which is the same everywhere, with nothing else running."""
        sizes = (row.gradient_bytes for row in self.tables.bandwidth if isfinite(row.gradient_bytes))
        call = "allreduce", next(sizes, None)
        timed = (row for row in self.timed_alone if (row.operation, row.message_bytes) == call)
        return next((row.time_s.value for row in timed), None)

    @property
    def link_share(self) -> float | None:
        """The bandwidth of a large allreduce over that of plain copies between the slowest pair, through which an
        allreduce goes too; None where they were not timed."""
        allreduces = [row for row in self.timed_alone if row.operation == "allreduce"]
        copies = [row.bus_bandwidth_gb_s.value for row in self.timed_alone if row.operation == "peer_copy"]
        if not allreduces or not copies:
            return None
        return max(allreduces, key=lambda row: row.message_bytes).bus_bandwidth_gb_s.value / min(copies)

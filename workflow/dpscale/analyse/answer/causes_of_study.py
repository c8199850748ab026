"""Why more devices are not faster, from the tables of a study: the causes of a diagnosis, as far as it saw them.

Times are of a step, b images on each of N devices, as an epoch has them: N·b images at the images per second of the
epoch (docs/method.md, "Causes").
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import isfinite
from typing import Any

from dpscale.analyse.answer.causes import Evidence, FoundCause, Remedy, causes_of, exact, is_efficient
from dpscale.analyse.answer.probes import Cost, Link, Probes, minus
from dpscale.analyse.answer.series import COMPUTE, END_TO_END, Series, series_of, support
from dpscale.formulas.figure import Figure, multiplied, ratio
from dpscale.strategies.known import BASELINE, strategy
from dpscale.strategies.strategy import WHOLE
from dpscale.tables.answer import AnswerRow, CausesRow
from dpscale.tables.communication import CollectivesRow, LadderRow
from dpscale.tables.tables import Tables
from dpscale.tables.timing import ScopesRow, SpeedupRow, TimesRow
from dpscale.tables.variants import VariantsRow
from dpscale.vocabulary.causes import NOTHING, UNKNOWN, cause
from dpscale.vocabulary.chips import chip_named

# The whole step with its batches in memory, by strategy: what a diagnosis calls it. Others are not told.
IN_MEMORY = {"dp": "dp", "ddp": "training"}
# The columns of what causes rest on: the evidence's name, and its unit.
EVIDENCE = (
    "end_to_end_s", "dp_s", "training_s", "no_op_hook_s", "loader_at_best_s", "alone_s", "alone_large_s",
    "alone_reference_s", "not_captured_s", "allreduce_s", "gradient_bytes", "bus_gb_s", "copy_gb_s", "nominal_gb_s",
    "loader_workers",
)  # fmt: skip
_NAMES = {column: column.removesuffix("_gb_s").removesuffix("_s") for column in EVIDENCE}
_GRAPH = "cuda_graph=True"


def causes_rows(tables: Tables) -> list[CausesRow]:
    """For every configuration on several devices its causes, those that are reasons first, in the order of their costs.

    A configuration without a reason has a row that says whether anything is wrong at all, and stands first. The rows
    that the answer tells are marked: every cause once for a strategy on a number of devices.
    """
    rows = [row for place in _places(tables) for row in _rows_of(place)]
    told = {id(row) for row in _told(rows, {series_of(row): row for row in tables.answer})}
    return [replace(row, is_told=id(row) in told) for row in rows]


def cause_of(row: CausesRow) -> FoundCause:
    """A cause as its row has it: the way back from the table."""
    evidence = [
        Evidence(name, figure, row.column(column).unit)
        for column, name in _NAMES.items()
        if (figure := _figure(getattr(row, column))).is_known
    ]
    remedies = []
    if row.remedy:
        predicted, saved = (figure if figure.is_known else None for figure in (row.predicted_saving_s, row.saving_s))
        words = {} if row.larger_batch_per_gpu is None else {"batch_per_gpu": row.larger_batch_per_gpu}
        remedies.append(Remedy(row.remedy, predicted, saved, words))
    if row.graph_saving_s.is_known:
        gpus = row.graph_gpus or 0
        graph = _graph_words(row.captured_variant, row.graph_variant, BASELINE if gpus == 1 else row.strategy, gpus)
        remedies.append(Remedy("variant_in_graph", None, row.graph_saving_s, graph))
    return FoundCause(cause(row.cause), row.cost_s, row.share, evidence, remedies)


def _graph_words(captured: str, graph: str, strategy: str, gpus: int) -> dict[str, str | int]:
    """What fills the text of a graph's remedy."""
    return {"captured_variant": captured, "graph_variant": graph, "strategy": strategy, "gpus": gpus}


def _figure(entry: Figure | float | None) -> Figure:
    return entry if isinstance(entry, Figure) else Figure() if entry is None else Figure(entry)


def _rows_of(place: "_Place") -> Iterator[CausesRow]:
    gain, probes = place.gain, place.probes
    found, not_seen = causes_of(probes)
    shared = CausesRow(
        scaling=gain.scaling,
        strategy=gain.strategy,
        gpus=gain.gpus,
        batch_per_gpu=gain.batch_per_gpu,
        global_batch=gain.global_batch,
        environment=gain.environment,
        scope=END_TO_END if place.loading else COMPUTE,
        whole_s=probes[probes.whole],
        efficiency=place.efficiency,
        not_seen="; ".join(not_seen),
    )
    rows = [replace(shared, **_columns(one)) for one in found]
    if not any(one.is_reason for one in found):
        answer = NOTHING if is_efficient(place.efficiency) else UNKNOWN
        rows.insert(0, replace(shared, cause=answer.name, is_reason=False))
    yield from (replace(row, order=order) for order, row in enumerate(rows))


def _columns(found: FoundCause) -> dict[str, Any]:
    columns: dict[str, Any] = {
        "cause": found.cause.name, "is_reason": found.is_reason, "cost_s": found.cost_s, "share": found.share,
    }  # fmt: skip
    figures = {evidence.name: evidence.figure for evidence in found.evidence}
    for column, name in _NAMES.items():
        if name in figures:
            kind = CausesRow.column(column).kind
            columns[column] = figures[name] if kind == "figure" else figures[name].value
    for remedy in found.remedies:
        words = remedy.words
        if remedy.name == "variant_in_graph":
            columns |= {name: words[name] for name in ("captured_variant", "graph_variant")}
            columns |= {"graph_gpus": words["gpus"], "graph_saving_s": remedy.measured_s}
            continue
        columns |= {"remedy": remedy.name, "larger_batch_per_gpu": words.get("batch_per_gpu")}
        savings = {"predicted_saving_s": remedy.predicted_s, "saving_s": remedy.measured_s}
        columns |= {name: saving for name, saving in savings.items() if saving}
    return columns


def _told(rows: Iterable[CausesRow], answers: Mapping[Series, AnswerRow]) -> Iterator[CausesRow]:
    """What the answer tells of every strategy on a number of devices: the reasons at its batch, and of other batches
    the first reasons; every cause once, where its share is best supported. Strong scaling is told elsewhere."""

    def is_at_answer(row: CausesRow) -> bool:
        answer = answers.get(series_of(row))
        return answer is not None and row.batch_per_gpu == answer.batch_per_gpu

    found: dict[tuple[Series, str], list[CausesRow]] = {}
    for row in rows:
        if row.is_reason and row.scaling == "weak" and (is_at_answer(row) or row.order == 0):
            found.setdefault((series_of(row), row.cause), []).append(row)
    return (max(some, key=lambda row: (is_at_answer(row), *support(row.share))) for some in found.values())


@dataclass(frozen=True)
class _Place:
    """A configuration on several devices beside its baseline: at the batch per device, or at the global batch, of
    that."""

    study: "_Measured"
    gain: SpeedupRow

    @property
    def in_memory(self) -> str:
        return IN_MEMORY[self.gain.strategy]

    @cached_property
    def loading(self) -> ScopesRow | None:
        """The epochs with loading beside those without, where runs had both."""
        row = self.study.scopes.get(self.at())
        return row if row and self.loaded and row.loader_s.is_known else None

    @property
    def loaded(self) -> TimesRow | None:
        return self.study.times.get((self.at(), END_TO_END))

    @property
    def efficiency(self) -> Figure:
        """One device alone, with its batches in memory, over the whole step. Without loading inside blocks; with it
        without an interval, since both parts hold the same epochs."""
        efficiency = self.gain.efficiency.sure
        return Figure(efficiency.value / self.loading.loading_ratio.value) if self.loading else efficiency

    @cached_property
    def probes(self) -> Probes:
        gain = self.gain
        loads = self.loaded.loader_processes if self.loading and self.loaded else None
        words: dict[str, str | int] = {}
        if self.graph:
            before, after = self.graph
            words = _graph_words(before.variant, after.variant, after.strategy, after.gpus)
        return Probes(
            times=self.times,
            whole="end_to_end" if self.loading else self.in_memory,
            in_memory=self.in_memory,
            devices=gain.gpus,
            batch=gain.batch_per_gpu,
            keeps_global_batch=gain.scaling == "strong",
            costs=dict(self.costs()),
            batches=self.batches,
            workers={} if loads is None else {"end_to_end": loads // strategy(gain.strategy).processes(gain.gpus)},
            link=self.study.link(gain),
            graph_words=words,
        )

    def at(self, strategy: str = "", devices: int = 0, batch: int = 0) -> "_Point":
        """Where this is, or another strategy, number of devices or batch there."""
        here = self.gain
        return (strategy or here.strategy, devices or here.gpus, batch or here.batch_per_gpu, here.environment)

    def step_s(self, strategy: str, devices: int = 0, batch: int = 0, scope: str = COMPUTE) -> Figure | None:
        """A step of one batch per device, at its own batch or at another; None where that was not measured."""
        row = self.study.times.get((self.at(strategy, devices, batch), scope))
        return _step_s(row, (devices or self.gain.gpus) * self.gain.batch_per_gpu) if row else None

    @cached_property
    def times(self) -> dict[str, Figure]:
        alone, in_memory = self.step_s(BASELINE, 1), self.in_memory
        found: dict[str, Figure | None] = {
            **dict.fromkeys(("alone", "first", "slowest"), alone),
            # At the largest batch: others are held against this one.
            "alone_large": alone if len(self.study.batches(self.at(BASELINE, 1))) > 1 else None,
            "training": self.step_s("ddp"),
            in_memory: self.step_s(self.gain.strategy),
            "end_to_end": self.step_s(self.gain.strategy, scope=END_TO_END) if self.loading else None,
            "allreduce": self.study.allreduce_s(self.gain),
        }
        for name, batch in self.batches.items():
            found[name] = self.step_s(BASELINE, 1, batch) if alone else None
            found[name.replace("alone", in_memory)] = self.step_s(self.gain.strategy, batch=batch)
        for name, row in zip(("not_captured", "in_graph"), self.graph or (), strict=False):
            found[name] = _step_s(row, row.gpus * self.gain.batch_per_gpu)
        fastest = self.study.fastest_loading(self.loaded) if self.loading and self.loaded else None
        found["loader_at_best"] = _step_s(fastest, self.gain.global_batch) if fastest else None
        return {name: figure for name, figure in found.items() if figure is not None}

    @property
    def batches(self) -> dict[str, int]:
        """The largest batch with times of one device alone, of those that all devices have, if there is one; and the
        global batch where that is held."""
        larger = {batch for batch in self.study.batches(self.at(BASELINE, 1)) if batch > self.gain.batch_per_gpu}
        large = max(larger & self.study.batches(self.at()) or larger, default=None)
        held = {"alone_reference": self.gain.global_batch} if self.gain.scaling == "strong" else {}
        return held if large is None else {"alone_large": large, **held}

    def costs(self) -> Iterator[tuple[tuple[str, str], Cost]]:
        """What is known better than from two times: of the same blocks, or run by run."""
        if self.in_memory == "dp" and "training" in self.times:
            step, other = self.times["dp"], self.times["training"]
            share = None if self.loading else ratio(other, step).map(lambda value: 1 - value)
            yield ("dp", "training"), Cost(minus(step, other), share)
        if self.loading:
            row = self.study.times[self.at(), COMPUTE]
            per_epoch = self.gain.global_batch / (row.images_per_s.value * row.epoch_s.value)
            share = self.loading.loading_ratio.sure.map(lambda value: 1 - 1 / value)
            yield ("end_to_end", self.in_memory), Cost(multiplied(self.loading.loader_s.sure, per_epoch), share)
        if self.in_memory == "training":
            rungs, ablation = self.study.rungs(self.at()), self.study.ablation.get(self.at())
            if {WHOLE, "no_op_hook"} <= set(rungs):
                times = {name: rungs[name].step_s.sure for name in (WHOLE, "no_op_hook")}
                yield ("training", "no_op_hook"), Cost(rungs[WHOLE].difference_s.sure, times=times)
            elif ablation and ablation.ablation_step_s.is_known:  # records without a ladder
                yield ("training", "no_op_hook"), Cost(ablation.ablation_step_s.sure)

    @cached_property
    def graph(self) -> tuple[VariantsRow, VariantsRow] | None:
        """A variant with a CUDA graph, after another, or the study's own settings, that differs in it alone; on as many
        devices, otherwise on one."""
        for point in (self.at(), self.at(BASELINE, 1)):
            here = {frozenset(row.changes.split("; ")) - {""}: row for row in self.study.variants(point)}
            for changes, row in here.items():
                before = here.get(changes - {_GRAPH})
                if _GRAPH in changes and before is not None:
                    return before, row
        return None


_Point = tuple[str, int, int, str]


def _point(row: Any) -> _Point:
    return row.strategy, row.gpus, row.batch_per_gpu, row.environment


class _Measured:
    """The rows of a study's tables, by where they were measured. Of times those that speak for their configuration."""

    def __init__(self, tables: Tables):
        self.tables = tables
        speaking = [row for row in tables.times if row.status == "ok" and row.is_headline and row.images_per_s.is_known]
        self.times = {(_point(row), row.scope): row for row in reversed(speaking)}
        self.scopes = {_point(row): row for row in reversed(tables.scopes)}
        self.ablation = {_point(row): row for row in reversed(tables.communication) if row.scope == COMPUTE}
        self.environments = {row.environment: row for row in tables.environments}
        self.copies = {(row.gpus, row.environment): row for row in reversed(tables.peer_copies)}
        self.timed: dict[Series, set[int]] = {}
        self.loaded: dict[tuple[str, int | None], list[TimesRow]] = {}
        for row in speaking:
            if row.scope == COMPUTE:
                self.timed.setdefault(series_of(row), set()).add(row.batch_per_gpu)
            else:
                self.loaded.setdefault((row.environment, row.loader_processes), []).append(row)
        self._rungs: dict[_Point, dict[str, LadderRow]] = {}
        for rung in tables.ladder:
            self._rungs.setdefault(_point(rung), {})[rung.rung] = rung
        self._variants: dict[_Point, list[VariantsRow]] = {}
        for variant in tables.variants:
            if variant.scope == COMPUTE and variant.status == "ok" and variant.images_per_s.is_known:
                self._variants.setdefault(_point(variant), []).append(variant)

    def batches(self, point: _Point) -> set[int]:
        """Batches per device that have times, of this strategy on as many devices."""
        return self.timed.get(Series(point[0], point[1], point[3]), set())

    def rungs(self, point: _Point) -> Mapping[str, LadderRow]:
        return self._rungs.get(point, {})

    def variants(self, point: _Point) -> Sequence[VariantsRow]:
        return self._variants.get(point, [])

    def fastest_loading(self, loaded: TimesRow) -> TimesRow | None:
        """The fastest epoch with as many loader processes, if that is another one."""
        if loaded.loader_processes is None:
            return None
        seen = self.loaded[loaded.environment, loaded.loader_processes]
        fastest = max(seen, key=lambda row: row.images_per_s.value)
        return fastest if fastest.images_per_s.value > loaded.images_per_s.value else None

    @cached_property
    def gradient_bytes(self) -> int | None:
        """Of the study's network, the same everywhere."""
        return next((int(row.gradient_bytes) for row in self.tables.bandwidth if isfinite(row.gradient_bytes)), None)

    def _allreduces(self, gain: SpeedupRow) -> list[CollectivesRow]:
        place = ("allreduce", gain.gpus, gain.environment)
        return [row for row in self.tables.collectives if (row.operation, row.gpus, row.environment) == place]

    def allreduce_s(self, gain: SpeedupRow) -> Figure | None:
        """Of the whole gradient with nothing else running."""
        size = self.gradient_bytes
        timed = (row for row in self._allreduces(gain) if size is not None and row.message_bytes == size)
        return next((row.time_s.sure for row in timed), None)

    def link(self, gain: SpeedupRow) -> Link | None:
        """None where collectives and copies between as many devices were not timed."""
        timed, copies = self._allreduces(gain), self.copies.get((gain.gpus, gain.environment))
        if not timed or copies is None or self.gradient_bytes is None:
            return None
        largest = max(timed, key=lambda row: row.message_bytes or 0)
        # Of the slowest pair: an allreduce goes through all of them.
        slowest = exact(copies.bus_bandwidth_gb_s.low)
        nominal = self._nominal_gb_s(gain.environment)
        return Link(self.gradient_bytes, largest.bus_bandwidth_gb_s.sure, slowest, nominal)

    def _nominal_gb_s(self, letter: str) -> float | None:
        """The data sheet's, where all links between devices are NVLink and the model is known."""
        environment = self.environments.get(letter)
        chip = environment and chip_named(environment.device_model)
        is_nvlink = environment and all("NVLink" in kind for kind in environment.links.split("; "))
        return chip.nvlink_gb_s if chip and is_nvlink else None


def _places(tables: Tables) -> Iterator[_Place]:
    study = _Measured(tables)
    for gain in tables.speedup:
        speaks = gain.status == "ok" and gain.is_headline and gain.scope == COMPUTE and gain.strategy in IN_MEMORY
        if speaks and (_point(gain), COMPUTE) in study.times:
            yield _Place(study, gain)


def _step_s(row: TimesRow | VariantsRow, images: int) -> Figure:
    """What so many images take at the images per second of an epoch."""
    return row.images_per_s.sure.map(lambda rate: images / rate)

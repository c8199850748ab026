"""Why more devices are not faster, from the other tables of a study: the causes of a diagnosis, as far as it saw them.

Times are of a step, b images on each of N devices, as an epoch has them: N·b images at the images per second of the
epoch. A cost is a difference of two of them, or of two rungs of a ladder (docs/method.md, "Causes"). Rows are mappings,
as in `claims`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from dpscale.analyse.claims import NewRow, Row, Rows, is_known, is_true, series_of
from dpscale.analyse.diagnosis import Evidence, Finding, Remedy, exact, is_efficient, is_slow_link
from dpscale.analyse.row_figures import figure_of, known_columns
from dpscale.formulas.figure import Figure, less, multiplied, plus, ratio, share_of
from dpscale.strategies.known import BASELINE, strategy
from dpscale.strategies.strategy import WHOLE
from dpscale.vocabulary.causes import CAUSES, NOTHING, UNKNOWN, cause
from dpscale.vocabulary.chips import chip_named

# The whole step with its batches in memory, by strategy: what a diagnosis calls it. Others are not told.
IN_MEMORY = {"dp": "dp", "ddp": "training"}
# What evidence is of, by its column: its name in a diagnosis, and its unit there.
EVIDENCE: Mapping[str, tuple[str, str]] = {
    "end_to_end_s": ("end_to_end", "s"),
    "dp_s": ("dp", "s"),
    "training_s": ("training", "s"),
    "no_op_hook_s": ("no_op_hook", "s"),
    "loader_at_best_s": ("loader_at_best", "s"),
    "alone_s": ("alone", "s"),
    "alone_large_s": ("alone_large", "s"),
    "alone_reference_s": ("alone_reference", "s"),
    "not_captured_s": ("not_captured", "s"),
    "allreduce_s": ("allreduce", "s"),
    "gradient_bytes": ("gradient_bytes", "bytes"),
    "bus_gb_s": ("bus", "GB/s"),
    "copy_gb_s": ("copy", "GB/s"),
    "nominal_gb_s": ("nominal", "GB/s"),
    "loader_workers": ("loader_workers", "count"),
}
_COLUMN_OF = {name: column for column, (name, _) in EVIDENCE.items()}
_COMPUTE, _END_TO_END = "compute", "end_to_end"


def cause_rows(rows: Rows) -> Iterator[NewRow]:
    """For every configuration on several devices its causes, those that are reasons first, in the order of their costs.

    A configuration without a reason has a row that says whether anything is wrong at all, and stands first. The rows
    that the answer tells are marked: every cause once for a strategy on a number of devices.
    """
    measured = _Measured(rows)
    found = [row for place in measured.places() for row in _rows_of(place)]
    told = {id(row) for row in _told(found, {series_of(row): int(row["batch_per_gpu"]) for row in rows["answer"]})}
    for row in found:
        yield {**row, "is_told": id(row) in told}


def finding_of(row: Row) -> Finding:
    """A finding as its row has it: the way back from the table."""
    evidence = [
        Evidence(name, figure_of(row, column), unit)
        for column, (name, unit) in EVIDENCE.items()
        if is_known(row.get(column))
    ]
    remedies = []
    if is_known(row.get("remedy")):
        predicted, saved = (
            figure_of(row, name) if is_known(row.get(name)) else None for name in ("predicted_saving_s", "saving_s")
        )
        has_batch = is_known(row.get("larger_batch_per_gpu"))
        words: Mapping[str, str | int] = {"batch_per_gpu": int(row["larger_batch_per_gpu"])} if has_batch else {}
        remedies.append(Remedy(str(row["remedy"]), predicted, saved, words))
    if is_known(row.get("graph_saving_s")):
        gpus = int(row["graph_gpus"])
        name = BASELINE if gpus == 1 else row["strategy"]
        words = _graph_words(row["captured_variant"], row["graph_variant"], name, gpus)
        remedies.append(Remedy("variant_in_graph", None, figure_of(row, "graph_saving_s"), words))
    cost_s, share = figure_of(row, "cost_s"), figure_of(row, "share")
    return Finding(cause(str(row["cause"])), cost_s, share, evidence, remedies)


class _Measured:
    """The rows of a study's tables, by where they were measured. Of times those that speak for their configuration."""

    def __init__(self, rows: Rows):
        times = [
            row
            for row in rows["times"]
            if row["status"] == "ok" and is_true(row.get("is_headline")) and is_known(row.get("images_per_s"))
        ]
        self.rows = {**rows, "times": times}
        self._indices: dict[tuple[str, ...], dict[tuple[Any, ...], list[Row]]] = {}

    def places(self) -> Iterator["_Place"]:
        """Every configuration beside its baseline: at the batch per device, or at the global batch, of that."""
        for gain in self.rows["speedup"]:
            speaks = gain["status"] == "ok" and is_true(gain.get("is_headline")) and gain["scope"] == _COMPUTE
            if speaks and gain["strategy"] in IN_MEMORY:
                place = _Place(self, gain)
                if self.all("times", **place.point, scope=_COMPUTE):
                    yield place

    def all(self, table: str, **wanted: Any) -> Sequence[Row]:
        """The rows of a table that have these entries. Studies may have thousands: each is looked at once."""
        index = self._indices.get((table, *wanted))
        if index is None:
            index = self._indices[table, *wanted] = {}
            for row in self.rows[table]:
                index.setdefault(tuple(row.get(name) for name in wanted), []).append(row)
        return index.get(tuple(wanted.values()), [])

    def one(self, table: str, **wanted: Any) -> Row:
        """The first of them; empty where there is none."""
        return next(iter(self.all(table, **wanted)), {})

    @cached_property
    def gradient_bytes(self) -> int | None:
        """Of the study's network, the same everywhere."""
        known = (row["gradient_bytes"] for row in self.rows["bandwidth"] if is_known(row.get("gradient_bytes")))
        return next((int(size) for size in known), None)


class _Place:
    """A configuration on several devices, and its steps."""

    def __init__(self, measured: _Measured, gain: Row):
        self.measured, self.gain = measured, gain
        self.strategy, self.devices = str(gain["strategy"]), int(gain["gpus"])
        self.batch, self.environment = int(gain["batch_per_gpu"]), gain.get("environment")
        self.in_memory = IN_MEMORY[self.strategy]

    @property
    def keeps_global_batch(self) -> bool:
        return bool(self.gain["scaling"] == "strong")

    def step_s(self, name: str, devices: int = 0, batch: int = 0, scope: str = _COMPUTE) -> Figure | None:
        """A step of one batch per device: of a strategy, at its own batch or at another; None where that was not
        measured."""
        devices, batch = devices or self.devices, batch or self.batch
        point = {**self.point, "strategy": name, "gpus": devices, "batch_per_gpu": batch}
        row = self.measured.one("times", **point, scope=scope)
        return _step_s(row, devices * self.batch) if row else None

    @property
    def per_epoch(self) -> float:
        """Of what an epoch takes, the part that the samples of a step take."""
        row = self.measured.one("times", **self.point, scope=_COMPUTE)
        return self.devices * self.batch / float(row["images_per_s"] * row["epoch_s"])

    def loader_s(self, processes: int) -> Figure:
        """What so many loader processes take for a step's images at most: as in the fastest epoch with them."""
        seen = self.measured.all("times", scope=_END_TO_END, environment=self.environment, loader_processes=processes)
        return _step_s(max(seen, key=lambda row: row["images_per_s"]), self.devices * self.batch)

    def alone_s(self, batch: int = 0) -> Figure | None:
        """The plain step on one device."""
        return self.step_s(BASELINE, devices=1, batch=batch)

    @cached_property
    def in_memory_s(self) -> Figure:
        found = self.step_s(self.strategy)
        assert found is not None  # it has a speedup
        return found

    @cached_property
    def loading(self) -> Row:
        """The epochs with loading beside those without, run by run; empty where no run had both."""
        row = self.measured.one("scopes", **self.point)
        return row if is_known(row.get("loader_s")) else {}

    @cached_property
    def with_loading_s(self) -> Figure | None:
        return self.step_s(self.strategy, scope=_END_TO_END) if self.loading else None

    @property
    def whole_s(self) -> Figure:
        """All that the training does, as far as it was measured."""
        return self.with_loading_s or self.in_memory_s

    @property
    def efficiency(self) -> Figure:
        """One device alone, with its batches in memory, over the whole step. Without loading inside blocks; with it
        without an interval, since both parts hold the same epochs."""
        efficiency = figure_of(self.gain, "efficiency")
        if self.with_loading_s is None:
            return efficiency
        return Figure(efficiency.value / float(self.loading["loading_ratio"]))

    @property
    def here(self) -> dict[str, Any]:
        return {"gpus": self.devices, "environment": self.environment}

    @property
    def point(self) -> dict[str, Any]:
        return {"strategy": self.strategy, "batch_per_gpu": self.batch, **self.here}

    def batches(self, name: str, devices: int) -> set[int]:
        """Batches per device that have times."""
        where = {"strategy": name, "gpus": devices, "environment": self.environment, "scope": _COMPUTE}
        return {row["batch_per_gpu"] for row in self.measured.all("times", **where)}

    @property
    def large(self) -> int | None:
        """The largest batch with times of one device alone; of those that all devices have, if there is one."""
        larger = {batch for batch in self.batches(BASELINE, 1) if batch > self.batch}
        return max(larger & self.batches(self.strategy, self.devices) or larger, default=None)

    def found(
        self, name: str, cost: Figure, share: Figure | None, evidence: Sequence[Evidence], *remedies: Remedy
    ) -> Finding:
        """`share` of the whole step, where it is known better than from the cost."""
        share = share or share_of(cost, self.whole_s)
        # Of other runs the ratio may seem to be more than all.
        share = replace(share, high=min(share.high, 1.0))
        return Finding(CAUSES[name], cost, share, evidence, remedies)


Found = Sequence[Finding] | None  # None: the study did not measure what would tell it


def _data_parallel(place: _Place) -> Found:
    """DataParallel's step less DDP's, at the same batch per device. Predicted for DDP: one device alone, and then one
    allreduce, of which nothing is hidden."""
    if place.strategy != "dp":
        return []
    other = place.step_s("ddp")
    if other is None:
        return None
    cost, alone, allreduce = less(place.in_memory_s, other), place.alone_s(), _allreduce_s(place)
    predicted = less(less(place.in_memory_s, alone), allreduce) if alone and allreduce else None
    evidence = [Evidence("dp", place.in_memory_s), Evidence("training", other)]
    evidence += [Evidence("alone", alone)] if alone else []
    share = ratio(other, place.whole_s).map(lambda value: 1 - value) if place.with_loading_s is None else None
    return [place.found("data_parallel", cost, share, evidence, Remedy("ddp", predicted, cost))]


def _loading(place: _Place) -> Found:
    """What a step takes longer with the DataLoader in the clock. Where as many loader processes were seen to be faster
    than the step uses batches, it does not wait for them: loading disturbs it."""
    whole = place.with_loading_s
    if whole is None:
        return None
    evidence = [Evidence("end_to_end", whole), Evidence(place.in_memory, place.in_memory_s)]
    row, name = place.measured.one("times", **place.point, scope=_END_TO_END), "slow_loader"
    if is_known(row.get("loader_processes")):
        workers = row["loader_processes"] // strategy(place.strategy).processes(place.devices)
        at_best = place.loader_s(int(row["loader_processes"]))
        if at_best.value < whole.value:  # otherwise it is this step itself
            evidence.append(Evidence("loader_at_best", at_best))
        evidence.append(Evidence("loader_workers", exact(workers), "count"))
        if workers and at_best.value < place.in_memory_s.value:
            name = "loading_disturbs"
    share = figure_of(place.loading, "loading_ratio").map(lambda value: 1 / value).map(lambda value: 1 - value)
    return [place.found(name, multiplied(figure_of(place.loading, "loader_s"), place.per_epoch), share, evidence)]


def _small_batch(place: _Place) -> Found:
    """What the images of a batch take longer on one device than in a larger batch."""
    if place.keeps_global_batch:
        return []
    alone, batches = place.alone_s(), place.batches(BASELINE, 1)
    if alone is None or len(batches) < 2:
        return None
    large = place.alone_s(place.large) if place.large else None
    if large is None:  # others are held against this one
        return []
    evidence = [Evidence("alone", alone), Evidence("alone_large", large)]
    found = place.found("small_batch", less(alone, large), None, evidence, *_larger_batch(place, place.large))
    return [_with_graph(found, place)]


def _with_graph(found: Finding, place: _Place) -> Finding:
    """With what a CUDA graph saved: a variant beside another, or the study's own settings, that differs in it alone; on
    as many devices, otherwise on one."""
    for name, devices in ((place.strategy, place.devices), (BASELINE, 1)):
        point = {**place.point, "strategy": name, "gpus": devices}
        here = {
            frozenset(str(row.get("changes") or "").split("; ")) - {""}: row
            for row in place.measured.all("variants", **point, scope=_COMPUTE, status="ok")
            if is_known(row.get("images_per_s"))
        }
        for changes, row in here.items():
            beside = here.get(changes - {"cuda_graph=True"})
            if "cuda_graph=True" in changes and beside is not None:
                before, after = (_step_s(each, devices * place.batch) for each in (beside, row))
                words = _graph_words(beside["variant"], row["variant"], name, devices)
                remedy = Remedy("variant_in_graph", None, less(before, after), words)
                evidence = [*found.evidence, Evidence("not_captured", before)]
                return replace(found, evidence=evidence, remedies=[*found.remedies, remedy])
    return found


def _graph_words(captured: Any, graph: Any, strategy: Any, gpus: int) -> Mapping[str, str | int]:
    """What fills the text of a graph's remedy."""
    return {"captured_variant": captured, "graph_variant": graph, "strategy": strategy, "gpus": gpus}


def _batch_not_scaled(place: _Place) -> Found:
    """Where the global batch is held: what its images take longer in smaller batches than in one on one device."""
    if not place.keeps_global_batch:
        return []
    held = place.batch * place.devices
    alone, reference = place.alone_s(), place.alone_s(held)
    if alone is None or reference is None:
        return None
    evidence = [Evidence("alone", alone), Evidence("alone_reference", reference)]
    return [place.found("batch_not_scaled", less(alone, reference), None, evidence, *_larger_batch(place, held))]


def _larger_batch(place: _Place, batch: int | None) -> Iterator[Remedy]:
    """The whole step at a larger batch. Predicted: all that it has beyond the plain step stays as long per step."""
    scaled = place.step_s(place.strategy, batch=batch) if batch else None
    alone, large = place.alone_s(), place.alone_s(batch) if batch else None
    if batch is None or scaled is None or alone is None or large is None:
        return
    part = place.batch / batch
    # The step, less what it has beyond the plain one for `part` of the batch, less the plain step at the larger batch.
    predicted = less(plus(multiplied(place.in_memory_s, 1 - part), multiplied(alone, part)), large)
    yield Remedy("larger_batch", predicted, less(place.in_memory_s, scaled), {"batch_per_gpu": batch})


def _communication(place: _Place) -> Found:
    """What the allreduce adds to DDP's step, by intervention: a slow link, where that is far below a plain copy;
    otherwise the gradients. At most as long as the allreduce takes alone."""
    if place.strategy != "ddp":
        return []
    added, evidence = _added_by_allreduce(place)
    alone, link = _allreduce_s(place), _link(place)
    if added is None or alone is None or link is None:
        return None
    cost = Figure.of(*(min(end, alone.value) for end in (added.value, added.low, added.high)))
    evidence += [Evidence("allreduce", alone), *link.evidence]
    if link.is_slow:
        possible = alone.value * (1 - link.bus.value / link.copy.value)
        saved = Figure.of(*(min(end, possible) for end in (cost.value, cost.low, cost.high)))
        return [place.found("slow_link", cost, None, evidence, Remedy("full_link", saved))]
    return [place.found("heavy_gradients", cost, None, evidence, *_larger_batch(place, place.large))]


def _added_by_allreduce(place: _Place) -> tuple[Figure | None, list[Evidence]]:
    """By the ladder's last rung; of records without a ladder by ablation (E2)."""
    rungs = {row["rung"]: row for row in place.measured.all("ladder", **place.point)}
    if {WHOLE, "no_op_hook"} <= set(rungs):
        evidence = [Evidence("training", figure_of(rungs[WHOLE], "step_s"))]
        evidence += [Evidence("no_op_hook", figure_of(rungs["no_op_hook"], "step_s"))]
        return figure_of(rungs[WHOLE], "difference_s"), evidence
    row = place.measured.one("communication", **place.point, scope=_COMPUTE)
    return figure_of(row, "ablation_step_s") if is_known(row.get("ablation_step_s")) else None, []


@dataclass(frozen=True)
class _Link:
    """Bandwidths of the link between devices, in GB/s: of a large allreduce, of a plain copy, of its data sheet."""

    bus: Figure
    copy: Figure
    nominal: float | None
    gradient_bytes: int

    @property
    def evidence(self) -> list[Evidence]:
        found = [Evidence("bus", self.bus, "GB/s"), Evidence("copy", self.copy, "GB/s")]
        found += [] if self.nominal is None else [Evidence("nominal", exact(self.nominal), "GB/s")]
        return [Evidence("gradient_bytes", exact(self.gradient_bytes), "bytes"), *found]

    @property
    def is_slow(self) -> bool:
        # Only GPUs copy to each other.
        return is_slow_link("cuda", self.bus.value, self.copy.value, self.nominal)


def _link(place: _Place) -> _Link | None:
    """None where collectives and copies between as many devices were not timed."""
    timed = place.measured.all("collectives", operation="allreduce", **place.here)
    copies = place.measured.one("peer_copies", **place.here)
    size = place.measured.gradient_bytes
    if not timed or not copies or size is None:
        return None
    largest = max(timed, key=lambda row: row["message_bytes"])
    # Of the slowest pair: an allreduce goes through all of them.
    slowest = exact(float(copies["bus_bandwidth_gb_s_low"]))
    return _Link(figure_of(largest, "bus_bandwidth_gb_s"), slowest, _nominal_gb_s(place), size)


def _nominal_gb_s(place: _Place) -> float | None:
    """The data sheet's, where all links between devices are NVLink and the model is known."""
    environment = place.measured.one("environments", environment=place.environment)
    chip = chip_named(str(environment.get("device_model")))
    kinds = str(environment.get("links") or "").split("; ")
    return chip.nvlink_gb_s if chip and all("NVLink" in kind for kind in kinds) else None


def _allreduce_s(place: _Place) -> Figure | None:
    """Of the whole gradient with nothing else running."""
    row = place.measured.one(
        "collectives", operation="allreduce", message_bytes=place.measured.gradient_bytes, **place.here
    )
    return figure_of(row, "time_s") if row else None


# How a study finds causes, and which: no other is claimed.
_FINDERS: Mapping[tuple[str, ...], Callable[[_Place], Found]] = {
    ("data_parallel",): _data_parallel,
    ("slow_loader", "loading_disturbs"): _loading,
    ("small_batch",): _small_batch,
    ("batch_not_scaled",): _batch_not_scaled,
    ("slow_link", "heavy_gradients"): _communication,
}


def _rows_of(place: _Place) -> Iterator[NewRow]:
    outcomes = {names: find(place) for names, find in _FINDERS.items()}
    seen = {name for names, found in outcomes.items() if found is not None for name in names}
    findings = [finding for found in outcomes.values() for finding in found or () if finding.cost_s.value > 0]
    findings.sort(key=lambda finding: (not finding.is_reason, -finding.cost_s.value))
    shared = {
        **{name: place.gain[name] for name in ("scaling", "strategy", "gpus", "batch_per_gpu", "global_batch")},
        "environment": place.environment,
        "scope": _COMPUTE if place.with_loading_s is None else _END_TO_END,
        **known_columns("whole_s", place.whole_s),
        **known_columns("efficiency", place.efficiency),
        "not_seen": "; ".join(name for name in CAUSES if name not in seen) or None,
    }
    rows = [_row(finding) for finding in findings]
    if not any(row["is_reason"] for row in rows):
        answer = NOTHING if is_efficient(place.efficiency) else UNKNOWN
        rows.insert(0, {"cause": answer.name, "is_reason": False})
    yield from ({**shared, "order": order, **row} for order, row in enumerate(rows))


def _row(finding: Finding) -> NewRow:
    row: NewRow = {
        "cause": finding.cause.name,
        "is_reason": finding.is_reason,
        **known_columns("cost_s", finding.cost_s),
        **known_columns("share", finding.share),
    }
    for evidence in finding.evidence:
        row |= known_columns(_COLUMN_OF[evidence.name], evidence.figure)
    for remedy in finding.remedies:
        if remedy.name == "variant_in_graph" and remedy.measured_s:
            row |= {name: remedy.words[name] for name in ("captured_variant", "graph_variant")}
            row |= {"graph_gpus": remedy.words["gpus"], **known_columns("graph_saving_s", remedy.measured_s)}
            continue
        row |= {"remedy": remedy.name, "larger_batch_per_gpu": remedy.words.get("batch_per_gpu")}
        row |= known_columns("predicted_saving_s", remedy.predicted_s) if remedy.predicted_s else {}
        row |= known_columns("saving_s", remedy.measured_s) if remedy.measured_s else {}
    return row


def _told(rows: Iterable[NewRow], batches: Mapping[tuple[Any, ...], int]) -> Iterator[NewRow]:
    """What the answer tells of every strategy on a number of devices: the reasons at its batch, and of other batches
    the first reasons; every cause once, where its share is best supported. Strong scaling is told elsewhere."""
    found: dict[tuple[Any, ...], list[NewRow]] = {}
    for row in rows:
        is_at_answer = row["batch_per_gpu"] == batches.get(series_of(row))
        if row["is_reason"] and row["scaling"] == "weak" and (is_at_answer or row["order"] == 0):
            found.setdefault((*series_of(row), row["cause"]), []).append(row)

    def support(row: NewRow) -> tuple[bool, bool, float]:
        known = is_known(row["share_low"])
        return row["batch_per_gpu"] == batches.get(series_of(row)), known, row["share_low"] if known else row["share"]

    return (max(some, key=support) for some in found.values())


def _step_s(row: Row, images: int) -> Figure:
    """What so many images take at the images per second of an epoch."""
    rate = figure_of(row, "images_per_s")
    return Figure.of(images / rate.value, images / rate.high, images / rate.low)

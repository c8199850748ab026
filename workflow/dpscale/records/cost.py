"""What measuring cells costs: what records say of it, and an estimate for cells without one. Free of torch, and quick.

A cost is the time of a job from its start to its end, times the GPUs (workers) that it holds. It is estimated from jobs
that were measured: of the same configuration in this study, otherwise of the nearest one, for as many epochs. What a
cluster's queue takes, and making the dataset, are in no estimate.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache, cached_property
from math import ceil, inf, log2
from pathlib import Path
from statistics import median
from typing import Any

from dpscale.errors import RecordError
from dpscale.plan.cells import AnyCell, CollectivesCell, CommunicationCell, TimingCell, TrainingCell, VariantCell
from dpscale.plan.study import Study
from dpscale.records.collect import CellState
from dpscale.records.files import Record, read_record
from dpscale.schemas.settings import BUILT_IN, TimingSettings, hashable, variant_settings
from dpscale.strategies.known import BASELINE

SAME = "jobs of the same configuration in this study"
UNKNOWN = "nothing like it was measured"

_KINDS: Sequence[type[AnyCell]] = (TimingCell, VariantCell, CommunicationCell, CollectivesCell, TrainingCell)
# What must be equal for the cost of one cell to say something of another's.
_ALIKE = ("device", "network", "width", "epoch_images")
# What makes steps faster or slower, but leaves them of the same order. A record that does not name one has its default.
_PACE = {name: TimingSettings.default_of(name) for name in variant_settings()}


def gpu_seconds(cell: AnyCell, record: Record) -> float:
    """What a cell cost: from its start to its end, times the GPUs (workers) that it held."""
    return seconds_of(record) * cell.gpus


def seconds_of(record: Record) -> float:
    """From the start of a job to its end."""
    started, finished = (datetime.fromisoformat(record[name]) for name in ("started_at", "finished_at"))
    return (finished - started).total_seconds()


def _epochs_asked(settings: Mapping[str, Any], strategy: str, gpus: int) -> float:
    """The epochs of a training, or of every scope of a timing cell; 1 for other kinds. One of the baseline on one of
    the GPUs takes up to `gpus` times as long as one of all, and counts as so many."""
    if "timed_epochs" not in settings:
        return float(settings.get("epochs", 1))
    scopes, warm, timed = len(settings["scopes"]), settings["warmup_epochs"], settings["timed_epochs"]
    has_baseline = strategy != BASELINE and settings.get("baseline") == "in_job"
    return float(scopes * (warm + timed) + has_baseline * gpus * (warm + scopes * 2 * ceil(timed / 2)))


def _epochs_timed(record: Record, gpus: int) -> float:
    """The same of what a record has: one of version 1 may have fewer than were asked for."""
    if record["kind"] != "timing":
        return _epochs_asked(record["settings"], "", gpus)
    warm = record["settings"]["warmup_epochs"]
    alone = record.get("alone") or ()
    halves = [half for baseline in alone for ends in baseline.get("scopes", {}).values() for half in ends.values()]
    together = sum(warm + len(found["epoch_s"]) for found in record["scopes"].values())
    return float(together + gpus * (warm * bool(halves) + sum(len(half["epoch_s"]) for half in halves)))


@dataclass(frozen=True)
class Job:
    """What decides how long a job takes: its kind, what it must share with another to be compared (`alike`), how many
    GPUs and images it has, its epochs, and settings that change its `pace`."""

    kind: str
    alike: tuple[Any, ...]
    strategy: str
    gpus: int
    batch_per_gpu: int
    epochs: float
    pace: tuple[Any, ...]

    @classmethod
    def of(cls, kind: str, labels: Mapping[str, Any], settings: Mapping[str, Any]) -> "Job":
        """From what tells a cell from others, and its settings, as records have them."""
        strategy, gpus = labels.get("strategy", ""), labels["gpus"]
        return cls(
            kind,
            (*(settings.get(name) for name in _ALIKE), settings.get("workload", BUILT_IN)),
            strategy,
            gpus,
            labels.get("batch_per_gpu", 1),
            _epochs_asked(settings, strategy, gpus),
            tuple(hashable(settings.get(name, default)) for name, default in _PACE.items()),
        )

    def distance(self, other: "Job") -> float:
        """How unlike another job is: doublings of GPUs and of the batch, where another strategy counts as four, and
        every setting that a variant may change as one."""
        if (self.kind, self.alike) != (other.kind, other.alike):
            return inf
        ratios = self.gpus / other.gpus, self.batch_per_gpu / other.batch_per_gpu
        differing: int = sum(own != its for own, its in zip(self.pace, other.pace, strict=True))
        return sum(abs(log2(ratio)) for ratio in ratios) + 4 * (self.strategy != other.strategy) + differing


@dataclass(frozen=True)
class Took:
    """Seconds of a job outside its epochs, and of each of them."""

    outside_s: float
    epoch_s: float

    @classmethod
    def of(cls, record: Record, gpus: int) -> "Took":
        whole_s = seconds_of(record)
        inside_s = whole_s if record["kind"] == "training" else record.get("epochs_total_s") or 0.0
        return cls(whole_s - inside_s, inside_s / _epochs_timed(record, gpus) if inside_s else 0.0)


@dataclass(frozen=True)
class Cost:
    """GPU-seconds that a cell will take, None where nothing is known, and what this rests on."""

    gpu_s: float | None
    basis: str


class Costs:
    """What cells of `study` will take. Records of other studies, in the folders `recorded`, are read when they are
    needed: where this study knows nothing of the kind."""

    def __init__(self, study: Study, states: Iterable[CellState], recorded: Iterable[Path]):
        self._study = study
        self._recorded = recorded
        self._found: dict[Job, Cost] = {}
        # Jobs that ran out of memory took less time than others do: they speak for their own configuration alone.
        self._own: dict[Job, list[Took]] = {}
        self._complete: dict[Job, list[Took]] = {}
        for cell_state in states:
            if cell_state.record is not None:
                job, took = self._job(cell_state.cell), Took.of(cell_state.record, cell_state.cell.gpus)
                self._own.setdefault(job, []).append(took)
                if cell_state.record["status"] != "oom":
                    self._complete.setdefault(job, []).append(took)

    def of(self, cell: AnyCell) -> Cost:
        job = self._job(cell)
        if job not in self._found:
            self._found[job] = self._estimated(job)
        return self._found[job]

    def _job(self, cell: AnyCell) -> Job:
        return Job.of(cell.kind, cell.labels, cell.settings_under(self._study.settings).to_json())

    def _estimated(self, job: Job) -> Cost:
        if job in self._own:
            return Cost(_time_s(job.epochs, self._own[job]) * job.gpus, SAME)
        if here := _comparable(job, self._complete):
            return _of_nearest(job, here, "this study")
        there = {folder: found for folder, known in self._elsewhere.items() if (found := _comparable(job, known))}
        if not there:
            return Cost(None, UNKNOWN)
        folder = min(there, key=lambda folder: min(map(job.distance, there[folder])))
        return _of_nearest(job, there[folder], folder)

    @cached_property
    def _elsewhere(self) -> dict[str, dict[Job, list[Took]]]:
        """The jobs of every other recorded study, by its folder and the GPUs that it was measured on."""
        return dict(found for folder in self._recorded if (found := _jobs_in(folder)))


@cache
def _jobs_in(folder: Path) -> tuple[str, dict[Job, list[Took]]] | None:
    """The jobs of a folder of results, with its name and its GPUs; None where it has none."""
    jobs: dict[Job, list[Took]] = {}
    models: set[str] = set()
    for record in _records(folder):
        labels = {**record["settings"], **record["cell"]}
        job = Job.of(record["kind"], labels, record["settings"])
        jobs.setdefault(job, []).append(Took.of(record, labels["gpus"]))
        models.add(record["hardware"]["device_model"])
    return (f"{folder} ({', '.join(sorted(models))})", jobs) if jobs else None


def _records(folder: Path) -> Iterator[Record]:
    """Every record of a folder of results that can be read, but for those of jobs that ran out of memory."""
    for cell in _KINDS:
        for path in sorted((folder / Path(cell.path_pattern).parts[0]).rglob("*.json")):
            try:
                record = read_record(cell.kind, path)
            except RecordError:
                continue
            if record["status"] != "oom":
                yield record


def _comparable(job: Job, known: Mapping[Job, list[Took]]) -> dict[Job, list[Took]]:
    return {other: took for other, took in known.items() if job.distance(other) < inf}


def _of_nearest(job: Job, known: Mapping[Job, Sequence[Took]], of: str) -> Cost:
    """The time of the nearest job for as many epochs, on the GPUs of this one; of equally near ones the longest."""
    nearest = min(known, key=lambda other: (job.distance(other), -_time_s(job.epochs, known[other])))
    return Cost(_time_s(job.epochs, known[nearest]) * job.gpus, f"the nearest configuration of {of}")


def _time_s(epochs: float, took: Sequence[Took]) -> float:
    """What such a job takes for these epochs: the median over its runs."""
    return median(one.outside_s + epochs * one.epoch_s for one in took)

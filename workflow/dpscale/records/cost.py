"""What measuring cells costs: what records say of it, and an estimate for cells without one. Free of torch, and quick.

A cost is the time of a job from its start to its end, times the GPUs (workers) that it holds. It is estimated from jobs
that were measured: of the same configuration in this study, otherwise of the nearest one. What a cluster's queue takes,
and making the dataset, are in no estimate.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from math import inf, log2
from pathlib import Path
from statistics import median
from typing import Any

from dpscale.errors import RecordError
from dpscale.plan.cells import AnyCell, CollectivesCell, CommunicationCell, TimingCell, TrainingCell, VariantCell
from dpscale.plan.study import Study
from dpscale.records.files import Record, read_record
from dpscale.records.progress import CellState
from dpscale.schemas.settings import BUILT_IN, TimingSettings, hashable, variant_settings

SAME = "jobs of the same configuration in this study"
UNKNOWN = "nothing like it was measured"

_KINDS: Sequence[type[AnyCell]] = (TimingCell, VariantCell, CommunicationCell, CollectivesCell, TrainingCell)
# What must be equal for the cost of one cell to say something of another's.
_ALIKE = ("device", "network", "width", "epoch_images")
# What makes steps faster or slower, but leaves them of the same order. A record that does not name one has its default.
_PACE = {name: TimingSettings.default_of(name) for name in variant_settings()}


def gpu_seconds(cell: AnyCell, record: Record) -> float:
    """What a cell cost: from its start to its end, times the GPUs (workers) that it held."""
    return _seconds(record) * cell.gpus


def _seconds(record: Record) -> float:
    started, finished = (datetime.fromisoformat(record[name]) for name in ("started_at", "finished_at"))
    return (finished - started).total_seconds()


@dataclass(frozen=True)
class Job:
    """What decides how long a job takes: its kind, what it must share with another to be compared (`alike`), how many
    GPUs and images it has, its epochs, where it trains, and settings that change its `pace`."""

    kind: str
    alike: tuple[Any, ...]
    strategy: str
    gpus: int
    batch_per_gpu: int
    epochs: int
    pace: tuple[Any, ...]

    @classmethod
    def of(cls, kind: str, labels: Mapping[str, Any], settings: Mapping[str, Any]) -> "Job":
        """From what tells a cell from others, and its settings, as records have them."""
        return cls(
            kind,
            (*(settings.get(name) for name in _ALIKE), settings.get("workload", BUILT_IN)),
            labels.get("strategy", ""),
            labels["gpus"],
            labels.get("batch_per_gpu", 1),
            settings.get("epochs", 1),
            tuple(hashable(settings.get(name, default)) for name, default in _PACE.items()),
        )

    def distance(self, other: "Job") -> float:
        """How unlike another job is: doublings of GPUs and of the batch, where another strategy counts as four, and
        every setting that a variant may change as one."""
        if (self.kind, self.alike) != (other.kind, other.alike):
            return inf
        doublings = abs(log2(self.gpus / other.gpus)) + abs(log2(self.batch_per_gpu / other.batch_per_gpu))
        differing = sum(own != its for own, its in zip(self.pace, other.pace, strict=True))
        return float(doublings + 4 * (self.strategy != other.strategy) + differing)


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
        self._own: dict[Job, list[float]] = {}
        self._complete: dict[Job, list[float]] = {}
        for cell_state in states:
            if cell_state.record is not None:
                job, seconds = self._job(cell_state.cell), _seconds(cell_state.record)
                self._own.setdefault(job, []).append(seconds)
                if cell_state.record["status"] != "oom":
                    self._complete.setdefault(job, []).append(seconds)

    def of(self, cell: AnyCell) -> Cost:
        job = self._job(cell)
        if job not in self._found:
            self._found[job] = self._estimated(job)
        return self._found[job]

    def _job(self, cell: AnyCell) -> Job:
        return Job.of(cell.kind, cell.labels, cell.settings_under(self._study.settings).to_json())

    def _estimated(self, job: Job) -> Cost:
        if job in self._own:
            return Cost(median(self._own[job]) * job.gpus, SAME)
        if here := _comparable(job, self._complete):
            return _of_nearest(job, here, "the nearest configuration of this study")
        for folder, known in self._elsewhere.items():
            if there := _comparable(job, known):
                return _of_nearest(job, there, f"the nearest configuration of {folder}")
        return Cost(None, UNKNOWN)

    @cached_property
    def _elsewhere(self) -> dict[str, dict[Job, list[float]]]:
        """The jobs of every other recorded study, by its folder and the GPUs that it was measured on."""
        found: dict[str, dict[Job, list[float]]] = {}
        for folder in self._recorded:
            jobs: dict[Job, list[float]] = {}
            models: set[str] = set()
            for record in _records(folder):
                labels = {**record["settings"], **record["cell"]}
                jobs.setdefault(Job.of(record["kind"], labels, record["settings"]), []).append(_seconds(record))
                models.add(record["hardware"]["device_model"])
            if jobs:
                found[f"{folder} ({', '.join(sorted(models))})"] = jobs
        return found


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


def _comparable(job: Job, known: Mapping[Job, list[float]]) -> dict[Job, list[float]]:
    return {other: seconds for other, seconds in known.items() if job.distance(other) < inf}


def _of_nearest(job: Job, known: Mapping[Job, Sequence[float]], basis: str) -> Cost:
    """The time of the nearest job for as many epochs, on the GPUs of this one; of equally near ones the longest."""

    def time_s(other: Job) -> float:
        return median(known[other]) * job.epochs / other.epochs

    nearest = min(known, key=lambda other: (job.distance(other), -time_s(other)))
    return Cost(time_s(nearest) * job.gpus, basis)

"""What measuring cells costs: what records say of it, and an estimate for cells without one. Free of torch, and quick.

A cost is the time of a job from its start to its end, times the GPUs (workers) that it holds. It is estimated from jobs
that were measured: of the same configuration in this study, otherwise of the nearest one, for as many epochs. What a
cluster's queue takes, and making the dataset, are in no estimate.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache, cached_property
from math import ceil, inf, log2
from pathlib import Path
from statistics import median
from typing import Any

from msgspec.structs import asdict

from dpscale.errors import RecordError
from dpscale.plan.cells import AnyCell, CollectivesCell, CommunicationCell, TimingCell, TrainingCell, VariantCell
from dpscale.plan.study import Study
from dpscale.records.collect import CellState
from dpscale.records.files import read_record
from dpscale.records.kinds import RECORDS, Record, TimingRecord, TrainingRecord
from dpscale.records.versions import VERSIONS
from dpscale.schemas.settings import BUILT_IN, TimingSettings, hashable, variant_settings
from dpscale.strategies.known import BASELINE

SAME = "jobs of the same configuration in this study"
UNKNOWN = "nothing like it was measured"
# Stands for the largest batch that fits until it is found: that is nearest to the largest one that was measured.
UNKNOWN_BATCH = 2**20

# What must be equal for the cost of one cell to say something of another's.
_ALIKE = ("device", "network", "width", "epoch_images")
# What makes steps faster or slower, but leaves them of the same order. A record that does not name one has its default.
_PACE = {name: TimingSettings.default_of(name) for name in variant_settings()}


def gpu_seconds(cell: AnyCell, record: Record) -> float:
    """What a cell cost: from its start to its end, times the GPUs (workers) that it held."""
    return seconds_of(record) * cell.gpus


def seconds_of(record: Record) -> float:
    """From the start of a job to its end."""
    started, finished = (datetime.fromisoformat(at) for at in (record.started_at, record.finished_at))
    return (finished - started).total_seconds()


def duration(seconds: float) -> str:
    """`48 s`, `12 min` or `3 h 05 min`."""
    minutes = round(seconds / 60)
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02} min"


def _epochs(settings: Mapping[str, Any], strategy: str, gpus: int) -> float:
    """The epochs of a training, or of every scope of a timing cell; 1 for other kinds. One of the baseline on one of
    the GPUs takes up to `gpus` times as long as one of all, and counts as so many."""
    if "timed_epochs" not in settings:
        return float(settings.get("epochs", 1))
    scopes, warm, timed = len(settings["scopes"]), settings["warmup_epochs"], settings["timed_epochs"]
    has_baseline = strategy != BASELINE and settings.get("baseline") == "in_job"
    return float(scopes * (warm + timed) + has_baseline * gpus * (warm + scopes * 2 * ceil(timed / 2)))


@dataclass(frozen=True)
class Job:
    """What decides how long a job takes, beside its number of epochs: its kind, what it must share with another to be
    compared (`alike`), how many GPUs and images it has, and settings that change its `pace`."""

    kind: str
    alike: tuple[Any, ...]
    strategy: str
    gpus: int
    batch_per_gpu: int
    pace: tuple[Any, ...]

    @classmethod
    def of(cls, kind: str, labels: Mapping[str, Any], settings: Mapping[str, Any]) -> "Job":
        """From what tells a cell from others, and its settings, as records have them."""
        return cls(
            kind,
            (*(settings.get(name) for name in _ALIKE), settings.get("workload", BUILT_IN)),
            labels.get("strategy", ""),
            labels["gpus"],
            labels.get("batch_per_gpu", 1) or UNKNOWN_BATCH,
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


# Of the runs of a job: seconds outside its epochs, and of each of them.
Took = list[tuple[float, float]]


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
        self._found: dict[tuple[Job, float], Cost] = {}
        self._here = _jobs(state.record for state in states if state.record is not None)

    def of(self, cell: AnyCell) -> Cost:
        settings = cell.settings_under(self._study.settings).to_json()
        job = Job.of(cell.kind, cell.labels, settings)
        epochs = _epochs(settings, job.strategy, job.gpus)
        if (job, epochs) not in self._found:
            self._found[job, epochs] = self._estimated(job, epochs)
        return self._found[job, epochs]

    def _estimated(self, job: Job, epochs: float) -> Cost:
        """The time of the nearest job for as many epochs, on the GPUs of this one; of equally near ones the longest."""
        known = {"this study": self._here}
        if not any(job.distance(other) < inf for other in self._here):
            known = self._elsewhere
        near = [
            (job.distance(other), -median(outside_s + epochs * epoch_s for outside_s, epoch_s in took), of)
            for of, jobs in known.items()
            for other, took in jobs.items()
        ]
        distance, time_s, of = min(near, default=(inf, 0.0, ""))
        if distance == inf:
            return Cost(None, UNKNOWN)
        same = distance == 0 and of == "this study"
        return Cost(-time_s * job.gpus, SAME if same else f"the nearest configuration of {of}")

    @cached_property
    def _elsewhere(self) -> dict[str, dict[Job, Took]]:
        """The jobs of every other recorded study, by its folder and the GPUs that it was measured on."""
        return dict(map(_jobs_in, self._recorded))


def _jobs(records: Iterable[Record]) -> dict[Job, Took]:
    """What jobs took. Those that ran out of memory took less time than others, and those of an older version of the
    measurement had other epochs: they say nothing."""
    jobs: dict[Job, Took] = defaultdict(list)
    for record in records:
        if record.status == "oom" or record.measurement_version != VERSIONS[record.kind].current:
            continue
        settings = record.settings.to_json()
        job = Job.of(record.kind, {**settings, **asdict(record.cell)}, settings)
        whole_s = seconds_of(record)
        inside_s = _inside_epochs_s(record)
        jobs[job].append((whole_s - inside_s, inside_s / _epochs(settings, job.strategy, job.gpus)))
    return jobs


def _inside_epochs_s(record: Record) -> float:
    if isinstance(record, TimingRecord):
        return record.epochs_total_s or 0.0
    return seconds_of(record) if isinstance(record, TrainingRecord) else 0.0


@cache
def _jobs_in(folder: Path) -> tuple[str, dict[Job, Took]]:
    """The jobs of a folder of results, with its name and its GPUs."""
    records = list(_records(folder))
    models = {record.hardware.device_model for record in records}
    return f"{folder} ({', '.join(sorted(models))})", _jobs(records)


def _records(folder: Path) -> Iterator[Record]:
    """Every record of a folder of results that can be read."""
    kinds: tuple[type[AnyCell], ...] = (TimingCell, VariantCell, CommunicationCell, CollectivesCell, TrainingCell)
    for cell in kinds:
        for path in sorted((folder / Path(cell.path_pattern).parts[0]).rglob("*.json")):
            try:
                yield read_record(RECORDS[cell.kind], path)
            except RecordError:
                continue

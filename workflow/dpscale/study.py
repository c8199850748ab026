"""From a study file to the cells to measure, and what is not run and why. Pure, and free of torch."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

from dpscale.arms import Arm
from dpscale.errors import StudyError
from dpscale.schema import load_schema, read_yaml, violations, with_defaults

PARALLEL_STRATEGIES = ("dp", "ddp")

# Where a record (.json) and its log (.log) stand, relative to the study's results and to its logs.
CELL_PATH = "cells/{strategy}/gpus-{gpus}/batch-{batch}/run-{run}"
COMMUNICATION_PATH = "communication/{strategy}/gpus-{gpus}/batch-{batch}/run-{run}"
COLLECTIVES_PATH = "collectives/gpus-{gpus}/run-{run}"
TRAINING_PATH = "training/{arm}/seed-{seed}"

# Where other results stand, relative to the study's.
STUDY_FILE = "study.json"
DATASET_MANIFEST = "dataset/manifest.json"
NETWORK_FACTS = "network.json"
MISSING_TABLE = "tables/missing.csv"

# Where each setting of a cell, beside an arm's own, stands in the study file. The record, the command line and the
# study file name the same things; this is the one place that says so.
SETTING_PATHS: dict[str, tuple[str, ...]] = {
    "device": ("device",),
    "network": ("network", "name"),
    "width": ("network", "width"),
    "precision": ("precision",),
    "memory_format": ("memory_format",),
    "learning_rate": ("optimiser", "learning_rate"),
    "momentum": ("optimiser", "momentum"),
    "weight_decay": ("optimiser", "weight_decay"),
    "dataset_source": ("dataset", "source"),
    "epoch_images": ("dataset", "images"),
    "scopes": ("scopes",),
    "warmup_epochs": ("epochs", "warmup"),
    "timed_epochs": ("epochs", "timed"),
    "budget_s": ("epochs", "budget_s"),
    "loader_workers": ("dataset", "loader_workers"),
}


@dataclass(frozen=True)
class NetworkSettings:
    """What the network's own facts depend on. Every further kind of measurement depends on more of the study."""

    network: str
    width: int

    @classmethod
    def of(cls, study: Mapping[str, Any]) -> Self:
        """The settings in a complete (validated, defaults filled in) study mapping."""
        return cls.from_json({name: _at(study, cls.path_of(name)) for name in cls.names()})

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Lists become tuples. Raises KeyError where one of the settings is missing; others are left out."""
        return cls(**{name: _hashable(values[name]) for name in cls.names()})

    @classmethod
    def path_of(cls, name: str) -> tuple[str, ...]:
        """Where the setting `name` stands in the study file."""
        return SETTING_PATHS[name]

    @classmethod
    def names(cls) -> tuple[str, ...]:
        return tuple(field.name for field in fields(cls))

    def to_json(self) -> dict[str, Any]:
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    def same_network(self, values: Mapping[str, Any]) -> bool:
        """Whether other settings, as a record holds them, are of the same network."""
        return all(getattr(self, name) == values[name] for name in NetworkSettings.names())

    def contradiction(self) -> str | None:
        """What keeps these settings from being measured, if anything does."""
        if self.network == "torchvision_resnet18" and self.width != 64:
            return "torchvision_resnet18 has width 64 and no other"
        return None

    def options(self) -> str:
        """The settings as options of the commands of `dpscale`."""
        return " ".join(
            f"--{name.replace('_', '-')} {value}"
            for name in self.names()
            for value in _as_sequence(getattr(self, name))
        )


@dataclass(frozen=True)
class CollectivesSettings(NetworkSettings):
    """What collectives depend on: the messages are as large as the network makes them."""

    device: str


@dataclass(frozen=True)
class TrainingSettings(CollectivesSettings):
    """What a training step depends on, beside strategy, GPUs and batch."""

    precision: str
    memory_format: str
    learning_rate: float
    momentum: float
    weight_decay: float
    dataset_source: str
    epoch_images: int


@dataclass(frozen=True)
class ArmSettings(Arm, TrainingSettings):
    """Everything that can change what an arm of the study's training comes to, beside its seed."""

    @classmethod
    def of_arm(cls, study: Mapping[str, Any], arm: Mapping[str, Any]) -> Self:
        """The settings of an `arm` in a complete study mapping; what it leaves out is the study's."""
        of_study = TrainingSettings.of(study).to_json()
        # How often an arm is trained changes none of its numbers.
        arm = {key: value for key, value in arm.items() if key != "seeds"}
        without_momentum = {"momentum": 0} if arm["optimiser"] == "lamb" else {}
        return cls.from_json({**of_study, **without_momentum, **arm})

    @classmethod
    def path_of(cls, name: str) -> tuple[str, ...]:
        of_arm = {field.name for field in fields(Arm)}
        return ("training", "arms", "<arm>", name) if name in of_arm else super().path_of(name)

    @property
    def configuration(self) -> "Configuration":
        return Configuration(self.strategy, self.gpus, self.batch_per_gpu)

    def contradiction(self) -> str | None:
        problems = (f"{key}: {problem}" for key, problem in self.contradictions(self.epoch_images, self.momentum))
        return super().contradiction() or next(problems, None)


@dataclass(frozen=True)
class Settings(TrainingSettings):
    """Everything the study file sets that can change a timing cell's number, beside the cell's own coordinates."""

    scopes: tuple[str, ...]
    warmup_epochs: int
    timed_epochs: int
    budget_s: float
    loader_workers: int


@dataclass(frozen=True, order=True)
class Configuration:
    """A point of the grid: what is measured, whatever the number of repeats."""

    strategy: str
    gpus: int
    batch_per_gpu: int

    @property
    def global_batch(self) -> int:
        """Images per step, over all GPUs."""
        return self.gpus * self.batch_per_gpu


class StudyCell:
    """A job under settings of the study: of which `kind` its record is, which `rule` makes it, under which `settings`,
    and whether it needs the study's images."""

    kind: ClassVar[str]
    rule: ClassVar[str]
    settings: ClassVar[type[NetworkSettings]]
    needs_images: ClassVar[bool] = True

    @property
    def coordinates(self) -> dict[str, Any]:
        """What tells this cell from the others of its kind, as its record names it."""
        raise NotImplementedError

    @property
    def labels(self) -> dict[str, Any]:
        """What tables say of this cell."""
        return self.coordinates

    def settings_in(self, study: Mapping[str, Any]) -> dict[str, Any]:
        """What its record must have been measured under, of the `study`'s settings."""
        return {name: study[name] for name in self.settings.names()}


@dataclass(frozen=True, order=True)
class Cell(StudyCell):
    """One timing job: a configuration and the number of its repeat, from 1."""

    kind: ClassVar[str] = "timing"
    rule: ClassVar[str] = "time"
    settings: ClassVar[type[NetworkSettings]] = Settings
    path_pattern: ClassVar[str] = CELL_PATH

    configuration: Configuration
    run: int

    @property
    def gpus(self) -> int:
        return self.configuration.gpus

    @property
    def seed(self) -> int:
        """What its weights are drawn with."""
        return self.run

    @property
    def coordinates(self) -> dict[str, Any]:
        """What tells this cell from the others of its kind, as its record names it."""
        return {**asdict(self.configuration), "run": self.run}

    @property
    def path(self) -> str:
        """Where the cell's record stands, relative to the study's results."""
        at = self.configuration
        pattern = self.path_pattern
        return f"{pattern.format(strategy=at.strategy, gpus=at.gpus, batch=at.batch_per_gpu, run=self.run)}.json"


class CommunicationCell(Cell):
    """One job that takes steps of a configuration apart: ablation, profiler and DDP's own logger."""

    kind = "communication"
    rule = "communication"
    settings = TrainingSettings
    path_pattern = COMMUNICATION_PATH


@dataclass(frozen=True, order=True)
class CollectivesCell(StudyCell):
    """One job that times collectives alone on a number of GPUs."""

    kind: ClassVar[str] = "collectives"
    rule: ClassVar[str] = "collectives"
    settings: ClassVar[type[NetworkSettings]] = CollectivesSettings
    needs_images: ClassVar[bool] = False

    gpus: int
    run: int

    @property
    def coordinates(self) -> dict[str, Any]:
        """What tells this cell from the others of its kind, as its record names it."""
        return {"gpus": self.gpus, "run": self.run}

    @property
    def path(self) -> str:
        """Where the cell's record stands, relative to the study's results."""
        return f"{COLLECTIVES_PATH.format(gpus=self.gpus, run=self.run)}.json"


@dataclass(frozen=True)
class TrainingCell:
    """One job that trains an arm with one seed, from 1. Its settings are the arm's own."""

    kind: ClassVar[str] = "training"
    rule: ClassVar[str] = "train"
    needs_images: ClassVar[bool] = True

    arm: str
    seed: int
    settings: ArmSettings

    @property
    def configuration(self) -> Configuration:
        return self.settings.configuration

    @property
    def gpus(self) -> int:
        return self.settings.gpus

    @property
    def coordinates(self) -> dict[str, Any]:
        """What tells this cell from the others of its kind, as its record names it."""
        return {"arm": self.arm, "seed": self.seed}

    @property
    def labels(self) -> dict[str, Any]:
        """What tables say of this cell."""
        return {**self.coordinates, **asdict(self.configuration)}

    def settings_in(self, study: Mapping[str, Any]) -> dict[str, Any]:
        """What its record must have been measured under: the arm holds what it takes of the `study`."""
        return self.settings.to_json()

    @property
    def path(self) -> str:
        """Where the cell's record stands, relative to the study's results."""
        return f"{TRAINING_PATH.format(arm=self.arm, seed=self.seed)}.json"


AnyCell = Cell | CommunicationCell | CollectivesCell | TrainingCell


@dataclass(frozen=True)
class NotRun:
    """A configuration of the grid that is not measured. `state` is one word, `reason` a sentence."""

    configuration: Configuration
    state: str
    reason: str


@dataclass(frozen=True)
class ArmNotRun:
    """An arm that is not trained. `state` is one word, `reason` a sentence."""

    arm: str
    state: str
    reason: str


@dataclass(frozen=True)
class Plan:
    """The cells to measure, run 1 of every configuration first, and what is not run and why."""

    cells: tuple[Cell, ...]
    not_run: tuple[NotRun, ...]
    communication: tuple[CommunicationCell, ...] = ()
    collectives: tuple[CollectivesCell, ...] = ()
    training: tuple[TrainingCell, ...] = ()
    arms_not_run: tuple[ArmNotRun, ...] = ()

    @property
    def all_cells(self) -> tuple[AnyCell, ...]:
        return (*self.cells, *self.communication, *self.collectives, *self.training)

    @cached_property
    def configurations(self) -> tuple[Configuration, ...]:
        """Every configuration that is to be measured, once, in order."""
        return tuple(sorted({cell.configuration for cell in self.cells}))


class Study:
    """A validated study with every default filled in.

    Raises StudyError when `values` violates the schema or contradicts itself; `source` names the file in it.
    """

    def __init__(self, values: Mapping[str, Any], source: str = "study"):
        problems = violations("study", values)
        if problems:
            raise StudyError(f"{source}: " + "; ".join(problems) + ". See config/README.md for every key.")
        self.values = with_defaults(load_schema("study"), values)
        self.source = source
        self.settings = Settings.of(self.values)
        _refuse_contradictions(self)

    @classmethod
    def read(cls, path: Path) -> "Study":
        """The study in a YAML or JSON file. Raises StudyError, also where the file cannot be read."""
        return cls(read_yaml(path, StudyError), source=str(path))

    def __getitem__(self, key: str) -> Any:
        return self.values[key]

    @property
    def name(self) -> str:
        return str(self.values["study"])

    @property
    def results(self) -> Path:
        """The folder of the study's results, relative to the project's."""
        return Path("results", self.name)

    @property
    def page(self) -> Path:
        """The rendered page, relative to the project's folder."""
        return Path("report", f"{self.name}.html")

    @property
    def epoch_images(self) -> int:
        """Images in an epoch, D."""
        return int(self.values["dataset"]["images"])

    @cached_property
    def arms(self) -> dict[str, ArmSettings]:
        """What every arm of the training trains with, by name, in the order of the study file."""
        return {name: ArmSettings.of_arm(self.values, arm) for name, arm in self.values["training"]["arms"].items()}

    def on_any_machine(self) -> "Study":
        """The same study without the limit of this machine's GPUs."""
        return Study({**self.values, "gpus_available": None}, self.source)

    def to_json(self) -> str:
        """The complete study as one line of JSON, with sorted keys."""
        return json.dumps(self.values, sort_keys=True)


def plan(study: Study) -> Plan:
    """The cells of a study, and the configurations that are not run and why.

    The weak series (batch per GPU fixed) and the strong ones (global batch fixed) are two ways to read the same
    points: the plan is their union.
    """
    not_run: list[NotRun] = []
    runnable: list[Configuration] = []
    for configuration in sorted(_configurations(study)):
        obstacle = _obstacle(study, configuration)
        if obstacle:
            not_run.append(NotRun(configuration, *obstacle))
        else:
            runnable.append(configuration)
    runs = range(1, study["runs"] + 1)
    cells = tuple(Cell(configuration, run) for run in runs for configuration in runnable)
    parallel = [configuration for configuration in runnable if configuration.gpus > 1]
    repeats = range(1, study["communication"]["runs"] + 1)
    arm_obstacles = {name: _arm_obstacle(study, settings) for name, settings in study.arms.items()}
    seeds = {
        name: arm.get("seeds", study["training"]["seeds"])
        for name, arm in study["training"]["arms"].items()
        if not arm_obstacles[name]
    }
    return Plan(
        cells,
        tuple(not_run),
        tuple(CommunicationCell(configuration, run) for run in repeats for configuration in parallel),
        tuple(CollectivesCell(gpus, run) for run in repeats for gpus in sorted({point.gpus for point in parallel})),
        tuple(
            TrainingCell(name, seed, study.arms[name])
            for seed in range(1, max(seeds.values(), default=0) + 1)
            for name in seeds
            if seed <= seeds[name]
        ),
        tuple(ArmNotRun(name, *obstacle) for name, obstacle in arm_obstacles.items() if obstacle),
    )


def runnable_plan(study: Study) -> Plan:
    """The plan of a study of which something can be measured here. Raises StudyError where nothing can."""
    planned = plan(study)
    if not planned.cells:
        raise StudyError(f"{study.source}: nothing can be run here: {_summary(planned.not_run)}")
    return planned


def batches_per_gpu(batches: Sequence[int] | Mapping[str, Any], epoch_images: int) -> list[int]:
    """The batches of a list or of a geometric series, ascending.

    The series includes the first batch that is larger than the dataset of `epoch_images` images, so that it is
    listed as capped: where memory suffices, that is what ends it.
    """
    if not isinstance(batches, Mapping):
        return sorted(batches)
    series = [batches["start"]]
    while series[-1] <= epoch_images:
        series.append(series[-1] * batches["factor"])
    return series


def _configurations(study: Study) -> set[Configuration]:
    weak = [
        (gpus, batch) for gpus in study["gpus"] for batch in batches_per_gpu(study["batch_per_gpu"], study.epoch_images)
    ]
    strong = [
        (gpus, global_batch // gpus) for gpus in study["gpus"] for global_batch in study["strong_scaling_global_batch"]
    ]
    return {
        Configuration(strategy, gpus, batch) for gpus, batch in weak + strong for strategy in _strategies(study, gpus)
    }


def _strategies(study: Study, gpus: int) -> Iterator[str]:
    """One GPU is the plain module; DataParallel and DDP start at two."""
    for strategy in study["strategies"]:
        if (strategy in PARALLEL_STRATEGIES) == (gpus > 1):
            yield strategy


def _obstacle(study: Study, configuration: Configuration) -> tuple[str, str] | None:
    if study["device"] == "cpu" and configuration.strategy == "dp":
        return "not available", "DataParallel needs CUDA GPUs; it is not emulated on a CPU"
    if configuration.global_batch > study.epoch_images:
        return "capped", f"global batch {configuration.global_batch} > {study.epoch_images} images: no full step"
    available = study["gpus_available"]
    if available is not None and study["device"] == "cuda" and configuration.gpus > available:
        return "not run", f"needs {configuration.gpus} GPUs, {available} here"
    return None


def _arm_obstacle(study: Study, arm: ArmSettings) -> tuple[str, str] | None:
    if study["device"] == "cpu" and arm.sync_batch_norm:
        return "not available", "SyncBatchNorm needs CUDA GPUs; it is not emulated on a CPU"
    return _obstacle(study, arm.configuration)


def _refuse_contradictions(study: Study) -> None:
    for gpus in study["gpus"]:
        if not any(_strategies(study, gpus)):
            needed = "single" if gpus == 1 else "dp or ddp"
            raise StudyError(f"{study.source}: gpus: {gpus} needs the strategy {needed}, which strategies lacks")
    for strategy in study["strategies"]:
        if not any(strategy in _strategies(study, gpus) for gpus in study["gpus"]):
            needed = "1" if strategy == "single" else "a number above 1"
            raise StudyError(f"{study.source}: strategies: {strategy} needs {needed} in gpus")
    for global_batch in study["strong_scaling_global_batch"]:
        for gpus in study["gpus"]:
            if global_batch % gpus:
                raise StudyError(
                    f"{study.source}: strong_scaling_global_batch: {global_batch} does not divide by {gpus} GPUs"
                )
    if problem := study.settings.contradiction():
        raise StudyError(f"{study.source}: network.width: {problem}")
    for name, arm in study.arms.items():
        if problem := arm.contradiction():
            raise StudyError(f"{study.source}: training.arms.{name}.{problem}")
    baseline = study["training"]["baseline"]
    if baseline is not None and baseline not in study.arms:
        raise StudyError(f"{study.source}: training.baseline: there is no arm {baseline}")


def _summary(not_run: Sequence[NotRun]) -> str:
    reasons = sorted({item.reason for item in not_run})
    shown = "; ".join(reasons[:3])
    return shown if len(reasons) <= 3 else f"{shown}; and {len(reasons) - 3} more reasons"


def _at(values: Mapping[str, Any], path: Sequence[str]) -> Any:
    for key in path:
        values = values[key]
    return values


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _as_sequence(value: Any) -> Sequence[Any]:
    return value if isinstance(value, tuple) else (value,)

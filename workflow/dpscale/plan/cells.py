"""The cells of a study: a job and its record each, and where the record stands. Pure, and free of torch."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cache
from typing import ClassVar

from dpscale.schemas.settings import (
    SETTINGS,
    NetworkSettings,
    StepSettings,
    TimingSettings,
    TrainingSettings,
    WholeStepSettings,
    sample_of,
)
from dpscale.strategies.known import strategy

# Why something is not measured: a state, one word, and a reason, a sentence.
Obstacle = tuple[str, str]


@dataclass(frozen=True, order=True)
class Configuration:
    """A point of the grid: what is measured, whatever the number of repeats. Its GPUs fill `nodes` evenly."""

    strategy: str
    gpus: int
    batch_per_gpu: int
    # Not in its name: random numbers are drawn by that, and older records have no nodes.
    nodes: int = field(default=1, repr=False)

    @property
    def global_batch(self) -> int:
        """Images per step, over all GPUs."""
        return self.gpus * self.batch_per_gpu

    @property
    def gpus_per_node(self) -> int:
        return self.gpus // self.nodes

    @property
    def coordinates(self) -> dict[str, str | int]:
        """The point as records name it: those on one node name no nodes."""
        point: dict[str, str | int] = {
            "strategy": self.strategy,
            "gpus": self.gpus,
            "batch_per_gpu": self.batch_per_gpu,
        }
        return {**point, **_nodes_if_several(self.nodes)}

    @classmethod
    def of_arm(cls, arm: TrainingSettings, nodes: int = 1) -> "Configuration":
        """Return the point that an arm of the training trains."""
        return cls(arm.strategy, arm.gpus, arm.batch_per_gpu, nodes)

    def obstacle(self, settings: StepSettings) -> Obstacle | None:
        """Return why it can nowhere be measured under these settings; None where it can.

        Raises StrategyError where the strategy is not known.
        """
        row = strategy(self.strategy)
        if not row.allows(self.gpus):
            return "not available", f"{self.strategy} does not go with {self.gpus} GPUs: it has {row.gpus_allowed}"
        if row.needs_cuda and settings.device == "cpu":
            return "not available", f"{row.label} needs CUDA GPUs; it is not emulated on a CPU"
        if self.nodes > 1 and not row.has_process_per_gpu:
            return "not available", f"{row.label} needs all its GPUs on one node: one process drives them"
        if self.nodes > 1 and isinstance(settings, TimingSettings) and settings.ddp_reducer == "copies":
            return "not available", "copies reach the GPUs of one node: use torch's reducer"
        if isinstance(settings, WholeStepSettings):
            if self.batch_per_gpu % settings.accumulate:
                return "not available", f"{self.batch_per_gpu} does not divide into {settings.accumulate} micro-batches"
            if row.own_settings == "fsdp" and self.gpus % settings.fsdp_replicas:
                return "not available", f"{self.gpus} GPUs do not divide into {settings.fsdp_replicas} replicas"
        if self.gpus % self.nodes:
            return "not available", f"{self.gpus} GPUs do not fill {self.nodes} nodes evenly"
        for key, why in row.not_with.items():
            if not settings.is_default(key):
                return "not available", f"{key} does not go with {row.label}: {why}"
        if self.global_batch > settings.epoch_images:
            samples = f"{settings.epoch_images} {sample_of(settings.workload)}s"
            return "capped", f"global batch {self.global_batch} > {samples}: no full step"
        return None


def _nodes_if_several(nodes: int) -> dict[str, int]:
    """Return the key of a record that names its nodes. A record without it is of one node."""
    return {"nodes": nodes} if nodes > 1 else {}


class Cell(ABC):
    """A job of a study: the `kind` of its record, the `rule` that makes it, where the record (.json) and its log (.log)
    stand, relative to the study's results and to its logs, and whether the job needs the study's images."""

    kind: ClassVar[str]
    rule: ClassVar[str]
    path_pattern: ClassVar[str]
    needs_images: ClassVar[bool] = True

    @property
    @abstractmethod
    def coordinates(self) -> dict[str, str | int]:
        """The values that no other cell of its kind has, as its record and its path name them."""

    @property
    def labels(self) -> dict[str, str | int]:
        """The columns of a table that name this cell."""
        return self.coordinates

    @property
    def path(self) -> str:
        """The place of the cell's record, relative to the study's results."""
        return f"{self.path_pattern.format(**self.coordinates)}.json"

    def settings_under(self, study: TimingSettings) -> NetworkSettings:
        """Return the settings that its record must have in a study with these settings."""
        return _settings_of(self.kind, study)


@cache
def _settings_of(kind: str, study: TimingSettings) -> NetworkSettings:
    """Return the settings of all cells of a kind, of which a study may have thousands."""
    return SETTINGS[kind].from_json(study.to_json())


@dataclass(frozen=True, order=True)
class StepCell(Cell):
    """A job that takes training steps of a configuration, and the number of its repeat, from 1."""

    configuration: Configuration
    run: int

    @property
    def gpus(self) -> int:
        return self.configuration.gpus

    @property
    def nodes(self) -> int:
        return self.configuration.nodes

    @property
    def seed(self) -> int:
        """The seed of its weights."""
        return self.run

    @property
    def coordinates(self) -> dict[str, str | int]:
        return {**self.configuration.coordinates, "run": self.run}


class TimingCell(StepCell):
    """One job that times epochs of a configuration."""

    kind = "timing"
    rule = "time"
    path_pattern = "cells/{strategy}/gpus-{gpus}/batch-{batch_per_gpu}/run-{run}"


@dataclass(frozen=True)
class VariantCell(StepCell):
    """One job that times epochs of a configuration under the settings of a variant."""

    kind = "timing"
    rule = "time_variant"
    path_pattern = "variants/{variant}/{strategy}/gpus-{gpus}/batch-{batch_per_gpu}/run-{run}"

    variant: str
    settings: TimingSettings

    @property
    def coordinates(self) -> dict[str, str | int]:
        return {**super().coordinates, "variant": self.variant}

    def settings_under(self, study: TimingSettings) -> TimingSettings:
        """Return the variant's settings, which hold what it takes of the study."""
        return self.settings


class CommunicationCell(StepCell):
    """One job that takes steps of a configuration apart: a ladder of its variants, and the profiler."""

    kind = "communication"
    rule = "communication"
    path_pattern = "communication/{strategy}/gpus-{gpus}/batch-{batch_per_gpu}/run-{run}"


@dataclass(frozen=True, order=True)
class CollectivesCell(Cell):
    """One job that times collectives alone on a number of GPUs."""

    kind = "collectives"
    rule = "collectives"
    path_pattern = "collectives/gpus-{gpus}/run-{run}"
    needs_images = False

    gpus: int
    run: int
    nodes: int = 1

    @property
    def coordinates(self) -> dict[str, str | int]:
        return {"gpus": self.gpus, "run": self.run, **_nodes_if_several(self.nodes)}


@dataclass(frozen=True)
class TrainingCell(Cell):
    """One job that trains an arm with one seed, from 1. Its settings are the arm's own."""

    kind = "training"
    rule = "train"
    path_pattern = "training/{arm}/seed-{seed}"

    arm: str
    seed: int
    settings: TrainingSettings
    nodes: int = 1

    @property
    def configuration(self) -> Configuration:
        return Configuration.of_arm(self.settings, self.nodes)

    @property
    def gpus(self) -> int:
        return self.settings.gpus

    @property
    def coordinates(self) -> dict[str, str | int]:
        return {"arm": self.arm, "seed": self.seed, **_nodes_if_several(self.nodes)}

    @property
    def labels(self) -> dict[str, str | int]:
        return {**self.coordinates, **self.configuration.coordinates}

    def settings_under(self, study: TimingSettings) -> TrainingSettings:
        """Return the arm's settings, which hold what it takes of the study."""
        return self.settings


AnyCell = StepCell | CollectivesCell | TrainingCell

"""From a study to the cells to measure, and what is not run and why. Pure, and free of torch."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dpscale.errors import StudyError
from dpscale.plan.cells import (
    AnyCell,
    CollectivesCell,
    CommunicationCell,
    Configuration,
    TimingCell,
    TrainingCell,
    VariantCell,
)
from dpscale.plan.study import Study
from dpscale.schemas.settings import StepSettings, TrainingSettings
from dpscale.strategies.known import strategy


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

    timing: tuple[TimingCell, ...]
    not_run: tuple[NotRun, ...]
    communication: tuple[CommunicationCell, ...] = ()
    collectives: tuple[CollectivesCell, ...] = ()
    variants: tuple[VariantCell, ...] = ()
    training: tuple[TrainingCell, ...] = ()
    arms_not_run: tuple[ArmNotRun, ...] = ()

    @property
    def all_cells(self) -> tuple[AnyCell, ...]:
        return (*self.timing, *self.communication, *self.collectives, *self.variants, *self.training)

    @cached_property
    def configurations(self) -> tuple[Configuration, ...]:
        """Every configuration that is to be measured, once, in order."""
        return tuple(sorted({cell.configuration for cell in self.timing}))


def plan(study: Study) -> Plan:
    """The cells of a study, and the configurations that are not run and why.

    The weak series (batch per GPU fixed) and the strong ones (global batch fixed) are two ways to read the same
    points: the plan is their union.
    """
    not_run: list[NotRun] = []
    runnable: list[Configuration] = []
    for configuration in sorted(_configurations(study)):
        obstacle = _obstacle(study, configuration, study.settings)
        if obstacle:
            not_run.append(NotRun(configuration, *obstacle))
        else:
            runnable.append(configuration)
    runs = range(1, study["runs"] + 1)
    cells = tuple(TimingCell(configuration, run) for run in runs for configuration in runnable)
    parallel = [configuration for configuration in runnable if configuration.gpus > 1]
    repeats = range(1, study["communication"]["runs"] + 1)
    taken_apart = [point for point in parallel if _is_taken_apart(study, point)]
    arm_obstacles = {name: _arm_obstacle(study, settings) for name, settings in study.arms.items()}
    seeds = {
        name: arm.get("seeds", study["training"]["seeds"])
        for name, arm in study["training"]["arms"].items()
        if not arm_obstacles[name]
    }
    return Plan(
        cells,
        tuple(not_run),
        tuple(CommunicationCell(configuration, run) for run in repeats for configuration in taken_apart),
        tuple(
            CollectivesCell(gpus, run, study.nodes_of(gpus))
            for run in repeats
            for gpus in sorted({point.gpus for point in parallel})
        ),
        tuple(_variant_cells(study)),
        tuple(
            TrainingCell(name, seed, study.arms[name], study.nodes_of(study.arms[name].gpus))
            for seed in range(1, max(seeds.values(), default=0) + 1)
            for name in seeds
            if seed <= seeds[name]
        ),
        tuple(ArmNotRun(name, *obstacle) for name, obstacle in arm_obstacles.items() if obstacle),
    )


def _is_taken_apart(study: Study, configuration: Configuration) -> bool:
    """Whether steps of this configuration are measured with and without parts of their communication."""
    batches = study["communication"].get("batch_per_gpu")
    return batches is None or configuration.batch_per_gpu in batches


def _variant_cells(study: Study) -> Iterator[VariantCell]:
    """Run 1 of every variant before run 2 of any."""
    cells = [
        VariantCell(cell.configuration, cell.run, name, variant.settings)
        for name, variant in study.variants.items()
        for cell in plan(variant).timing
    ]
    yield from sorted(cells, key=lambda cell: cell.run)


def runnable_plan(study: Study) -> Plan:
    """The plan of a study of which something can be measured here. Raises StudyError where nothing can."""
    planned = plan(study)
    if not planned.timing:
        # What this machine lacks says more than that a batch is larger than the dataset.
        by_state = sorted(planned.not_run, key=lambda item: (item.state == "capped", item.configuration.gpus))
        reasons = list(dict.fromkeys(item.reason for item in by_state))[:3]
        raise StudyError(f"{study.source}: nothing can be run here: {'; '.join(reasons)}")
    return planned


def answer_batch(study: Study) -> int:
    """The batch per GPU that the answer is about, known before anything is measured."""
    smallest = batches_per_gpu(study["batch_per_gpu"], study.epoch_images)[:2]
    return int(study["answer"]["batch_per_gpu"] or smallest[-1])


def batches_per_gpu(batches: Sequence[Any] | Mapping[str, Any], epoch_images: int) -> list[int]:
    """The batches of a list, or of a geometric series, ascending.

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
    rows = [(name, gpus) for name in study["strategies"] for gpus in study["gpus"] if strategy(name).allows(gpus)]
    return {
        Configuration(name, gpus, batch, study.nodes_of(gpus))
        for name, gpus in rows
        for of_gpus, batch in weak + strong
        if of_gpus == gpus
    }


def _obstacle(study: Study, configuration: Configuration, settings: StepSettings) -> tuple[str, str] | None:
    """Why a configuration is not measured here: a state and a reason; None where it is."""
    if nowhere := configuration.obstacle(settings):
        return nowhere
    available = study["gpus_available"]
    if available is not None and settings.device == "cuda" and configuration.gpus > available:
        needed = "1 GPU" if configuration.gpus == 1 else f"{configuration.gpus} GPUs"
        return "not run", f"needs {needed}, {available} here"
    if study["nodes_available"] is not None and configuration.nodes > study["nodes_available"]:
        return "not run", f"needs {configuration.nodes} nodes, {study['nodes_available']} here"
    return None


def _arm_obstacle(study: Study, arm: TrainingSettings) -> tuple[str, str] | None:
    if arm.device == "cpu" and arm.sync_batch_norm:
        return "not available", "SyncBatchNorm needs CUDA GPUs; it is not emulated on a CPU"
    return _obstacle(study, Configuration.of_arm(arm, study.nodes_of(arm.gpus)), arm)


def expected_cells(study: Study) -> tuple[AnyCell, ...]:
    """The cells whose records count: also those that this machine has too few GPUs for, measured elsewhere."""
    return plan(study.on_any_machine()).all_cells

"""From a study to the cells to measure, and what is not run and why. Pure, and free of torch."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from dpscale.errors import StudyError
from dpscale.plan.cells import (
    AnyCell,
    CollectivesCell,
    CommunicationCell,
    Configuration,
    Obstacle,
    TimingCell,
    TrainingCell,
    VariantCell,
)
from dpscale.plan.study import Study
from dpscale.schemas.settings import JsonValues, StepSettings, TrainingSettings
from dpscale.strategies.known import strategy

# Cells of a study at most. Snakemake needs minutes for so many, and each of them hours.
MOST_CELLS = 20_000

C = TypeVar("C", VariantCell, TrainingCell)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The cells to measure, run 1 of every configuration first, and what is not run and why."""

    timing: tuple[TimingCell, ...]
    communication: tuple[CommunicationCell, ...]
    collectives: tuple[CollectivesCell, ...]
    variants: tuple[VariantCell, ...]
    training: tuple[TrainingCell, ...]
    not_run: Mapping[Configuration, Obstacle]
    arms_not_run: Mapping[str, Obstacle]

    @property
    def all_cells(self) -> tuple[AnyCell, ...]:
        return (*self.timing, *self.communication, *self.collectives, *self.variants, *self.training)

    @cached_property
    def configurations(self) -> tuple[Configuration, ...]:
        """Every configuration that is to be measured, once, in order."""
        return tuple(sorted({cell.configuration for cell in self.timing}))


def plan(study: Study) -> Plan:
    """Return the cells of a study, and the configurations and arms that are not run and why.

    The weak series (batch per GPU fixed) and the strong ones (global batch fixed) are two ways to read the same
    points: the plan is their union. Raises StudyError where it has more cells than MOST_CELLS.
    """
    points = _configurations(study)
    _limit_cells(study, points)
    obstacles = {point: _obstacle(study, point, study.settings) for point in points}
    runnable = [point for point, obstacle in obstacles.items() if not obstacle]
    parallel = [point for point in runnable if point.gpus > 1]
    batches_apart = study["communication"].get("batch_per_gpu")
    taken_apart = [point for point in parallel if batches_apart is None or point.batch_per_gpu in batches_apart]
    repeats = range(1, study["communication"]["runs"] + 1)
    training = study["training"]
    arm_obstacles = {name: _arm_obstacle(study, arm) for name, arm in study.arms.items()}
    return Plan(
        timing=tuple(TimingCell(point, run) for run in range(1, study["runs"] + 1) for point in runnable),
        communication=tuple(CommunicationCell(point, run) for run in repeats for point in taken_apart),
        collectives=tuple(
            CollectivesCell(gpus, run, study.nodes_of(gpus))
            for run in repeats
            for gpus in sorted({point.gpus for point in parallel})
        ),
        variants=_in_turns(
            VariantCell(cell.configuration, cell.run, name, variant.settings)
            for name, variant in study.variants.items()
            for cell in plan(variant).timing
        ),
        training=_in_turns(
            TrainingCell(name, seed, arm, study.nodes_of(arm.gpus))
            for name, arm in study.arms.items()
            if not arm_obstacles[name]
            for seed in range(1, training["arms"][name].get("seeds", training["seeds"]) + 1)
        ),
        not_run={point: obstacle for point, obstacle in obstacles.items() if obstacle},
        arms_not_run={name: obstacle for name, obstacle in arm_obstacles.items() if obstacle},
    )


def _limit_cells(study: Study, points: Sequence[Configuration]) -> None:
    """Raise StudyError where a study has too many cells, those that are not run here among them."""
    training = study["training"]
    cells = len(points) * (study["runs"] + study["communication"]["runs"])
    cells += sum(arm.get("seeds", training["seeds"]) for arm in training["arms"].values())
    for variant in study.variants.values():
        cells += len(_configurations(variant)) * variant["runs"] if cells <= MOST_CELLS else 0
    if cells > MOST_CELLS:
        raise StudyError(
            f"{study.source}: its grid has {cells:,} cells or more, and at most {MOST_CELLS:,} are planned: name fewer "
            "runs, seeds, batches or numbers of GPUs"
        )


def _in_turns(cells: Iterable[C]) -> tuple[C, ...]:
    """Return run (or seed) 1 of everything before run 2 of anything."""
    return tuple(sorted(cells, key=lambda cell: cell.seed))


def runnable_plan(study: Study) -> Plan:
    """Return the plan of a study of which something can be measured here. Raises StudyError where nothing can."""
    planned = plan(study)
    if not planned.timing:
        smallest_first = sorted(planned.not_run, key=lambda point: point.gpus)
        reasons = list(dict.fromkeys(planned.not_run[point][1] for point in smallest_first))[:3]
        raise StudyError(f"{study.source}: nothing can be run here: {'; '.join(reasons)}")
    return planned


def expected_cells(study: Study) -> tuple[AnyCell, ...]:
    """Return the cells whose records count: also those that this machine has too few GPUs for, measured elsewhere."""
    return plan(study.on_any_machine()).all_cells


def answer_batch(study: Study) -> int:
    """Return the batch per GPU that the answer is about, known before anything is measured."""
    smallest = batches_per_gpu(study["batch_per_gpu"], study.epoch_images)[:2]
    return int(study["answer"]["batch_per_gpu"] or smallest[-1])


def batches_per_gpu(batches: Sequence[int] | JsonValues, epoch_images: int) -> list[int]:
    """Return the batches of a list, or of a geometric series, ascending.

    The series includes the first batch that is larger than the dataset of `epoch_images` images, so that it is
    listed as capped: where memory suffices, that is what ends it.
    """
    if not isinstance(batches, Mapping):
        return sorted(batches)
    series = [batches["start"]]
    while series[-1] <= epoch_images:
        series.append(series[-1] * batches["factor"])
    return series


def _configurations(study: Study) -> list[Configuration]:
    weak = batches_per_gpu(study["batch_per_gpu"], study.epoch_images)
    points = {
        Configuration(name, gpus, batch, study.nodes_of(gpus))
        for name in study["strategies"]
        for gpus in study["gpus"]
        for batch in (*weak, *(global_batch // gpus for global_batch in study["strong_scaling_global_batch"]))
        if strategy(name).allows(gpus)
    }
    return sorted(points)


def _obstacle(study: Study, configuration: Configuration, settings: StepSettings) -> Obstacle | None:
    """Return why a configuration is not measured here; None where it is."""
    if obstacle := configuration.obstacle(settings):
        return obstacle
    available = study["gpus_available"]
    if available is not None and settings.device == "cuda" and configuration.gpus > available:
        needed = "1 GPU" if configuration.gpus == 1 else f"{configuration.gpus} GPUs"
        return "not run", f"needs {needed}, {available} here"
    if study["nodes_available"] is not None and configuration.nodes > study["nodes_available"]:
        return "not run", f"needs {configuration.nodes} nodes, {study['nodes_available']} here"
    return None


def _arm_obstacle(study: Study, arm: TrainingSettings) -> Obstacle | None:
    if arm.device == "cpu" and arm.sync_batch_norm:
        return "not available", "SyncBatchNorm needs CUDA GPUs; it is not emulated on a CPU"
    return _obstacle(study, Configuration.of_arm(arm, study.nodes_of(arm.gpus)), arm)

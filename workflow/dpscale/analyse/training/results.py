"""What was measured of every arm, and how the seeds of two arms are compared."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dpscale.analyse.timing.points import point_fields
from dpscale.formulas.figure import Figure
from dpscale.formulas.statistics import paired_difference, welch_difference
from dpscale.plan.cells import Configuration
from dpscale.plan.study import Study
from dpscale.records.kinds import TrainingRecord
from dpscale.schemas.settings import TrainingSettings, arm_schemas, variant_settings
from dpscale.tables.row import PointFields

# Settings that change how fast an arm trains and, but for rounding, nothing that it learns.
OF_SPEED = tuple(sorted(set(variant_settings()) & set(TrainingSettings.names())))
# Habits that every training should have. An arm without one shows what that does: no remedy.
CUSTOMARY = ("set_epoch",)
# Settings that say what an arm is, before any remedy.
PLACE = ("strategy", "gpus", "batch_per_gpu", "epochs", "validation_images", *OF_SPEED)
# Arms that have these settings alike, and a seed, share weights, order and crops.
SHARED_BY_SEED = ("gpus", "batch_per_gpu", "validation_images")
# The accuracy that a recipe was chosen on, by the word of the study file.
CHOSEN_ON = {"validation": "held-out training images", "test": "test accuracy"}


class ArmFields(PointFields):
    """The fields that say of which arm a row is, and where."""

    arm: str


@dataclass(frozen=True)
class ArmResults:
    """The records of an arm in one environment, seed by seed.

    `changes` are the arm's settings that are not as they are by default, as text. `trials` are those of the search that
    its recipe was found by, 0 where it was not searched, and `chosen_on` says by which accuracy.
    """

    arm: str
    settings: TrainingSettings
    environment: str
    records: Sequence[TrainingRecord]
    changes: Mapping[str, str]
    trials: int = 0
    chosen_on: str = ""

    @cached_property
    def finished(self) -> list[TrainingRecord]:
        """The records that neither diverged nor ran out of memory."""
        return [record for record in self.records if record.status == "ok" and not record.diverged]

    @property
    def seeds(self) -> set[int]:
        return {record.cell.seed for record in self.finished}

    @property
    def is_complete(self) -> bool:
        """Whether every seed came to its last epoch: a mean over the others alone would be too good."""
        return 0 < len(self.finished) == len(self.records)

    def last(self, figure: str, seeds: Sequence[int] | None = None) -> list[float]:
        """Return a figure after the last epoch, of every seed, or of some `seeds` in their order. Empty unless the arm
        is complete."""
        if not self.is_complete:
            return []
        by_seed = {record.cell.seed: getattr(record.epochs[-1], figure) for record in self.finished}
        return [by_seed[seed] for seed in (by_seed if seeds is None else seeds)]

    def totals(self, name: str) -> list[float]:
        """Return a figure of all epochs together, of every seed that came to its end; empty where an epoch lacks it."""
        values = [[getattr(epoch, name) for epoch in record.epochs] for record in self.finished]
        return [] if any(None in epochs for epochs in values) else [float(sum(epochs)) for epochs in values]

    def is_like(self, reference: "ArmResults", names: Sequence[str]) -> bool:
        """Whether both arms have these settings alike."""
        return all(getattr(self.settings, name) == getattr(reference.settings, name) for name in names)

    def pairs_with(self, reference: "ArmResults") -> list[int]:
        """Return the seeds by which two arms are compared pair by pair; empty where all their seeds are compared.

        They are those that both have: at equal GPUs and batch, and where these are most of the seeds of each. Leaving
        out most of an arm's seeds would cost more than pairs gain.
        """
        shared = sorted(self.seeds & reference.seeds)
        are_most = len(shared) >= 2 and 2 * len(shared) > max(len(self.seeds), len(reference.seeds))
        return shared if are_most and self.is_like(reference, SHARED_BY_SEED) else []

    def difference_from(self, reference: "ArmResults", figure: str) -> Figure:
        """Return the mean of a figure after the last epoch less the other arm's: of pairs where there are any, or
        Welch's."""
        if seeds := self.pairs_with(reference):
            return paired_difference(self.last(figure, seeds), reference.last(figure, seeds))
        return welch_difference(self.last(figure), reference.last(figure))

    @property
    def remedies(self) -> str:
        """The changes for its accuracy that are not made by default."""
        return self.changed([key for key in arm_schemas() if key not in (*PLACE, *CUSTOMARY)])

    @property
    def lacks(self) -> str:
        """The habits that every training should have, and this one has not."""
        return self.changed(CUSTOMARY)

    def changed(self, keys: Sequence[str]) -> str:
        """Return the changes among these keys: `warmup_epochs 1, optimiser lars`."""
        return ", ".join(f"{key} {self.changes[key]}" for key in keys if key in self.changes)

    @property
    def place(self) -> ArmFields:
        """The columns that every row of an arm starts with."""
        return {"arm": self.arm, **point_fields(Configuration.of_arm(self.settings), self.environment)}


Results = Sequence[ArmResults]


def results_of(study: Study, records: Mapping[tuple[str, str], Sequence[TrainingRecord]]) -> Results:
    """Return the records of every arm, in every environment that it was measured in, in the order of the study file.

    An arm that was not measured stands in no environment, without records. `records` are by arm and environment.
    """
    return [
        _results(study, name, environment, records.get((name, environment), []))
        for name in study.arms
        for environment in sorted({letter for arm, letter in records if arm == name}) or [""]
    ]


def _results(study: Study, arm: str, environment: str, records: Sequence[TrainingRecord]) -> ArmResults:
    given = study["training"]["arms"][arm]
    defaults = {key: schema.get("default") for key, schema in arm_schemas().items()}
    tuned = given.get("tuned", {})
    return ArmResults(
        arm=arm,
        settings=study.arms[arm],
        environment=environment,
        records=records,
        changes={key: _as_written(given[key]) for key in defaults if key in given and given[key] != defaults[key]},
        trials=int(tuned.get("trials", 0)),
        chosen_on=CHOSEN_ON[tuned["chosen_on"]] if tuned else "",
    )


def _as_written(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return " and ".join(map(str, value)) if isinstance(value, list) else str(value)

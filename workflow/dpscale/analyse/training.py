"""Training: what every arm comes to with its seeds, epoch by epoch and after the last epoch."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import isfinite, nan
from statistics import fmean, median

from msgspec.structs import asdict

from dpscale.analyse.points import point_fields
from dpscale.analyse.records import weightiest
from dpscale.formulas.figure import UNKNOWN, Figure
from dpscale.formulas.statistics import mean_with_t_interval, paired_difference, welch_difference
from dpscale.plan.cells import Configuration
from dpscale.plan.plan import Plan
from dpscale.plan.study import Study
from dpscale.records.kinds import TrainingRecord
from dpscale.schemas.settings import TrainingSettings, arm_schemas, variant_settings
from dpscale.tables.row import PointFields, grouped, in_groups
from dpscale.tables.study import MissingRow
from dpscale.tables.training import TrainingCurvesRow, TrainingRow, TrainingSummaryRow

# Settings that change how fast an arm trains and, but for rounding, nothing that it learns.
OF_SPEED = tuple(sorted(set(variant_settings()) & set(TrainingSettings.names())))
# Habits that every training should have. An arm without one shows what that does: no remedy.
CUSTOMARY = ("set_epoch",)
# Settings that say what an arm is, before any remedy.
PLACE = ("strategy", "gpus", "batch_per_gpu", "epochs", *OF_SPEED)
# Arms that have these settings alike, and a seed, share weights, order and crops.
SHARED_BY_SEED = ("gpus", "batch_per_gpu")
# The accuracy that a recipe was chosen on, by the word of the study file.
CHOSEN_ON = {"validation": "held-out training images", "test": "test accuracy"}


class ArmFields(PointFields):
    """The fields that every row of an arm starts with."""

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
    def is_complete(self) -> bool:
        """Whether every seed came to its last epoch: a mean over the others alone would be too good."""
        return 0 < len(self.finished) == len(self.records)

    def last(self, figure: str) -> dict[int, float]:
        """Return a figure after the last epoch, by seed; None where it is not finite."""
        return {record.cell.seed: getattr(record.epochs[-1], figure) for record in self.finished}

    def is_like(self, reference: "ArmResults", names: Sequence[str]) -> bool:
        """Whether both arms have these settings alike."""
        return all(getattr(self.settings, name) == getattr(reference.settings, name) for name in names)

    def accuracy_above(self, reference: "ArmResults") -> Figure:
        """Return the mean test accuracy after the last epoch less the other arm's: of pairs of the seeds that both
        have, at equal GPUs and batch, and where these are most of the seeds of each; otherwise Welch's. Leaving out
        most of an arm's seeds would cost more than pairs gain."""
        accuracies = self.last("test_accuracy"), reference.last("test_accuracy")
        shared = sorted(accuracies[0].keys() & accuracies[1].keys())
        are_most = len(shared) >= 2 and 2 * len(shared) > max(map(len, accuracies))
        if are_most and self.is_like(reference, SHARED_BY_SEED):
            return paired_difference(*([by_seed[seed] for seed in shared] for by_seed in accuracies))
        return welch_difference(*([*by_seed.values()] for by_seed in accuracies))

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
        changes={key: _as_text(given[key]) for key in defaults if key in given and given[key] != defaults[key]},
        trials=int(tuned.get("trials", 0)),
        chosen_on=CHOSEN_ON[tuned["chosen_on"]] if tuned else "",
    )


def _as_text(value: object) -> str:
    """`on`, `off`, `lars`, `0.1`."""
    return ("on" if value else "off") if isinstance(value, bool) else str(value)


def training_rows(results: Results) -> Iterator[TrainingRow]:
    """Yield every epoch of every arm and seed."""
    for result in results:
        for record in result.records:
            for epoch in record.epochs:
                yield TrainingRow.read({
                    **result.place,
                    **asdict(epoch),
                    "seed": record.cell.seed,
                    "status": "diverged" if epoch.training_loss is None else "ok",
                })  # fmt: skip


def curve_rows(epochs: Iterable[TrainingRow], summary: Iterable[TrainingSummaryRow]) -> Iterator[TrainingCurvesRow]:
    """Yield every arm's epochs: the mean over seeds between the least and the most."""
    references = {(row.arm, row.environment): row.compared_with for row in summary}
    for (arm, environment), rows in grouped(epochs, lambda row: (row.arm, row.environment)).items():
        for seeds in in_groups(rows, lambda row: row.epoch):
            yield TrainingCurvesRow(
                arm=arm,
                **seeds[0].point,
                compared_with=references.get((arm, environment), ""),
                epoch=seeds[0].epoch,
                seeds=len(seeds),
                diverged=sum(row.status == "diverged" for row in seeds),
                training_loss=_over_seeds([row.training_loss for row in seeds]),
                test_accuracy=_over_seeds([row.test_accuracy for row in seeds]),
                epoch_s=_over_seeds([row.epoch_s for row in seeds]).value,
            )


def _over_seeds(values: Sequence[float]) -> Figure:
    """Return the mean between the least and the most: no interval, and drawn as a band."""
    finite = [value for value in values if isfinite(value)]
    return Figure.of(fmean(finite), min(finite), max(finite)) if finite else UNKNOWN


def summary_rows(
    study: Study, planned: Plan, missing: Iterable[MissingRow], results: Results
) -> Iterator[TrainingSummaryRow]:
    """Yield how every arm ends after its last epoch: a row per environment, or one that says why there is none."""
    missing_by_arm = grouped(missing, lambda row: row.arm)
    for result in results:
        missing_rows = missing_by_arm.get(result.arm, [])
        row = TrainingSummaryRow(
            **result.place,
            epochs=result.settings.epochs,
            remedies=result.remedies,
            lacks=result.lacks,
            faster_by=result.changed(OF_SPEED),
            tuned_trials=result.trials or None,
            tuned_on=result.chosen_on,
        )
        if not result.records:
            state, reason = planned.arms_not_run.get(result.arm) or weightiest(missing_rows)
            yield replace(row, status=state, reason=reason, seeds=0)
            continue
        row = _measured(row, result, [f"seed {missing_row.seed} {missing_row.status}" for missing_row in missing_rows])
        row = replace(row, is_baseline=result.arm == study["training"]["baseline"])
        if result.is_complete:
            row = _ended(row, result, study["training"]["target_accuracy"])
            row = _compared(row, result, study["training"]["baseline"], results)
        yield row


def _measured(row: TrainingSummaryRow, result: ArmResults, missing: Sequence[str]) -> TrainingSummaryRow:
    """Return the row of an arm with what was measured of it, however it ended.

    An epoch is a seed's median, mean over seeds; whole trainings are means over the seeds that came to their end.
    """
    seeds = len(result.records)
    diverged = sum(record.diverged for record in result.records)
    too_large = sum(record.status == "oom" for record in result.records)
    counted = {
        f"{diverged} of {seeds} seeds diverged": diverged,
        f"out of memory with {too_large} of {seeds} seeds": too_large,
    }
    reasons = [*(reason for reason, number in counted.items() if number), *missing]
    trained = [record.epochs for record in result.records if record.epochs]
    return replace(
        row,
        status="oom" if too_large else "diverged" if diverged else "ok",
        reason="; ".join(reasons),
        seeds=seeds,
        diverged=diverged,
        epoch_s=_mean([median(epoch.epoch_s for epoch in epochs) for epochs in trained]),
        gpu_s=_mean([sum(epoch.gpu_s for epoch in record.epochs) for record in result.finished]),
    )


def _ended(row: TrainingSummaryRow, result: ArmResults, target_accuracy: float) -> TrainingSummaryRow:
    """Return the row of an arm whose seeds all came to their end with what they reached, and when."""

    def mean_of_last(name: str) -> Figure:
        values = [*result.last(name).values()]
        return UNKNOWN if None in values else mean_with_t_interval(values)  # a loss of tests may be infinite

    row = replace(
        row,
        training_loss=mean_of_last("training_loss"),
        training_accuracy=mean_of_last("training_accuracy"),
        test_loss=mean_of_last("test_loss"),
        test_accuracy=mean_of_last("test_accuracy"),
        target_accuracy=target_accuracy,
    )
    reached_after_s = list(_times_to(target_accuracy, result))
    return replace(row, time_to_target_s=_mean(reached_after_s)) if len(reached_after_s) == row.seeds else row


def _mean(values: Sequence[float]) -> float:
    return fmean(values) if values else nan


def _times_to(target: float, result: ArmResults) -> Iterator[float]:
    """Yield after how many seconds of training every seed that reaches this test accuracy does."""
    for record in result.finished:
        after_s = 0.0
        for epoch in record.epochs:
            after_s += epoch.epoch_s
            if (epoch.test_accuracy or 0.0) >= target:
                yield after_s
                break


def _compared(
    row: TrainingSummaryRow, result: ArmResults, baseline_of_study: str, results: Results
) -> TrainingSummaryRow:
    """Return the row beside its baseline, and beside the arm without remedies of the same place, in the same
    environment."""
    arms = [arm for arm in results if arm.environment == result.environment]
    if baseline := _baseline_of(result, baseline_of_study, arms):
        row = replace(row, compared_with=baseline.arm, test_accuracy_difference=result.accuracy_above(baseline))
    if plain := _without_remedies(result, arms):
        row = replace(row, without_remedies=plain.arm, test_accuracy_gain=result.accuracy_above(plain))
    return row


def _baseline_of(result: ArmResults, of_study: str, arms: Results) -> ArmResults | None:
    """Return the arm that an arm is compared with; None for the baseline, or where what it needs was not measured.

    It is the study's baseline, but for a tuned arm the one that was tuned in the baseline's place, of most trials,
    where the study has one.
    """
    baseline = next((arm for arm in arms if arm.arm == of_study), None)
    if baseline is None or baseline.arm == result.arm:
        return None
    tuned = [arm for arm in arms if arm.is_like(baseline, PLACE) and arm.trials]
    if result.trials and result not in tuned:
        baseline = max(tuned, key=lambda arm: arm.trials, default=baseline)
    return baseline if baseline.is_complete else None


def _without_remedies(result: ArmResults, arms: Results) -> ArmResults | None:
    """Return the arm that differs from this one in having no remedy, and beside an arm that has none either the one
    that lacks nothing; None where there is no such arm, or it has no result."""
    lacks = result.lacks if result.remedies else ""
    candidates = (arm for arm in arms if arm.is_like(result, PLACE) and not arm.remedies and arm.lacks == lacks)
    plain = next(candidates, None) if result.remedies or result.lacks else None
    return plain if plain and plain.is_complete else None

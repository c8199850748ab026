"""Trainings epoch by epoch, and how every arm ends, against its baseline and against the same arm without remedies."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from math import isfinite, nan
from statistics import fmean, median

import numpy as np
from msgspec.structs import asdict

from dpscale.analyse.timing.records import weightiest
from dpscale.analyse.training.results import OF_SPEED, PLACE, ArmResults, Results
from dpscale.formulas.figure import UNKNOWN, Figure
from dpscale.formulas.statistics import mean_with_t_interval
from dpscale.plan.plan import Plan
from dpscale.plan.study import Study
from dpscale.records.kinds import Epoch
from dpscale.tables.row import grouped, in_groups
from dpscale.tables.study import MissingRow
from dpscale.tables.training import TrainingCurvesRow, TrainingRow, TrainingSummaryRow


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
    not_run = {item.arm: (item.state, item.reason) for item in planned.arms_not_run}
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
            state, reason = not_run.get(result.arm) or weightiest(missing_rows)
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
    reasons = [
        *([f"{diverged} of {seeds} seeds diverged"] if diverged else []),
        *([f"out of memory with {too_large} of {seeds} seeds"] if too_large else []),
        *missing,
    ]
    trained = [record.epochs for record in result.records if record.epochs]
    return replace(
        row,
        status="oom" if too_large else "diverged" if diverged else "ok",
        reason="; ".join(reasons),
        seeds=seeds,
        diverged=diverged,
        epoch_s=_mean([median(epoch.epoch_s for epoch in epochs) for epochs in trained]),
        images_per_s=_mean([median(epoch.images_per_s for epoch in epochs) for epochs in trained]),
        gpu_s=_mean(result.totals("gpu_s")),
        energy_j=_mean(result.totals("energy_j")),
    )


def _ended(row: TrainingSummaryRow, result: ArmResults, target_accuracy: float) -> TrainingSummaryRow:
    """Return the row of an arm whose seeds all came to their end with what they reached, and when."""
    accuracies = result.last("test_accuracy")
    row = replace(
        row,
        training_loss=mean_with_t_interval(result.last("training_loss")),
        training_accuracy=mean_with_t_interval(result.last("training_accuracy")),
        test_loss=mean_with_t_interval(result.last("test_loss")),
        test_accuracy=mean_with_t_interval(accuracies),
        test_accuracy_spread=float(np.std(accuracies, ddof=1)) if len(accuracies) > 1 else nan,
        target_accuracy=target_accuracy,
    )
    reached = list(_until(target_accuracy, result))
    if len(reached) < len(accuracies):
        return row
    return replace(
        row,
        time_to_target_s=_mean([sum(epoch.epoch_s for epoch in epochs) for epochs in reached]),
        gpu_s_to_target=_mean([sum(epoch.gpu_s for epoch in epochs) for epochs in reached]),
    )


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else nan


def _until(target: float, result: ArmResults) -> Iterator[Sequence[Epoch]]:
    """Yield the epochs of every seed that reaches this test accuracy, until it does."""
    for record in result.finished:
        reached = [number for number, epoch in enumerate(record.epochs, 1) if (epoch.test_accuracy or 0.0) >= target]
        if reached:
            yield record.epochs[: reached[0]]


def _compared(
    row: TrainingSummaryRow, result: ArmResults, baseline_of_study: str, results: Results
) -> TrainingSummaryRow:
    """Return the row beside its baseline, and beside the arm without remedies of the same place, in the same
    environment."""
    arms = [arm for arm in results if arm.environment == result.environment]
    if baseline := _baseline_of(result, baseline_of_study, arms):
        difference = result.difference_from(baseline, "test_accuracy")
        row = replace(row, compared_with=baseline.arm, test_accuracy_difference=difference)
    if plain := _without_remedies(result, arms):
        difference = result.difference_from(plain, "test_accuracy")
        row = replace(row, without_remedies=plain.arm, test_accuracy_gain=difference)
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

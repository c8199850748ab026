"""What every arm comes to after its last epoch, against its baseline and against the same arm without remedies."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import isfinite, nan
from statistics import fmean, median
from typing import Any

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
from dpscale.tables.training import (
    TrainingCurvesRow,
    TrainingRow,
    TrainingSummaryRow,
)

# What a recipe was chosen on, by the word of the study file.
CHOSEN_ON = {"validation": "held-out training images", "test": "test accuracy"}


def summary_rows(
    study: Study, planned: Plan, missing: Iterable[MissingRow], results: Results
) -> Iterator[TrainingSummaryRow]:
    """Yield how every arm ends after its last epoch: a row per environment, or one that says why there is none."""
    not_run = {item.arm: (item.state, item.reason) for item in planned.arms_not_run}
    missing_by_arm = grouped(missing, lambda row: row.arm)
    for result in results:
        missing_rows = missing_by_arm.get(result.arm, [])
        if result.records:
            seeds = [f"seed {row.seed} {row.status}" for row in missing_rows]
            yield _measured(study["training"], result, results, seeds)
        else:
            state, reason = not_run.get(result.arm) or weightiest(missing_rows)
            yield replace(_planned(result), status=state, reason=reason, seeds=0)


def _planned(result: ArmResults) -> TrainingSummaryRow:
    """Return a row with the settings of an arm, and how they were found: the trials of the search, and what it chose
    by."""
    tuned = result.given.get("tuned")
    return TrainingSummaryRow(
        **result.place,
        epochs=result.settings.epochs,
        remedies=result.remedies,
        lacks=result.lacks,
        faster_by=result.changed(OF_SPEED),
        tuned_trials=result.trials or None,
        tuned_on=CHOSEN_ON[tuned["chosen_on"]] if tuned else "",
    )


def _measured(
    training: Mapping[str, Any], result: ArmResults, results: Results, missing: Sequence[str]
) -> TrainingSummaryRow:
    """Return the row of an arm that was measured; `training` is that of the study.

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
    row = replace(
        _planned(result),
        is_baseline=result.arm == training["baseline"],
        status="oom" if too_large else "diverged" if diverged else "ok",
        reason="; ".join(reasons),
        seeds=seeds,
        diverged=diverged,
        epoch_s=_mean([median(epoch.epoch_s for epoch in epochs) for epochs in trained]),
        images_per_s=_mean([median(epoch.images_per_s for epoch in epochs) for epochs in trained]),
        gpu_s=_mean(result.totals("gpu_s")),
        energy_j=_mean(result.totals("energy_j")),
    )
    if not result.is_complete:
        return row
    accuracies = result.last("test_accuracy")
    reached = list(_until(training["target_accuracy"], result))
    row = replace(
        row,
        training_loss=mean_with_t_interval(result.last("training_loss")),
        training_accuracy=mean_with_t_interval(result.last("training_accuracy")),
        test_loss=mean_with_t_interval(result.last("test_loss")),
        test_accuracy=mean_with_t_interval(accuracies),
        test_accuracy_spread=float(np.std(accuracies, ddof=1)) if seeds > 1 else nan,
        target_accuracy=training["target_accuracy"],
    )
    if len(reached) == seeds:
        row = replace(
            row,
            time_to_target_s=_mean([sum(epoch.epoch_s for epoch in epochs) for epochs in reached]),
            gpu_s_to_target=_mean([sum(epoch.gpu_s for epoch in epochs) for epochs in reached]),
        )
    return _compared(row, training["baseline"], result, results)


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else nan


def _until(target: float, result: ArmResults) -> Iterator[Sequence[Epoch]]:
    """Yield the epochs of every seed that reaches this test accuracy, until it does."""
    for record in result.finished:
        reached = [number for number, epoch in enumerate(record.epochs, 1) if (epoch.test_accuracy or 0.0) >= target]
        if reached:
            yield record.epochs[: reached[0]]


def _compared(
    row: TrainingSummaryRow, baseline_of_study: str, result: ArmResults, results: Results
) -> TrainingSummaryRow:
    """Return the row beside its baseline, and beside the arm without remedies of the same place, in the same
    environment."""
    arms = [arm for arm in results if arm.environment == result.environment]
    baseline, plain = _baseline_of(result, baseline_of_study, arms), _without_remedies(result, arms)
    if baseline:
        row = replace(
            row,
            compared_with=baseline.arm,
            test_accuracy_difference=result.difference_from(baseline, "test_accuracy"),
        )
    if plain:
        row = replace(
            row,
            without_remedies=plain.arm,
            test_accuracy_gain=result.difference_from(plain, "test_accuracy"),
        )
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


def training_rows(results: Results) -> Iterator[TrainingRow]:
    """Every epoch of every arm and seed."""
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
    """Every arm's epochs: the mean over seeds between the least and the most."""
    against = {(row.arm, row.environment): row.compared_with for row in summary}
    for (arm, environment), rows in grouped(epochs, lambda row: (row.arm, row.environment)).items():
        for seeds in in_groups(rows, lambda row: row.epoch):
            times = [row.epoch_s for row in seeds if isfinite(row.epoch_s)]
            yield TrainingCurvesRow(
                arm=arm,
                **seeds[0].point,
                compared_with=against.get((arm, environment), ""),
                epoch=seeds[0].epoch,
                seeds=len(seeds),
                diverged=sum(row.status == "diverged" for row in seeds),
                training_loss=_over_seeds([row.training_loss for row in seeds]),
                test_accuracy=_over_seeds([row.test_accuracy for row in seeds]),
                epoch_s=fmean(times) if times else nan,
            )


def _over_seeds(values: Sequence[float]) -> Figure:
    """The mean between the least and the most: no interval, and drawn as a band."""
    known = [value for value in values if isfinite(value)]
    return Figure.of(fmean(known), min(known), max(known)) if known else UNKNOWN

"""What every arm comes to after its last epoch, against its baseline and against the same arm without remedies."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import nan
from statistics import fmean, median
from typing import Any

import numpy as np

from dpscale.analyse.timing.points import NO_RECORD, STATES_BY_WEIGHT, why_missing
from dpscale.analyse.training.results import OF_SPEED, PLACE, ArmResults, Results, place_of
from dpscale.formulas.figure import Figure
from dpscale.formulas.recovery import recovered_share
from dpscale.formulas.statistics import mean_with_t_interval
from dpscale.plan.cells import TrainingCell
from dpscale.plan.plan import plan
from dpscale.plan.study import Study
from dpscale.records.collect import Collected
from dpscale.schemas.settings import arm_schemas
from dpscale.tables.training import TrainingSummaryRow
from dpscale.vocabulary.states import NOT_RESOLVABLE

# What a recipe was chosen on, by the word of the study file.
CHOSEN_ON = {"validation": "held-out training images", "test": "test accuracy"}


def summary_rows(study: Study, collected: Collected, results: Results) -> Iterator[TrainingSummaryRow]:
    """What every arm comes to after its last epoch: a row an environment, or one that says why there is none."""
    not_run = {item.arm: (item.state, item.reason) for item in plan(study).arms_not_run}
    unmeasured: dict[str, list[TrainingCell]] = defaultdict(list)
    for cell in plan(study).training:
        if cell not in collected.records:
            unmeasured[cell.arm].append(cell)
    for name in study.arms:
        states = [(cell.seed, *why_missing(cell, collected)) for cell in unmeasured[name]]
        measured = [result for result in results if result.arm == name]
        for result in measured:
            yield _measured(study, result, results, [f"seed {seed} {state}" for seed, state, _ in states])
        if not measured:
            state, reason = not_run.get(name) or min(
                ((state, reason) for _, state, reason in states),
                key=lambda found: (STATES_BY_WEIGHT.index(found[0]), found[1] == NO_RECORD),
            )
            yield replace(_planned(study, name), status=state, reason=reason, seeds=0)


def _planned(study: Study, arm: str) -> TrainingSummaryRow:
    """What an arm is and changes, and how that was found: the trials of the search, and what it chose by."""
    settings = study.arms[arm]
    tuned = study["training"]["arms"][arm].get("tuned")
    return TrainingSummaryRow(
        **place_of(arm, settings),
        epochs=settings.epochs,
        remedies=remedies_of(study, arm),
        faster_by=_changed(study, arm, OF_SPEED),
        tuned_trials=tuned["trials"] if tuned else None,
        tuned_on=CHOSEN_ON[tuned["chosen_on"]] if tuned else "",
    )


def _measured(study: Study, result: ArmResults, results: Results, missing: Sequence[str]) -> TrainingSummaryRow:
    seeds = len(result.records)
    diverged = sum(record["diverged"] for record in result.records)
    too_large = sum(record["status"] == "oom" for record in result.records)
    reasons = [
        *([f"{diverged} of {seeds} seeds diverged"] if diverged else []),
        *([f"out of memory with {too_large} of {seeds} seeds"] if too_large else []),
        *missing,
    ]
    row = replace(
        _planned(study, result.arm),
        environment=result.environment,
        is_baseline=result.arm == study["training"]["baseline"],
        status="oom" if too_large else "diverged" if diverged else "ok",
        reason="; ".join(reasons),
        seeds=seeds,
        diverged=diverged,
    )
    row = _with_costs(row, result)
    if not result.is_complete:
        return row
    accuracies = result.last("test_accuracy")
    row = replace(
        row,
        training_loss=mean_with_t_interval(result.last("training_loss")),
        training_accuracy=mean_with_t_interval(result.last("training_accuracy")),
        test_loss=mean_with_t_interval(result.last("test_loss")),
        test_accuracy=mean_with_t_interval(accuracies),
        test_accuracy_spread=float(np.std(accuracies, ddof=1)) if seeds > 1 else nan,
    )
    return _compared(_with_target(row, result, study["training"]["target_accuracy"]), study, result, results)


def _with_costs(row: TrainingSummaryRow, result: ArmResults) -> TrainingSummaryRow:
    """An epoch (a seed's median, mean over seeds), and whole trainings (mean over the seeds that came to their end)."""
    trained = [record["epochs"] for record in result.records if record["epochs"]]

    def of_epoch(name: str) -> float:
        return fmean(median(epoch[name] for epoch in epochs) for epochs in trained) if trained else nan

    def of_training(name: str) -> float:
        totals = result.totals(name)
        return float(np.mean(totals)) if totals else nan

    return replace(
        row,
        epoch_s=of_epoch("epoch_s"),
        images_per_s=of_epoch("images_per_s"),
        gpu_s=of_training("gpu_s"),
        energy_j=of_training("energy_j"),
    )


def _with_target(row: TrainingSummaryRow, result: ArmResults, target: float) -> TrainingSummaryRow:
    """Time and GPU-seconds of training until test accuracy is `target`, the mean over all seeds where all reach it."""
    reached = []
    for record in result.finished:
        accuracies = [epoch["test_accuracy"] for epoch in record["epochs"]]
        epochs = next((number for number, accuracy in enumerate(accuracies, 1) if accuracy >= target), None)
        if epochs is not None:
            reached.append(record["epochs"][:epochs])
    row = replace(row, target_accuracy=target, seeds_at_target=len(reached))
    if len(reached) < len(result.records):
        return row

    def needed(name: str) -> float:
        return float(np.mean([sum(epoch[name] for epoch in epochs) for epochs in reached]))

    return replace(row, time_to_target_s=needed("epoch_s"), gpu_s_to_target=needed("gpu_s"))


def _compared(row: TrainingSummaryRow, study: Study, result: ArmResults, results: Results) -> TrainingSummaryRow:
    """Against its baseline, and against the arm without remedies of the same place, in the same environment."""
    baseline, plain = _baseline_of(study, result, results), _without_remedies(study, result, results)
    if baseline and baseline.is_complete:
        row = replace(
            row,
            compared_with=baseline.arm,
            difference_pairs=len(result.pairs_with(baseline)),
            training_loss_difference=result.difference_from(baseline, "training_loss"),
            training_accuracy_difference=result.difference_from(baseline, "training_accuracy"),
            test_accuracy_difference=result.difference_from(baseline, "test_accuracy"),
        )
    if plain and plain.is_complete:
        row = replace(
            row,
            without_remedies=plain.arm,
            gain_pairs=len(result.pairs_with(plain)),
            test_accuracy_gain=result.difference_from(plain, "test_accuracy"),
            training_loss_change=result.difference_from(plain, "training_loss"),
        )
        if baseline and baseline.is_complete and baseline.arm != plain.arm:
            recovered = _recovered(result, plain, baseline)
            row = replace(row, recovered=recovered, recovered_status="ok" if recovered.is_known else NOT_RESOLVABLE)
    return row


def _recovered(result: ArmResults, plain: ArmResults, baseline: ArmResults) -> Figure:
    """The share of the test accuracy that the batch lost against the baseline, and that the remedies give back."""
    seeds = result.pairs_with(plain) or None
    remedied, without = (arm.last("test_accuracy", seeds) for arm in (result, plain))
    return recovered_share(remedied, without, baseline.last("test_accuracy"), paired=seeds is not None)


def _baseline_of(study: Study, result: ArmResults, results: Results) -> ArmResults | None:
    """What an arm is compared with: the study's baseline, but for a tuned arm the one that was tuned in the baseline's
    place, of most trials, where the study has one. None for the baseline, or where what it needs was not measured."""

    def trials(other: ArmResults) -> int:
        return int(study["training"]["arms"][other.arm].get("tuned", {}).get("trials", 0))

    here = [other for other in results if other.environment == result.environment]
    baseline = next((other for other in here if other.arm == study["training"]["baseline"]), None)
    if baseline is None or baseline.arm == result.arm:
        return None
    tuned = [other for other in here if other.is_like(baseline, PLACE) and trials(other)]
    return max(tuned, key=trials, default=baseline) if trials(result) and result not in tuned else baseline


def _without_remedies(study: Study, result: ArmResults, results: Results) -> ArmResults | None:
    """The arm that differs from this one in having no remedy; None where this one has none, or none is there."""
    if not remedies_of(study, result.arm):
        return None
    return next(
        (
            other
            for other in results
            if other.environment == result.environment
            and other.is_like(result, PLACE)
            and not remedies_of(study, other.arm)
        ),
        None,
    )


def remedies_of(study: Study, arm: str) -> str:
    """What an arm does for its accuracy that is not done by default."""
    return _changed(study, arm, [key for key in arm_schemas() if key not in PLACE])


def _changed(study: Study, arm: str, keys: Sequence[str]) -> str:
    """The keys of an arm that are not as they are by default, with their values: `warmup_epochs 1, optimiser lars`."""
    known = arm_schemas()
    given = study["training"]["arms"][arm]
    return ", ".join(
        f"{key} {_as_written(given[key])}" for key in keys if key in given and given[key] != known[key].get("default")
    )


def _as_written(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return " and ".join(map(str, value)) if isinstance(value, list) else str(value)

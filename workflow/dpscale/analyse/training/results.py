"""The tables of training: every epoch of every arm, what each comes to, and the evidence on order and batch-norm."""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean, median
from typing import Any

import numpy as np

from dpscale.analyse.points import NO_RECORD, STATES_BY_WEIGHT, Row, why_missing
from dpscale.formulas.figure import Figure
from dpscale.formulas.recovery import recovered_share
from dpscale.formulas.statistics import mean_with_t_interval, paired_difference, welch_difference
from dpscale.plan.cells import AnyCell, TrainingCell
from dpscale.plan.plan import plan
from dpscale.plan.study import Study
from dpscale.records.collect import Collected
from dpscale.records.files import Record
from dpscale.schemas.settings import TrainingSettings, arm_schemas, variant_settings
from dpscale.vocabulary.states import NOT_RESOLVABLE

# What a recipe was chosen on, by the word of the study file.
CHOSEN_ON = {"validation": "held-out training images", "test": "test accuracy"}
FIGURES = ("training_loss", "training_accuracy", "test_loss", "test_accuracy")
# Settings that change how fast an arm trains and, but for rounding, nothing that it learns.
OF_SPEED = tuple(sorted(set(variant_settings()) & set(TrainingSettings.names())))
# What an arm is, before any remedy.
PLACE = ("strategy", "gpus", "batch_per_gpu", "epochs", "validation_images", *OF_SPEED)
# Arms of these equal keys and of one seed share weights, order and crops.
SHARED_BY_SEED = ("gpus", "batch_per_gpu", "validation_images")


@dataclass(frozen=True)
class ArmResults:
    """The records of an arm in one environment, seed by seed; `finished` are those that neither diverged nor ran out of
    memory."""

    arm: str
    settings: TrainingSettings
    environment: str
    records: Sequence[Record]

    @cached_property
    def finished(self) -> list[Record]:
        return [record for record in self.records if record["status"] == "ok" and not record["diverged"]]

    @property
    def is_complete(self) -> bool:
        """Whether every seed came to its last epoch: a mean over the others alone would be too good."""
        return len(self.finished) == len(self.records)

    def last(self, figure: str, seeds: Sequence[int] | None = None) -> list[float]:
        """A figure after the last epoch, of every seed, or of some `seeds` in their order. Empty unless the arm is
        complete."""
        if not self.is_complete:
            return []
        of_seed = {record["cell"]["seed"]: record["epochs"][-1][figure] for record in self.finished}
        return [of_seed[seed] for seed in (of_seed if seeds is None else seeds)]

    def pairs_with(self, other: "ArmResults") -> list[int]:
        """The seeds by which two arms are compared pair by pair; empty where all their seeds are compared.

        Those that both have: at equal GPUs and batch, and where these are most of the seeds of each. Leaving out most
        of an arm's seeds would cost more than pairs gain.
        """
        mine, others = ({record["cell"]["seed"] for record in arm.finished} for arm in (self, other))
        alike = all(getattr(self.settings, key) == getattr(other.settings, key) for key in SHARED_BY_SEED)
        both = sorted(mine & others)
        return both if alike and len(both) >= 2 and 2 * len(both) > max(len(mine), len(others)) else []

    @property
    def keys(self) -> Row:
        return {**_place(self.arm, self.settings), "environment": self.environment}


Results = Mapping[tuple[str, str], ArmResults]  # by arm and environment


def results_of(study: Study, collected: Collected, letters: Mapping[AnyCell, str]) -> Results:
    """What was measured of every arm, in every environment that it was measured in, in the order of the study file."""
    found: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for cell, record in collected.records.items():
        if isinstance(cell, TrainingCell):
            found[cell.arm, letters[cell]].append(record)
    return {
        (name, letter): ArmResults(name, settings, letter, found[name, letter])
        for name, settings in study.arms.items()
        for letter in sorted({letter for arm, letter in found if arm == name})
    }


def training_rows(results: Results) -> Iterator[Row]:
    """Every epoch of every arm and seed."""
    for result in results.values():
        for record in result.records:
            elapsed_s = 0.0
            for epoch in record["epochs"]:
                elapsed_s += epoch["epoch_s"]
                diverged = epoch["training_loss"] is None
                kept = {key: value for key, value in epoch.items() if key not in ("orders", "batch_norm")}
                status = "diverged" if diverged else "ok"
                yield {**result.keys, "seed": record["cell"]["seed"], "status": status, **kept, "elapsed_s": elapsed_s}


def evidence_rows(results: Results) -> Iterator[Row]:
    """For every epoch and worker: the order of its samples, and whether its batch-norm statistics are those kept.

    DataParallel has one order, which it splits over its replicas.
    """
    for result in results.values():
        remedies = {name: getattr(result.settings, name) for name in ("set_epoch", "sync_batch_norm")}
        for record in result.records:
            place = {**result.keys, **remedies, "seed": record["cell"]["seed"]}
            for epoch in record["epochs"]:
                norm = epoch["batch_norm"]
                for worker in range(result.settings.gpus):
                    order = epoch["orders"][worker] if worker < len(epoch["orders"]) else {}
                    yield {
                        **place,
                        "epoch": epoch["epoch"],
                        "worker": worker,
                        **order,
                        "statistics_kept": worker in norm["kept"] if norm else None,
                        "statistics_difference": norm["difference"] if norm else None,
                    }


def summary_rows(study: Study, collected: Collected, results: Results) -> Iterator[Row]:
    """What every arm comes to after its last epoch: a row an environment, or one that says why there is none."""
    not_run = {item.arm: item for item in plan(study).arms_not_run}
    unmeasured: dict[str, list[TrainingCell]] = defaultdict(list)
    for cell in plan(study).training:
        if cell not in collected.records:
            unmeasured[cell.arm].append(cell)
    for name, settings in study.arms.items():
        states = [(cell.seed, *why_missing(cell, collected)) for cell in unmeasured[name]]
        measured = [result for result in results.values() if result.arm == name]
        for result in measured:
            yield _summary_row(study, result, results, [f"seed {seed} {state}" for seed, state, _ in states])
        if not measured:
            if name in not_run:
                state, reason = not_run[name].state, not_run[name].reason
            else:
                _, state, reason = min(
                    states, key=lambda seed_state: (STATES_BY_WEIGHT.index(seed_state[1]), seed_state[2] == NO_RECORD)
                )
            row = {**_place(name, settings), **_recipe(study, name), "seeds": 0}
            yield {**row, "status": state, "reason": reason}


def _summary_row(study: Study, result: ArmResults, results: Results, missing: Sequence[str]) -> Row:
    diverged = sum(record["diverged"] for record in result.records)
    too_large = sum(record["status"] == "oom" for record in result.records)
    reasons = [
        *([f"{diverged} of {len(result.records)} seeds diverged"] if diverged else []),
        *([f"out of memory with {too_large} of {len(result.records)} seeds"] if too_large else []),
        *missing,
    ]
    row = {
        **result.keys,
        **_recipe(study, result.arm),
        "is_baseline": result.arm == study["training"]["baseline"],
        "status": "oom" if too_large else "diverged" if diverged else "ok",
        "reason": "; ".join(reasons),
        "seeds": len(result.records),
        "diverged": diverged,
        **_costs(result),
    }
    if not result.is_complete:
        return row
    for figure in FIGURES:
        row |= columns_of(figure, mean_with_t_interval(result.last(figure)))
    if len(result.records) > 1:
        row["test_accuracy_spread"] = float(np.std(result.last("test_accuracy"), ddof=1))
    return {**row, **_to_target(result, study["training"]["target_accuracy"]), **_comparisons(study, result, results)}


def _comparisons(study: Study, result: ArmResults, results: Results) -> Row:
    """Against its baseline, and against the arm without remedies of the same place, in the same environment."""
    row: Row = {}
    baseline = _baseline_of(study, result, results)
    if baseline is not None and not baseline.is_complete:
        baseline = None
    if baseline is not None:
        row |= {"compared_with": baseline.arm, "difference_pairs": len(result.pairs_with(baseline))}
        for figure in ("training_loss", "training_accuracy", "test_accuracy"):
            row |= columns_of(f"{figure}_difference", difference_of_arms(result, baseline, figure))
    plain = _without_remedies(study, result, results)
    if plain is None or not plain.is_complete:
        return row
    row |= {
        "without_remedies": plain.arm,
        "gain_pairs": len(result.pairs_with(plain)),
        **columns_of("test_accuracy_gain", difference_of_arms(result, plain, "test_accuracy")),
        **columns_of("training_loss_change", difference_of_arms(result, plain, "training_loss")),
    }
    if baseline is not None and baseline.arm != plain.arm:
        recovered = _recovered(result, plain, baseline)
        row |= columns_of("recovered", recovered)
        row["recovered_status"] = NOT_RESOLVABLE if math.isnan(recovered.value) else "ok"
    return row


def _baseline_of(study: Study, result: ArmResults, results: Results) -> ArmResults | None:
    """What an arm is compared with: the study's baseline, but for a tuned arm the one that was tuned in the baseline's
    place, of most trials, where the study has one. None for the baseline, or where what it needs was not measured."""
    baseline = results.get((study["training"]["baseline"], result.environment))
    if baseline is None or baseline.arm == result.arm:
        return None
    tuned = [other for other in _in_place_of(baseline, results) if _trials(study, other)]
    if not _trials(study, result) or result in tuned:
        return baseline
    return max(tuned, key=lambda other: _trials(study, other), default=baseline)


def _trials(study: Study, result: ArmResults) -> int:
    """Of the search that an arm's recipe was found by; 0 where it was not searched."""
    return int(study["training"]["arms"][result.arm].get("tuned", {}).get("trials", 0))


def _in_place_of(result: ArmResults, results: Results) -> list[ArmResults]:
    """The arms of its place and environment, itself among them."""
    return [
        other
        for other in results.values()
        if other.environment == result.environment
        and all(getattr(other.settings, name) == getattr(result.settings, name) for name in PLACE)
    ]


def difference_of_arms(result: ArmResults, other: ArmResults, figure: str) -> Figure:
    """The mean of a figure after the last epoch less the other arm's: of pairs where there are any, or Welch's."""
    if seeds := result.pairs_with(other):
        return paired_difference(result.last(figure, seeds), other.last(figure, seeds))
    return welch_difference(result.last(figure), other.last(figure))


def _recovered(result: ArmResults, plain: ArmResults, baseline: ArmResults) -> Figure:
    """The share of the test accuracy that the batch lost against the baseline, and that the remedies give back."""
    seeds = result.pairs_with(plain) or None
    remedied, without = (arm.last("test_accuracy", seeds) for arm in (result, plain))
    return recovered_share(remedied, without, baseline.last("test_accuracy"), paired=seeds is not None)


def _without_remedies(study: Study, result: ArmResults, results: Results) -> ArmResults | None:
    """The arm that differs from this one in having no remedy; None where this one has none, or none is there."""
    if not remedies_of(study, result.arm):
        return None
    return next((other for other in _in_place_of(result, results) if not remedies_of(study, other.arm)), None)


def _recipe(study: Study, arm: str) -> Row:
    """What an arm changes, and how that was found: the trials of the search, and what it chose by."""
    tuned = study["training"]["arms"][arm].get("tuned")
    found = {"tuned_trials": tuned["trials"], "tuned_on": CHOSEN_ON[tuned["chosen_on"]]} if tuned else {}
    return {"remedies": remedies_of(study, arm), "faster_by": _changed(study, arm, OF_SPEED), **found}


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


def _to_target(result: ArmResults, target: float) -> Row:
    """Time and GPU-seconds of training until test accuracy is `target`, the mean over all seeds where all reach it."""
    reached = []
    for record in result.finished:
        accuracies = [epoch["test_accuracy"] for epoch in record["epochs"]]
        epochs = next((number for number, accuracy in enumerate(accuracies, 1) if accuracy >= target), None)
        if epochs is not None:
            reached.append([sum(epoch[name] for epoch in record["epochs"][:epochs]) for name in ("epoch_s", "gpu_s")])
    row: Row = {"target_accuracy": target, "seeds_at_target": len(reached)}
    if len(reached) < len(result.records):
        return row
    seconds, gpu_seconds = (float(value) for value in np.mean(reached, axis=0))
    return {**row, "time_to_target_s": seconds, "gpu_s_to_target": gpu_seconds}


def _costs(result: ArmResults) -> Row:
    """An epoch (a seed's median, mean over seeds), and whole trainings (mean over the seeds that came to their end)."""
    seeds = [record["epochs"] for record in result.records if record["epochs"]]
    row: Row = {}
    if seeds:
        for name in ("epoch_s", "images_per_s"):
            row[name] = fmean(median(epoch[name] for epoch in epochs) for epochs in seeds)
    if result.finished:
        row["gpu_s"] = float(np.mean([sum_over_epochs(record, "gpu_s") for record in result.finished]))
        energies_j = [sum_over_epochs(record, "energy_j") for record in result.finished]
        row["energy_j"] = None if None in energies_j else float(np.mean([energy or 0 for energy in energies_j]))
    return row


def sum_over_epochs(record: Record, name: str) -> float | None:
    """A figure of all epochs of a training together; None where an epoch lacks it."""
    values = [epoch[name] for epoch in record["epochs"]]
    return None if None in values else float(sum(values))


def _place(arm: str, settings: TrainingSettings) -> Row:
    return {
        "arm": arm,
        "strategy": settings.strategy,
        "gpus": settings.gpus,
        "batch_per_gpu": settings.batch_per_gpu,
        "global_batch": settings.global_batch,
        "epochs": settings.epochs,
    }


def columns_of(name: str, sample: Figure) -> Row:
    """A figure and its interval as columns of a table."""
    return {name: sample.value, f"{name}_low": sample.low, f"{name}_high": sample.high}

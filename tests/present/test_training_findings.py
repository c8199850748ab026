"""Findings on trainings: data that make each true, what it then says, and data that make it false."""

from dataclasses import replace
from typing import Any

import pytest
from page_tables import GPU, arm_row, around, tables

from dpscale.present.findings.findings import findings
from dpscale.present.text.words import Terms
from dpscale.tables.tables import Tables

NOISE = replace(GPU, synthetic=True)

BASELINE = arm_row("small", 0.71, strategy="single", gpus=1, batch_per_gpu=128, global_batch=128, is_baseline=True)
LARGE = arm_row("large", 0.50, **around("test_accuracy_difference", -0.21, 0.1))
GAIN: dict[str, Any] = {
    **around("test_accuracy_gain", 0.19, 0.1), "remedies": "optimiser lars", "without_remedies": "large",
}  # fmt: skip
WARM = arm_row(
    "warm", 0.70, remedies="warmup_epochs 1", without_remedies="large",
    **around("test_accuracy_gain", 0.20, 0.1), **around("test_accuracy_difference", -0.01, 0.1),
)  # fmt: skip
TUNED: dict[str, Any] = {"tuned_trials": 80, "tuned_on": "test accuracy"}
LEVEL = arm_row("good", 0.72, **GAIN, **TUNED, **around("test_accuracy_difference", 0.01, 3))
UNDECIDED = arm_row("same", 0.505, remedies="sync_batch_norm on", **around("test_accuracy_gain", 0.005, 3))
HARMFUL = arm_row("bad", 0.40, remedies="learning_rate 6.4", **around("test_accuracy_gain", -0.1, 0.1))
# The beginnings of sentences.
LOSES, BEST = "A larger batch", "Best of"


def arms(*rows: dict[str, Any]) -> Tables:
    return tables(training_summary=[BASELINE, *rows])


def said(start: str, found: Tables, terms: Terms = GPU) -> str:
    """The sentence that starts so; nothing where there is none."""
    sentences = findings(found, terms)["training"]
    return next((sentence for sentence in sentences if start in sentence[: len(start) + 20]), "")


# By function: how the sentence starts, data that make it true, what it then says, and data that make it false.
CASES: dict[str, tuple[str, Tables, list[str], Tables]] = {
    "large_batch_costs": (
        LOSES,
        arms(LARGE),
        ["large at global batch 2,048 ends at 50.0 % [49.5, 50.5]: −21.0 points [−23.1, −18.9] from small (71.0 %"],
        arms(
            arm_row("large", 0.705, **around("test_accuracy_difference", -0.005, 3)),
            {**LARGE, "lacks": "set_epoch off"},
        ),
    ),
    "best_at_a_batch": (
        BEST,
        arms(LARGE, WARM, arm_row("good", 0.69, **GAIN)),
        [
            "Best of 2 arms with remedies at global batch 2,048: warm, 70.0 %.",
            "do not allow for such a choice.",
        ],
        arms(LARGE),
    ),
    "remedies": (
        "Remedies help in 1 of 3 arms: warm. Remedies show no difference with these seeds in 1 of 3 arms: same (0.5 "
        "points [−1.0, 2.0]).",
        arms(LARGE, WARM, UNDECIDED, HARMFUL),
        ["Remedies harm in 1 of 3 arms: bad."],
        arms(LARGE),
    ),
}


@pytest.mark.parametrize(("start", "true", "parts", "false"), CASES.values(), ids=CASES)
def test_a_finding_speaks_only_where_it_is_true(start: str, true: Tables, parts: list[str], false: Tables) -> None:
    assert [part for part in parts if part not in said(start, true)] == []
    assert said(start, false) == ""


def test_nothing_is_said_of_arms_that_were_trained_on_noise() -> None:
    trained = arms(LARGE, WARM, UNDECIDED, HARMFUL, arm_row("good", 0.72, **GAIN))
    assert findings(trained, NOISE)["training"] == []
    assert len(findings(trained, GPU)["training"]) == 3


def test_tuned_against_untuned_is_said_and_equals_are_not_called_so() -> None:
    tuned = "Its recipe was tuned (80 trials, chosen on test accuracy); that of small was"
    assert f"{tuned} not." in said(BEST, arms(LEVEL))
    assert f"{tuned} tuned too." in said(BEST, tables(training_summary=[{**BASELINE, **TUNED}, LEVEL]))
    assert "tuned" not in said(BEST, arms({**LEVEL, "tuned_trials": None, "tuned_on": None}))


def test_nothing_is_told_against_the_baseline_of_an_arm_with_another() -> None:
    assert said(LOSES, arms(LARGE))
    assert said(LOSES, arms({**LARGE, "compared_with": "small-tuned"})) == ""

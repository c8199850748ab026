"""Findings on trainings: data that make each true, what it then says, and data that make it false."""

from dataclasses import replace
from typing import Any

import pytest
from page_tables import GPU, arm_row, around, evidence_row, tables

from dpscale.present.findings.training import training_findings
from dpscale.present.text.words import Terms
from dpscale.tables.tables import Tables

NOISE = replace(GPU, synthetic=True)

BASELINE = arm_row("small", 0.71, strategy="single", gpus=1, batch_per_gpu=128, global_batch=128, is_baseline=True)
LARGE = arm_row("large", 0.50, **around("test_accuracy_difference", -0.21, 0.1))
GAIN: dict[str, Any] = {
    **around("test_accuracy_gain", 0.19, 0.1), **around("recovered", 0.905, 0.1), "recovered_status": "ok",
    "remedies": "optimiser lars",
}  # fmt: skip
WARM = arm_row(
    "warm", 0.70, remedies="warmup_epochs 1", recovered_status="ok", **around("recovered", 0.952, 0.1),
    **around("test_accuracy_gain", 0.20, 0.1), **around("test_accuracy_difference", -0.01, 0.1),
)  # fmt: skip
TUNED: dict[str, Any] = {"tuned_trials": 80, "tuned_on": "test accuracy"}
LEVEL = arm_row("good", 0.72, **GAIN, **TUNED, **around("test_accuracy_difference", 0.01, 3))
UNDECIDED = arm_row("same", 0.505, remedies="set_epoch off", **around("test_accuracy_gain", 0.005, 3))
HARMFUL = arm_row("bad", 0.40, remedies="learning_rate 6.4", **around("test_accuracy_gain", -0.1, 0.1))
WITHOUT_ORDER = {
    **UNDECIDED, **around("training_loss", 1.5), **around("training_loss_change", 0.02, 3), "without_remedies": "large",
}  # fmt: skip
TWIN = {
    "arm": "b128-fast", "strategy": "single", "gpus": 1, "batch_per_gpu": 128, "global_batch": 128,
    "environment": "A", "twin": "b128", "pairs": 5, **around("twin_accuracy_difference", -0.004, 4),
    **around("twin_time_ratio", 0.25, 0.04),
}  # fmt: skip
# The beginnings of sentences.
LOSES, SAME_RECIPE, BEST = "A larger batch", "With the recipe of", "Best of"
FASTER, ORDER = "b128-fast", "Without set_epoch"


def arms(*rows: dict[str, Any], **more: Any) -> Tables:
    return tables(training_summary=[BASELINE, *rows], **more)


def more_gpus(difference: float, spread: float) -> dict[str, Any]:
    """An arm with the baseline's batch per GPU on more GPUs; test accuracy is known twenty times worse."""
    training = around("training_accuracy_difference", difference, spread)
    test = around("test_accuracy_difference", difference, 20 * spread)
    return arm_row("more", 0.65, batch_per_gpu=128, global_batch=512, **training, **test)


def said(start: str, found: Tables, terms: Terms = GPU) -> str:
    """The sentence that starts so; nothing where there is none."""
    sentences = [finding.sentence for finding in training_findings(found, terms) if finding]
    return next((sentence for sentence in sentences if start in sentence[: len(start) + 20]), "")


# By function: how the sentence starts, data that make it true, what it then says, and data that make it false.
CASES: dict[str, tuple[str, Tables, list[str], Tables]] = {
    "large_batch_costs": (
        LOSES,
        arms(LARGE),
        ["large at global batch 2,048 ends at 50.0 % [49.5, 50.5]: −21.0 points [−23.1, −18.9] from small (71.0 %"],
        arms(arm_row("large", 0.705, **around("test_accuracy_difference", -0.005, 3))),
    ),
    "recipe_on_more_devices": (
        SAME_RECIPE,
        arms(more_gpus(-0.06, 0.1)),
        ["small at its batch per GPU, more on 4 GPUs ends lower: −6.0 points [−6.6, −5.4] in training and −6 points"],
        arms(LARGE, {**more_gpus(-0.06, 0.1), "remedies": "optimiser lars"}),
    ),
    "best_at_a_batch": (
        BEST,
        arms(LARGE, WARM, arm_row("good", 0.69, **GAIN)),
        [
            "Best of 2 arms with remedies at global batch 2,048: warm, 70.0 %. It recovers 95.2 % of what the batch",
            "do not allow for such a choice.",
        ],
        arms(LARGE),
    ),
    "remedies": (
        "Remedies help in 1 of 3 arms: warm. Remedies make no difference with these seeds in 1 of 3 arms: same.",
        arms(LARGE, WARM, UNDECIDED, HARMFUL),
        ["Remedies harm in 1 of 3 arms: bad."],
        arms(LARGE),
    ),
    "divergence": (
        "The loss did not stay finite",
        arms({**LARGE, "status": "diverged", "reason": "2 of 3 seeds diverged"}),
        ["for 1 arm: large at global batch 2,048: 2 of 3 seeds diverged"],
        arms(LARGE),
    ),
    "order_without_set_epoch": (
        ORDER,
        tables(
            training_evidence=[
                evidence_row("ddp", worker, set_epoch) for worker in (0, 1) for set_epoch in (True, False)
            ]
        ),
        ["in 2 of 2 orders", "With it, 0 % of the images"],
        tables(training_evidence=[evidence_row("ddp", 0), evidence_row("dp", 0, False)]),
    ),
    "_loss_without_set_epoch": (
        ORDER,
        tables(training_evidence=[evidence_row("ddp", 0, False)], training_summary=[WITHOUT_ORDER]),
        ["The training loss of same then ends 0.02 [−0.04, 0.08] from that of large: no difference with these seeds."],
        arms(UNDECIDED),
    ),
    "fast_twins": (
        FASTER,
        tables(twins=[TWIN]),
        [
            "takes 0.250 [0.240, 0.260] of the time of b128 and ends with no difference with these seeds: −0.4 points "
            "[−2.0, 1.2]."
        ],
        tables(twins=[{**TWIN, "twin_accuracy_difference_low": None}]),
    ),
}


@pytest.mark.parametrize(("start", "true", "parts", "false"), CASES.values(), ids=CASES)
def test_a_finding_speaks_only_where_it_is_true(start: str, true: Tables, parts: list[str], false: Tables) -> None:
    assert [part for part in parts if part not in said(start, true)] == []
    assert said(start, false) == ""


def test_arms_trained_on_noise_support_no_comparison_but_show_what_is_shared() -> None:
    given = {"training_evidence": [evidence_row("ddp", 0, False)], "twins": [TWIN]}
    trained = arms(LARGE, WARM, UNDECIDED, HARMFUL, arm_row("good", 0.72, **GAIN), **given)
    (found,) = filter(None, training_findings(trained, NOISE))
    assert found.sentence.startswith(ORDER)
    assert len([*filter(None, training_findings(trained, GPU))]) == 5


def test_a_loss_that_the_same_order_changes_is_not_called_equal() -> None:
    worse = {**WITHOUT_ORDER, **around("training_loss_change", 0.02, 0.3)}
    data = tables(training_evidence=[evidence_row("ddp", 0, False)], training_summary=[worse])
    assert said(ORDER, data).endswith("from that of large.")


def test_tuned_against_untuned_is_said_and_equals_are_not_called_so() -> None:
    tuned = "Its recipe was tuned (80 trials, chosen on test accuracy); that of small was"
    assert f"{tuned} not." in said(BEST, arms(LEVEL))
    assert f"{tuned} tuned too." in said(BEST, tables(training_summary=[{**BASELINE, **TUNED}, LEVEL]))
    assert "tuned" not in said(BEST, arms({**LEVEL, "tuned_trials": None, "tuned_on": None}))


@pytest.mark.parametrize(("start", "arm"), [(LOSES, LARGE), (SAME_RECIPE, more_gpus(-0.06, 0.1))])
def test_nothing_is_told_against_the_baseline_of_an_arm_with_another(start: str, arm: dict[str, Any]) -> None:
    assert said(start, arms(arm))
    assert said(start, arms({**arm, "compared_with": "small-tuned"})) == ""


def test_what_is_recovered_of_a_loss_that_may_be_none_has_no_number() -> None:
    row = {**WARM, "recovered": None, "recovered_status": "not resolvable"}
    assert "warm, 70.0 %. What it recovers is not resolvable" in said(BEST, arms(LARGE, row))

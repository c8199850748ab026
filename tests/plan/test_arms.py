"""Arms: what a study file may say of a training, what comes of it, and what is refused before any GPU is used."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpscale.errors import StudyError
from dpscale.plan.plan import plan
from dpscale.plan.study import Study
from dpscale.scheduler import cluster
from dpscale.schemas.settings import TrainingSettings

SMALL = {"strategy": "single", "gpus": 1, "batch_per_gpu": 128}
LARGE = {"strategy": "ddp", "gpus": 4, "batch_per_gpu": 512}


def study(arms: dict[str, Any], training: dict[str, Any] | None = None, **values: Any) -> Study:
    return Study({"study": "s", "training": {"arms": arms, **(training or {})}, **values}, "my.yaml")


def settings(**arm: Any) -> TrainingSettings:
    return study({"a": {**LARGE, **arm}}).arms["a"]


def test_an_arm_may_have_seeds_of_its_own() -> None:
    arms = {"few": {**SMALL, "seeds": 1}, "many": {**LARGE, "seeds": 3}, "usual": SMALL}
    cells = plan(study(arms, {"seeds": 2})).training
    assert [(cell.seed, cell.arm) for cell in cells] == [
        (1, "few"), (1, "many"), (1, "usual"), (2, "many"), (2, "usual"), (3, "many"),
    ]  # fmt: skip
    assert study(arms).arms["few"] == study({"few": SMALL}).arms["few"]
    assert cells[1].path == "training/many/seed-1.json"
    assert cells[1].labels == {"arm": "many", "seed": 1, "strategy": "ddp", "gpus": 4, "batch_per_gpu": 512}


def test_what_an_arm_leaves_out_is_the_studys() -> None:
    own = {"a": {**SMALL, "learning_rate": 0.4, "weight_decay": 0.0}, "b": LARGE, "c": {**SMALL, "optimiser": "lamb"}}
    half: dict[str, Any] = {
        "precision": "bfloat16-pure",
        "ddp": {"gradient_dtype": "bfloat16"},
        "communication": {"runs": 0},
    }
    arms = study(own, optimiser={"momentum": 0.8}, **half).arms
    assert (arms["a"].learning_rate, arms["a"].weight_decay, arms["a"].momentum) == (0.4, 0.0, 0.8)
    assert (arms["b"].learning_rate, arms["b"].weight_decay) == (0.1, 0.0005)
    assert arms["c"].momentum == 0
    assert {(arm.precision, arm.ddp_gradient_dtype) for arm in arms.values()} == {("bfloat16-pure", "bfloat16")}


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "epochs": st.integers(2, 9),
            "warmup_epochs": st.floats(0, 2),
            "schedule": st.sampled_from(["constant", "cosine"]),
            "optimiser": st.sampled_from(["sgd", "nesterov", "lars", "lamb"]),
            "label_smoothing": st.floats(0, 0.9),
            "batch_growth_epochs": st.just([1]),
            "set_epoch": st.booleans(),
        },
    )
)
def test_settings_survive_json_and_the_record_names_every_key(arm: dict[str, Any]) -> None:
    found = settings(**arm)
    assert TrainingSettings.from_json(found.to_json()) == found
    assert all(found.to_json()[key] == value for key, value in arm.items())


def test_arms_that_cannot_be_trained_here_are_listed_with_the_reason() -> None:
    arms = {"dp": {**LARGE, "strategy": "dp"}, "shared": {**LARGE, "sync_batch_norm": True}, "large": LARGE}
    on_cpu = plan(study(arms, device="cpu")).arms_not_run
    assert [(arm.arm, arm.state) for arm in on_cpu] == [("dp", "not available"), ("shared", "not available")]
    assert {arm.reason for arm in plan(study(arms, gpus_available=2)).arms_not_run} == {"needs 4 GPUs, 2 here"}
    capped = plan(study({"a": {**LARGE, "batch_per_gpu": 20_000}})).arms_not_run
    assert [(arm.state, arm.reason) for arm in capped] == [
        ("capped", "global batch 80000 > 50000 images: no full step")
    ]


@pytest.mark.parametrize(
    ("arm", "message"),
    [
        ({"magic": 1}, "training.arms.a: Additional properties are not allowed ('magic' was unexpected)"),
        ({"label_smoothin": 0.1}, "did you mean label_smoothing?"),
        ({"optimiser": "adam"}, "training.arms.a.optimiser: "),
        ({"gpus": 1}, "training.arms.a.gpus: 1 does not go with ddp"),
        ({"strategy": "single"}, "training.arms.a.gpus: 4 does not go with single"),
        ({"optimiser": "lamb", "momentum": 0.9}, "training.arms.a.momentum: lamb has none"),
        ({"optimiser": "nesterov", "momentum": 0}, "training.arms.a.momentum: nesterov needs one"),
        ({"warmup_epochs": 5.5}, "training.arms.a.warmup_epochs: 5.5 is longer than the training, 5 epochs"),
        ({"warmup_start": 0.1}, "training.arms.a.warmup_start: only a warm-up"),
        ({"schedule": "one_cycle"}, "training.arms.a.schedule: one_cycle rises and falls"),
        ({"schedule": "step"}, "training.arms.a.schedule: step needs step_epochs"),
        ({"step_epochs": [2]}, "training.arms.a.step_epochs: only the schedule step"),
        ({"schedule": "step", "step_epochs": [5]}, "training.arms.a.step_epochs: must lie"),
        ({"trust_coefficient": 0.02}, "training.arms.a.trust_coefficient: only lars"),
        ({"batch_growth_epochs": [3, 2]}, "training.arms.a.batch_growth_epochs: must be in ascending order"),
        ({"batch_growth_epochs": [5]}, "training.arms.a.batch_growth_epochs: must lie before the end"),
        (
            {"batch_growth_epochs": [1, 2], "batch_growth_factor": 5},
            "training.arms.a.batch_growth_epochs: grows the global batch to 51200, past the dataset's 50000 images",
        ),
        ({"validation_images": 48_000}, "training.arms.a.validation_images: leaves 2000 images, no full step of 2048"),
        (
            {"validation_images": 45_000, "batch_growth_epochs": [1, 2]},
            "training.arms.a.batch_growth_epochs: grows the global batch to 8192, past the dataset's 5000 images",
        ),
        ({"tuned": {"trials": 9}}, 'training.arms.a.tuned: "chosen_on" is a required property'),
        ({"batch_growth_factor": 4}, "training.arms.a.batch_growth_factor: the batch never grows"),
        ({"strategy": "fsdp"}, "training.arms.a.strategy: fsdp has no arms: checkpoints and test accuracy need whole"),
        ({"strategy": "dp", "sync_batch_norm": True}, "training.arms.a.sync_batch_norm: dp has no process group"),
        ({"cuda_graph": True}, "training.arms.a.cuda_graph: needs fused_optimiser"),
        (
            {"cuda_graph": True, "fused_optimiser": True, "sync_batch_norm": True},
            "training.arms.a.cuda_graph: does not go with sync_batch_norm",
        ),
        (
            {"compile": "default", "batch_growth_epochs": [2]},
            "training.arms.a.compile: is for one batch: it does not go with batch_growth_epochs",
        ),
        ({"optimiser": "lars", "fused_optimiser": True}, "training.arms.a.fused_optimiser: torch has no fused lars"),
    ],
)
def test_what_makes_no_sense_is_one_line_with_arm_and_key(arm: dict[str, Any], message: str) -> None:
    with pytest.raises(StudyError) as error:
        study({"a": {**LARGE, **arm}})
    assert str(error.value).startswith("my.yaml: ")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("training", "message"),
    [
        ({"arms": {"a": {"strategy": "single"}}}, 'training.arms.a: "gpus" is a required property'),
        ({"arms": {"longer-than-12": SMALL}}, "training.arms"),
        ({"arms": {"a": SMALL}, "baseline": "b"}, "training.baseline: there is no arm b"),
    ],
)
def test_a_bad_training_is_one_line(training: dict[str, Any], message: str) -> None:
    with pytest.raises(StudyError) as error:
        Study({"study": "s", "training": training}, "my.yaml")
    assert message in str(error.value)


def test_memory_of_a_training_counts_its_images_and_on_a_cpu_its_largest_batch() -> None:
    large = settings()
    assert cluster.training_memory_mb(large, 1, 1) == 4 * (4000 + 240)
    assert cluster.training_memory_mb(large, 1, 2) == 2 * cluster.training_memory_mb(large, 1, 1)
    small = study({"a": LARGE, "b": {**LARGE, "batch_growth_epochs": [2]}}, device="cpu").arms
    grown_mb = cluster.training_memory_mb(small["b"], 1, 1) - cluster.training_memory_mb(small["a"], 1, 1)
    assert grown_mb == 2048 * cluster.ACTIVATIONS_MB_PER_IMAGE

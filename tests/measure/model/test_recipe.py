"""What a recipe does to rate, batch and parameters: pure functions, so most of it is tested as properties."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from dpscale.measure.model.recipe import batch_growth, parameter_groups, peak_rate, rate, rate_of_step
from dpscale.plan.study import Study
from dpscale.schemas.settings import TrainingSettings

EPOCHS = 5


def arm(**keys: Any) -> TrainingSettings:
    values = {"strategy": "ddp", "gpus": 4, "batch_per_gpu": 512, "epochs": EPOCHS, **keys}
    return Study({"study": "s", "training": {"arms": {"a": values}}}).arms["a"]


schedules = st.sampled_from(
    [
        {},
        {"schedule": "cosine"},
        {"schedule": "step", "step_epochs": [3, 4.5], "step_factor": 0.2},
        {"schedule": "one_cycle", "warmup_epochs": 1.5},
        {"schedule": "cosine", "warmup_epochs": 2.5, "warmup_start": 0.25},
        {"warmup_epochs": 5},
    ]
)
epochs = st.floats(0, EPOCHS, exclude_max=True)


@pytest.mark.parametrize(("scaling", "peak"), [("none", 0.1), ("linear", 1.6), ("square_root", 0.4)])
def test_scaling_is_by_the_global_batch_over_128(scaling: str, peak: float) -> None:
    assert peak_rate(arm(learning_rate_scaling=scaling)) == pytest.approx(peak)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({}, {0: 0.1, 4.9: 0.1}),
        ({"schedule": "cosine"}, {0: 0.1, 2.5: 0.05, 5: 0}),
        ({"schedule": "cosine", "warmup_epochs": 1}, {0.5: 0.05, 1: 0.1, 3: 0.05, 5: 0}),
        ({"schedule": "one_cycle", "warmup_epochs": 2}, {0: 0, 1: 0.05, 2: 0.1, 3.5: 0.05, 5: 0}),
        ({"schedule": "step", "step_epochs": [2, 4]}, {1.99: 0.1, 2: 0.01, 4: 0.001}),
        ({"warmup_epochs": 0.5, "warmup_start": 0.2}, {0: 0.02, 0.25: 0.06, 0.5: 0.1, 4: 0.1}),
    ],
)
def test_rates_at_fractional_epochs(keys: dict[str, Any], expected: dict[float, float]) -> None:
    assert {epoch: rate(arm(**keys), epoch) for epoch in expected} == pytest.approx(expected)


@given(st.integers(1, 400))
def test_a_linear_rate_has_the_same_mean_for_every_batch(steps: int) -> None:
    recipe = arm(schedule="one_cycle", warmup_epochs=2)
    mean = sum(rate_of_step(recipe, 3, step, steps) for step in range(steps)) / steps
    assert math.isclose(mean, rate(recipe, 3.5), rel_tol=1e-9)


def test_the_batch_grows_at_its_epochs() -> None:
    growing = arm(batch_growth_epochs=[2, 4], batch_growth_factor=3)
    assert [batch_growth(growing, epoch) for epoch in range(EPOCHS)] == [1, 1, 3, 3, 9]
    assert growing.last_global_batch == 9 * 2048
    assert [batch_growth(arm(), epoch) for epoch in range(EPOCHS)] == [1] * EPOCHS


PARAMETERS = ("0.weight", "1.weight", "1.bias", "2.weight", "2.bias")  # a convolution, a batch-norm, a linear layer


def grouped(**keys: Any) -> dict[str, tuple[float, float]]:
    named = dict(nn.Sequential(nn.Conv2d(3, 4, 1, bias=False), nn.BatchNorm2d(4), nn.Linear(4, 2)).named_parameters())
    groups = parameter_groups(arm(**keys), named.items())
    of = {id(one): (group["weight_decay"], group["rate_factor"]) for group in groups for one in group["params"]}
    return {name: of[id(parameter)] for name, parameter in named.items()}


def test_without_remedies_all_parameters_are_one_group() -> None:
    assert grouped() == dict.fromkeys(PARAMETERS, (0.0005, 1.0))


def test_norm_and_biases_can_be_spared_decay_and_biases_be_given_a_larger_rate() -> None:
    assert grouped(weight_decay_on_norm_and_bias=False, bias_rate_factor=8, weight_decay=0.001) == {
        "0.weight": (0.001, 1), "1.weight": (0, 1), "1.bias": (0, 8), "2.weight": (0.001, 1), "2.bias": (0, 8),
    }  # fmt: skip

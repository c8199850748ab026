"""Recipes: rate, batch and groups of parameters; LARS and LAMB against the papers' formulas,
computed once more with NumPy."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from cases import cases
from dpscale.measure.workload.recipe import (
    LAMB_EPSILON,
    build_optimiser,
    parameter_groups,
    peak_rate,
    rate,
    rate_of_step,
)
from dpscale.plan.study import Study
from dpscale.schemas.settings import TrainingSettings

EPOCHS = 5


def arm(**keys: Any) -> TrainingSettings:
    values = {"strategy": "ddp", "gpus": 4, "batch_per_gpu": 512, "epochs": EPOCHS, **keys}
    return Study({"study": "s", "training": {"arms": {"a": values}}}).arms["a"]


@pytest.mark.parametrize(("scaling", "peak"), cases(__file__, "peaks"))
def test_scaling_is_by_the_global_batch_over_128(scaling: str, peak: float) -> None:
    assert peak_rate(arm(learning_rate_scaling=scaling)) == pytest.approx(peak)


@pytest.mark.parametrize(
    ("keys", "expected"),
    cases(__file__, "rates"),
)
def test_rates_at_fractional_epochs(keys: dict[str, Any], expected: dict[float, float]) -> None:
    assert {epoch: rate(arm(**keys), epoch) for epoch in expected} == pytest.approx(expected)


@given(st.integers(1, 400))
def test_a_linear_rate_has_the_same_mean_for_every_batch(steps: int) -> None:
    recipe = arm(schedule="one_cycle", warmup_epochs=2)
    mean = sum(rate_of_step(recipe, 3, step, steps) for step in range(steps)) / steps
    assert math.isclose(mean, rate(recipe, 3.5), rel_tol=1e-9)


def grouped(**keys: Any) -> dict[str, tuple[float, float]]:
    """Weight decay and factor of the rate of a convolution, a batch-norm and a linear layer."""
    named = dict(nn.Sequential(nn.Conv2d(3, 4, 1, bias=False), nn.BatchNorm2d(4), nn.Linear(4, 2)).named_parameters())
    groups = parameter_groups(arm(**keys), named.items())
    settings = {
        id(member): (group["weight_decay"], group["rate_factor"]) for group in groups for member in group["params"]
    }
    return {name: settings[id(parameter)] for name, parameter in named.items()}


def test_norm_and_biases_can_be_spared_decay_and_biases_be_given_a_larger_rate() -> None:
    assert grouped() == dict.fromkeys(("0.weight", "1.weight", "1.bias", "2.weight", "2.bias"), (0.0005, 1.0))
    assert grouped(weight_decay_on_norm_and_bias=False, bias_rate_factor=8, weight_decay=0.001) == {
        "0.weight": (0.001, 1), "1.weight": (0, 1), "1.bias": (0, 8), "2.weight": (0.001, 1), "2.bias": (0, 8),
    }  # fmt: skip


RATES = [0.1, 0.2, 0.3, 0.2, 0.1, 0.05]
DECAY, MOMENTUM = 0.03, 0.8
SHAPES = {
    "conv.weight": (4, 3, 2, 2),
    "linear.weight": (5, 4),
    "bn.weight": (4,),
    "linear.bias": (5,),
    "zero.weight": (2, 2),
}

Arrays = dict[str, np.ndarray]
# (weight, gradient, weight decay, step, rate, state) -> the change of the weight
Update = Callable[[np.ndarray, np.ndarray, float, int, float, Arrays], np.ndarray]


def norm(array: np.ndarray) -> float:
    return float(np.sqrt((array**2).sum()))


def is_scaled(w: np.ndarray) -> bool:
    return w.ndim > 1 and norm(w) > 0


def lars(w: np.ndarray, g: np.ndarray, d: float, _step: int, lr: float, state: Arrays) -> np.ndarray:
    trust = 0.02 * norm(w) / (norm(g) + d * norm(w)) if is_scaled(w) else 1.0
    state["v"] = MOMENTUM * state.get("v", 0) + lr * trust * (g + d * w)
    return state["v"]


def lamb(w: np.ndarray, g: np.ndarray, d: float, step: int, lr: float, state: Arrays) -> np.ndarray:
    state["m"] = 0.9 * state.get("m", 0) + 0.1 * g
    state["v"] = 0.999 * state.get("v", 0) + 0.001 * g**2
    r = (state["m"] / (1 - 0.9**step)) / (np.sqrt(state["v"] / (1 - 0.999**step)) + LAMB_EPSILON)
    u = r + d * w
    return lr * (norm(w) / norm(u) if is_scaled(w) else 1.0) * u


@pytest.mark.parametrize(
    ("keys", "paper"),
    [
        ({"optimiser": "lars", "trust_coefficient": 0.02, "momentum": MOMENTUM}, lars),
        ({"optimiser": "lamb"}, lamb),
    ],
    ids=["lars", "lamb"],
)
def test_the_formulas_are_the_papers(keys: dict[str, Any], paper: Update) -> None:
    recipe = arm(**keys, weight_decay=DECAY, weight_decay_on_norm_and_bias=False)
    generator = np.random.default_rng(0)
    weights = {name: generator.normal(size=shape) * (name != "zero.weight") for name, shape in SHAPES.items()}
    states: dict[str, Arrays] = {name: {} for name in SHAPES}
    parameters = {name: nn.Parameter(torch.from_numpy(weight)) for name, weight in weights.items()}
    optimiser = build_optimiser(recipe, parameter_groups(recipe, parameters.items()))
    for step, lr in enumerate(RATES, 1):
        for group in optimiser.param_groups:
            group["lr"] = lr * group["rate_factor"]
        for name, weight in weights.items():
            gradient = generator.normal(size=weight.shape)
            parameters[name].grad = torch.from_numpy(gradient)
            decay = 0.0 if weight.ndim == 1 else DECAY
            weights[name] = weight - paper(weight, gradient, decay, step, lr, states[name])
        optimiser.step()
    for name, parameter in parameters.items():
        np.testing.assert_allclose(parameter.detach().numpy(), weights[name], rtol=1e-10, atol=1e-14, err_msg=name)

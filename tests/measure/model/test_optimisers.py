"""Nesterov's momentum, LARS and LAMB against the papers' formulas, computed once more with numpy."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from dpscale.measure.model.recipe import LAMB_EPSILON, build_optimiser, parameter_groups
from dpscale.plan.study import Study
from dpscale.schemas.settings import TrainingSettings

STEPS = 6
SHAPES = {
    "conv.weight": (4, 3, 2, 2),
    "linear.weight": (5, 4),
    "bn.weight": (4,),
    "linear.bias": (5,),
    "zero.weight": (2, 2),
}


Arrays = dict[str, np.ndarray]
# (weight, gradient, step, rate, state): what a weight changes by.
Update = Callable[[np.ndarray, np.ndarray, int, float, Arrays], np.ndarray]


def arm(**keys: Any) -> TrainingSettings:
    values = {"strategy": "single", "gpus": 1, "batch_per_gpu": 128, **keys}
    return Study({"study": "s", "training": {"arms": {"a": values}}}).arms["a"]


def weights_and_gradients() -> tuple[Arrays, list[Arrays]]:
    generator = np.random.default_rng(0)
    weights = {name: generator.normal(size=shape) for name, shape in SHAPES.items()}
    weights["zero.weight"][:] = 0
    return weights, [{name: generator.normal(size=shape) for name, shape in SHAPES.items()} for _ in range(STEPS)]


def by_torch(recipe: TrainingSettings, rates: list[float]) -> Arrays:
    weights, gradients = weights_and_gradients()
    parameters = {name: torch.nn.Parameter(torch.from_numpy(value.copy())) for name, value in weights.items()}
    optimiser = build_optimiser(recipe, parameter_groups(recipe, parameters.items()))
    for gradient, lr in zip(gradients, rates, strict=True):
        for group in optimiser.param_groups:
            group["lr"] = lr * group["rate_factor"]
        for name, parameter in parameters.items():
            parameter.grad = torch.from_numpy(gradient[name].copy())
        optimiser.step()
    return {name: parameter.detach().numpy() for name, parameter in parameters.items()}


def by_paper(update: Update, rates: list[float]) -> Arrays:
    """`update(name, weight, gradient, step, rate, state)` gives what a weight changes by."""
    weights, gradients = weights_and_gradients()
    states: dict[str, Arrays] = {name: {} for name in weights}
    for step, (gradient, lr) in enumerate(zip(gradients, rates, strict=True), 1):
        for name in weights:
            weights[name] = weights[name] - update(weights[name], gradient[name], step, lr, states[name])
    return weights


def nesterov(decay: float, momentum: float, spared: bool = False) -> Update:
    def update(w: np.ndarray, g: np.ndarray, _step: int, lr: float, state: Arrays) -> np.ndarray:
        g = g + (0.0 if spared and w.ndim == 1 else decay) * w
        state["v"] = momentum * state.get("v", 0) + g
        return lr * (g + momentum * state["v"])

    return update


def lars(decay: float, momentum: float, coefficient: float, spared: bool = False) -> Update:
    def update(w: np.ndarray, g: np.ndarray, _step: int, lr: float, state: Arrays) -> np.ndarray:
        d = 0.0 if spared and w.ndim == 1 else decay
        norm = np.sqrt((w**2).sum())
        scaled = w.ndim > 1 and norm > 0
        trust = coefficient * norm / (np.sqrt((g**2).sum()) + d * norm) if scaled else 1.0
        state["v"] = momentum * state.get("v", 0) + lr * trust * (g + d * w)
        return state["v"]

    return update


def lamb(decay: float, spared: bool = False) -> Update:
    def update(w: np.ndarray, g: np.ndarray, step: int, lr: float, state: Arrays) -> np.ndarray:
        d = 0.0 if spared and w.ndim == 1 else decay
        state["m"] = 0.9 * state.get("m", 0) + 0.1 * g
        state["v"] = 0.999 * state.get("v", 0) + 0.001 * g**2
        r = (state["m"] / (1 - 0.9**step)) / (np.sqrt(state["v"] / (1 - 0.999**step)) + LAMB_EPSILON)
        u = r + d * w
        norm = np.sqrt((w**2).sum())
        return lr * (norm / np.sqrt((u**2).sum()) if w.ndim > 1 and norm > 0 else 1.0) * u

    return update


RATES = [0.1, 0.2, 0.3, 0.2, 0.1, 0.05]


@pytest.mark.parametrize("spared", [False, True])
@pytest.mark.parametrize(
    ("keys", "paper"),
    [
        ({"optimiser": "lars", "trust_coefficient": 0.02, "momentum": 0.8}, lambda d, s: lars(d, 0.8, 0.02, s)),
        ({"optimiser": "lamb"}, lamb),
        ({"optimiser": "nesterov", "momentum": 0.8}, lambda d, s: nesterov(d, 0.8, s)),
    ],
    ids=["lars", "lamb", "nesterov"],
)
def test_the_formulas_are_the_papers(
    keys: dict[str, Any], paper: Callable[[float, bool], Update], spared: bool
) -> None:
    recipe = arm(**keys, weight_decay=0.03, weight_decay_on_norm_and_bias=not spared)
    found, expected = by_torch(recipe, RATES), by_paper(paper(0.03, spared), RATES)
    for name in SHAPES:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-10, atol=1e-14, err_msg=name)

"""The optimisers of an arm. torch has neither LARS nor LAMB; these are the papers' formulas and no more.

Maintained libraries have both, but fix choices that are separate remedies here: pytorch_optimizer's LARS has no weight
decay on batch-norm and biases, and its LAMB has no bias correction.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import SGD, Optimizer

from dpscale.schemas.settings import TrainingSettings

LAMB_BETAS = (0.9, 0.999)
LAMB_EPSILON = 1e-6


def build_optimiser(arm: TrainingSettings, groups: Iterable[dict[str, Any]]) -> Optimizer:
    """The optimiser of `arm` over parameter groups that hold their own weight decay."""
    if arm.optimiser == "lamb":
        return Lamb(groups, arm.learning_rate)
    if arm.optimiser == "lars":
        return Lars(groups, arm.learning_rate, arm.momentum, arm.trust_coefficient)
    return SGD(
        list(groups),
        lr=arm.learning_rate,
        momentum=arm.momentum,
        nesterov=arm.optimiser == "nesterov",
        fused=arm.fused_optimiser or None,
    )


class Lars(Optimizer):
    """Layer-wise adaptive rate scaling (You et al. 2017, algorithm 1): v = m*v + rate*trust*(g + d*w), w = w - v.

    With trust = coefficient * |w| / (|g| + d*|w|), for weight decay d. As the authors have it, parameters of one
    dimension (batch-norm, biases) are not scaled; nor is one that is, or whose gradient is, zero: it would never move.
    """

    def __init__(self, groups: Iterable[dict[str, Any]], lr: float, momentum: float, trust_coefficient: float):
        defaults = {"lr": lr, "momentum": momentum, "trust_coefficient": trust_coefficient, "weight_decay": 0.0}
        super().__init__(list(groups), defaults)

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        """Take one step."""
        for group in self.param_groups:
            decay = group["weight_decay"]
            for weight in _with_gradient(group):
                update = weight.grad.add(weight, alpha=decay)
                if weight.dim() > 1:
                    norm = weight.norm()
                    update *= _ratio(group["trust_coefficient"] * norm, weight.grad.norm() + decay * norm)
                state = self.state[weight]
                if not state:
                    state["velocity"] = torch.zeros_like(weight)
                state["velocity"].mul_(group["momentum"]).add_(update, alpha=group["lr"])
                weight.sub_(state["velocity"])


class Lamb(Optimizer):
    """Layer-wise adaptive moments (You et al. 2020, algorithm 2): w = w - rate * |w|/|u| * u, with u = r + d*w.

    r is Adam's step with its bias corrected, d weight decay, and the paper's phi the identity. As for LARS, parameters
    of one dimension are not scaled, nor is one where either norm is zero.
    """

    def __init__(self, groups: Iterable[dict[str, Any]], lr: float):
        super().__init__(list(groups), {"lr": lr, "weight_decay": 0.0})

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        """Take one step."""
        first, second = LAMB_BETAS
        for group in self.param_groups:
            for weight in _with_gradient(group):
                state = self.state[weight]
                if not state:
                    state |= {"steps": 0, "mean": torch.zeros_like(weight), "square": torch.zeros_like(weight)}
                state["steps"] += 1
                state["mean"].lerp_(weight.grad, 1 - first)
                state["square"].mul_(second).addcmul_(weight.grad, weight.grad, value=1 - second)
                root = (state["square"] / (1 - second ** state["steps"])).sqrt().add_(LAMB_EPSILON)
                update = (state["mean"] / (1 - first ** state["steps"])).div_(root)
                update.add_(weight, alpha=group["weight_decay"])
                if weight.dim() > 1:
                    update *= _ratio(weight.norm(), update.norm())
                weight.sub_(update, alpha=group["lr"])


def _with_gradient(group: dict[str, Any]) -> list[Any]:
    return [parameter for parameter in group["params"] if parameter.grad is not None]


def _ratio(norm: Tensor, divisor: Tensor) -> Tensor:
    """The quotient, or 1 where either is zero. Waits for no device."""
    return torch.where((norm > 0) & (divisor > 0), norm / divisor, torch.ones_like(norm))

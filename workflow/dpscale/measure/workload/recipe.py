"""The recipe of an arm: what its settings do to rate, groups of parameters, and the update.

torch has neither LARS nor LAMB; these are the papers' formulas and no more. Maintained libraries have both, but fix
choices that are separate remedies here: pytorch_optimizer's LARS has no weight decay on batch-norm and biases, and its
LAMB has no bias correction.
"""

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, Optimizer

from dpscale.schemas.settings import TrainingSettings

ParameterGroup = dict[str, Any]  # as torch's optimisers have them

# The global batch that learning rates are given for, the baseline's: scaling multiplies by what is above it.
REFERENCE_BATCH = 128
LAMB_BETAS = (0.9, 0.999)
LAMB_EPSILON = 1e-6


def peak_rate(arm: TrainingSettings) -> float:
    """Return the learning rate after the warm-up: scaled with the global batch over REFERENCE_BATCH, linearly
    (Goyal et al. 2017), by the square root (Krizhevsky 2014), or not."""
    factor = arm.global_batch / REFERENCE_BATCH
    factors = {"none": 1.0, "linear": factor, "square_root": math.sqrt(factor)}
    return arm.learning_rate * factors[arm.learning_rate_scaling]


def rate(arm: TrainingSettings, epoch: float) -> float:
    """Return the learning rate after so many epochs, from 0 to the arm's; fractions count.

    The warm-up is linear from zero (Goyal et al. 2017, section 2.2). After it the rate stays (constant), follows half a
    cosine to zero (Loshchilov and Hutter 2017), or a straight line to zero (one_cycle: with the warm-up the
    triangle of Smith and Topin 2018).
    """
    peak = peak_rate(arm)
    if epoch < arm.warmup_epochs:
        return peak * epoch / arm.warmup_epochs
    after_warmup = arm.epochs - arm.warmup_epochs
    progress = (epoch - arm.warmup_epochs) / after_warmup if after_warmup else 1.0
    if arm.schedule == "cosine":
        return peak * (1 + math.cos(math.pi * progress)) / 2
    if arm.schedule == "one_cycle":
        return peak * (1 - progress)
    return peak


def rate_of_step(arm: TrainingSettings, epoch: int, step: int, steps: int) -> float:
    """Return the learning rate of a step of an epoch of `steps` steps, all counted from 0: the rate at its middle.

    So no step is lost to a rate of zero, and the mean over an epoch is the same for every batch.
    """
    return rate(arm, epoch + (step + 0.5) / steps)


def parameter_groups(arm: TrainingSettings, parameters: Iterable[tuple[str, nn.Parameter]]) -> list[ParameterGroup]:
    """Return named parameters in groups of one weight decay and one `rate_factor`, the multiple of the rate.

    Batch-norm's weights and all biases are the parameters of one dimension.
    """
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, parameter in parameters:
        decays = arm.weight_decay_on_norm_and_bias or parameter.dim() > 1
        factor = arm.bias_rate_factor if name.endswith("bias") else 1.0
        groups.setdefault((arm.weight_decay if decays else 0.0, factor), []).append(parameter)
    return [
        {"params": members, "weight_decay": decay, "rate_factor": factor} for (decay, factor), members in groups.items()
    ]


def build_optimiser(arm: TrainingSettings, groups: Iterable[ParameterGroup]) -> Optimizer:
    """Return the optimiser of `arm` over parameter groups that hold their own weight decay."""
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

    def __init__(self, groups: Iterable[ParameterGroup], lr: float, momentum: float, trust_coefficient: float):
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

    def __init__(self, groups: Iterable[ParameterGroup], lr: float):
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


def _with_gradient(group: ParameterGroup) -> list[Any]:
    return [parameter for parameter in group["params"] if parameter.grad is not None]


def _ratio(norm: Tensor, divisor: Tensor) -> Tensor:
    """Return the quotient, or 1 where either is zero. Waits for no device."""
    return torch.where((norm > 0) & (divisor > 0), norm / divisor, torch.ones_like(norm))

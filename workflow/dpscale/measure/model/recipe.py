"""What an arm's remedies do to rate, batch and parameters: pure functions, free of torch."""

import math
from collections.abc import Iterable
from typing import Any

from dpscale.plan.contradictions import REFERENCE_BATCH
from dpscale.schemas.settings import TrainingSettings


def peak_rate(arm: TrainingSettings) -> float:
    """The learning rate after the warm-up: scaled linearly (Goyal et al. 2017), by the square root (Krizhevsky 2014),
    or not, with the first global batch over REFERENCE_BATCH."""
    times = arm.global_batch / REFERENCE_BATCH
    factors = {"none": 1.0, "linear": times, "square_root": math.sqrt(times)}
    return arm.learning_rate * factors[arm.learning_rate_scaling]


def rate(arm: TrainingSettings, epoch: float) -> float:
    """The learning rate after so many epochs, from 0 to the arm's; fractions count.

    The warm-up is linear from `warmup_start` of the peak (Goyal et al. 2017, section 2.2). After it the rate stays
    (constant), follows half a cosine to zero (Loshchilov and Hutter 2017), a straight line to zero (one_cycle: with the
    warm-up the triangle of Smith and Topin 2018), or is lowered at given epochs (step).
    """
    peak = peak_rate(arm)
    if epoch < arm.warmup_epochs:
        return peak * (arm.warmup_start + (1 - arm.warmup_start) * epoch / arm.warmup_epochs)
    after_warmup = arm.epochs - arm.warmup_epochs
    progress = (epoch - arm.warmup_epochs) / after_warmup if after_warmup else 1.0
    if arm.schedule == "cosine":
        return peak * (1 + math.cos(math.pi * progress)) / 2
    if arm.schedule == "one_cycle":
        return peak * (1 - progress)
    return peak * arm.step_factor ** sum(epoch >= start for start in arm.step_epochs)


def rate_of_step(arm: TrainingSettings, epoch: int, step: int, steps: int) -> float:
    """The learning rate of a step of an epoch of `steps` steps, all counted from 0: that at the step's middle.

    So no step is lost to a rate of zero, and the mean over an epoch is the same for every batch.
    """
    return rate(arm, epoch + (step + 0.5) / steps)


def batch_growth(arm: TrainingSettings, epoch: int) -> int:
    """The factor of the batch in an epoch, counted from 0 (Smith et al. 2018)."""
    return int(arm.batch_growth_factor ** sum(epoch >= start for start in arm.batch_growth_epochs))


def parameter_groups(arm: TrainingSettings, parameters: Iterable[tuple[str, Any]]) -> list[dict[str, Any]]:
    """Named parameters in groups of one weight decay and one `rate_factor`, the multiple of the rate they get.

    Batch-norm's weights and all biases are the parameters of one dimension.
    """
    groups: dict[tuple[float, float], list[Any]] = {}
    for name, parameter in parameters:
        decays = arm.weight_decay_on_norm_and_bias or parameter.dim() > 1
        factor = arm.bias_rate_factor if name.endswith("bias") else 1.0
        groups.setdefault((arm.weight_decay if decays else 0.0, factor), []).append(parameter)
    return [
        {"params": members, "weight_decay": decay, "rate_factor": factor} for (decay, factor), members in groups.items()
    ]

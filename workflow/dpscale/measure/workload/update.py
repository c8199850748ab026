"""A training step: forward and backward pass, in micro-batches where that is asked for, and the update of weights."""

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from dpscale.measure.workload.batches import Batch, Step, length, shares, to_device
from dpscale.schemas.settings import StepSettings, WholeStepSettings


def nothing() -> None:
    """Do nothing."""


class Update:
    """Makes gradients of a batch, and new weights of them.

    A batch is cut into `accumulate` micro-batches, whose gradients add up to those of the batch; ranks exchange them in
    the last one alone. In float16 the loss is scaled (Micikevicius et al. 2018, section 3.2): where a gradient
    overflows all the same, the update is skipped, the scale is halved, and `was_skipped` is called.
    """

    def __init__(
        self,
        network: nn.Module,
        optimiser: Optimizer,
        settings: StepSettings,
        was_skipped: Callable[[], None] = nothing,
    ):
        self._optimiser = optimiser
        self._without_exchange = getattr(network, "no_sync", nullcontext)
        self._micro_batches = settings.accumulate if isinstance(settings, WholeStepSettings) else 1
        self._scaler = torch.amp.GradScaler(settings.device) if settings.precision == "float16" else None
        self._was_skipped, self._is_made = was_skipped, True
        if self._scaler is not None:
            optimiser.register_step_post_hook(self._note)

    def make_gradients(self, batch: Batch, loss: Callable[[Batch], Tensor]) -> None:
        """Put the gradients of the `loss` of a batch, the mean over its samples, in place of the last step's."""
        self._optimiser.zero_grad()
        if self._micro_batches == 1:
            return self.backward(loss(batch))
        *first, last = (samples for samples in shares(batch, self._micro_batches) if length(samples))
        with self._without_exchange():
            for micro_batch in first:
                self.backward(loss(micro_batch) * (length(micro_batch) / length(batch)))
        return self.backward(loss(last) * (length(last) / length(batch)))

    def backward(self, loss: Tensor | list[Tensor]) -> None:
        """Add the gradients of a loss, or of losses on several devices."""
        scaled: Any = loss if self._scaler is None else self._scaler.scale(loss)
        torch.autograd.backward(scaled)

    def unscale(self) -> None:
        """Give gradients the size that they have without a scale, to be clipped."""
        if self._scaler is not None:
            self._scaler.unscale_(self._optimiser)

    def step(self) -> None:
        """Update the weights."""
        if self._scaler is None:
            self._optimiser.step()
            return
        self._is_made = False
        self._scaler.step(self._optimiser)
        self._scaler.update()
        if not self._is_made:
            self._was_skipped()

    def _note(self, *_: Any) -> None:
        self._is_made = True


def training_step(
    network: nn.Module,
    optimiser: Optimizer,
    loss: Callable[[nn.Module, Batch], Tensor],
    device: torch.device,
    memory_format: torch.memory_format,
    update: Update | None = None,
) -> Step:
    """Return a step: copy to the device, forward, backward, update. It waits for nothing, but in float16 for whether a
    gradient overflows."""
    updating = update or Update(network, optimiser, StepSettings(device=device.type))
    loss_of = partial(loss, network)

    def step(batch: Batch) -> None:
        updating.make_gradients(to_device(batch, device, memory_format), loss_of)
        updating.step()

    return step

"""Gradients that are averaged when the backward pass has ended, as lectures build it before they let both overlap."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd import Variable

from dpscale.strategies.in_torch import Steps, StepVariant, alone
from dpscale.strategies.strategy import ALONE, WHOLE


class AveragedAfterBackward(nn.Module):
    """A network whose gradients `average` replaces by their averages over all ranks, after every backward pass.

    All ranks begin with the weights and buffers of rank 0. Later buffers, such as the statistics of batch-norm, stay
    each rank's own.
    """

    def __init__(self, network: nn.Module, average: Callable[[Sequence[Tensor]], None]):
        super().__init__()
        self.network = network
        for tensor in network.state_dict().values():
            dist.broadcast(tensor, src=0)
        self._average = average
        self._weights = [weight for weight in network.parameters() if weight.requires_grad]
        self._is_asked_for, self._is_synchronised = False, True
        for weight in self._weights:
            weight.register_post_accumulate_grad_hook(self._ask_for_average)

    def forward(self, *inputs: Any, **named: Any) -> Any:
        return self.network(*inputs, **named)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Within it gradients stay each rank's own, and add up."""
        self._is_synchronised = False
        try:
            yield
        finally:
            self._is_synchronised = True

    def _ask_for_average(self, _: Tensor) -> None:
        """Have the average made at the end of this backward pass; the first gradient that is there asks for it."""
        if self._is_synchronised and not self._is_asked_for:
            self._is_asked_for = True
            Variable._execution_engine.queue_callback(self._average_all)

    def _average_all(self) -> None:
        self._is_asked_for = False
        for weight in self._weights:
            if weight.grad is None:  # another rank may have one
                weight.grad = weight.new_zeros(weight.shape)
        self._average([weight.grad for weight in self._weights if weight.grad is not None])


def rungs(steps: Steps) -> dict[str, StepVariant]:
    """Return the rungs: each does what the rung before it does, and one thing more."""
    return {ALONE: alone(steps), "together": steps.plain, WHOLE: steps.whole_step()}

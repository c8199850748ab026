"""The average of gradients in few kernels.

torch's reducer fills its buckets with one kernel for every weight. In a step of a millisecond these are a tenth of it:
here one multi-tensor kernel fills a whole message. NCCL divides by the number of ranks while it adds up.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from dpscale.errors import StrategyError

# Small, so that little is left to send when the backward pass ends.
MESSAGE_MB = 4


class ForeachReducer(nn.Module):
    """A network on one device whose gradients are the averages over all ranks when its backward pass has ended.

    A message is sent as soon as `message_mb` MiB of gradients are there, while the backward pass goes on; as `dtype`,
    or as they are. Every weight needs a gradient in every step. Raises StrategyError where that cannot be.
    """

    def __init__(self, network: nn.Module, message_mb: float, dtype: torch.dtype | None = None):
        super().__init__()
        self.network = network
        self._weights = [weight for weight in network.parameters() if weight.requires_grad]
        if len(kinds := {weight.dtype for weight in self._weights}) > 1:
            raise StrategyError(f"ddp.reducer: foreach needs weights of one type: {sorted(map(str, kinds))}")
        self._message_bytes = message_mb * 2**20
        self._dtype = dtype
        self._ready: list[nn.Parameter] = []
        self._missing = len(self._weights)
        self._sent: list[Callable[[], None]] = []
        for tensor in network.state_dict().values():
            dist.broadcast(tensor, src=0)
        for weight in self._weights:
            weight.register_post_accumulate_grad_hook(self._has_gradient)

    def forward(self, *inputs: Any, **named: Any) -> Any:
        if self._missing != len(self._weights):
            raise StrategyError(
                f"ddp.reducer: {self._missing} weights had no gradient in a step, and foreach needs one for each: use "
                "torch's reducer"
            )
        return self.network(*inputs, **named)

    def _has_gradient(self, weight: Tensor) -> None:
        self._ready.append(weight)  # type: ignore[arg-type]
        self._missing -= 1
        if not self._missing or sum(each.nbytes for each in self._ready) >= self._message_bytes:
            self._sent.append(self.average(self._ready))
            self._ready = []
        if not self._missing:
            for arrive in self._sent:
                arrive()
            self._sent, self._missing = [], len(self._weights)

    def average(self, weights: list[nn.Parameter]) -> Callable[[], None]:
        """Send the gradients of `weights` as one message; what is returned waits until their averages are in place."""
        gradients = [weight.grad for weight in weights if weight.grad is not None]
        sizes = [gradient.numel() for gradient in gradients]
        message = torch.empty(sum(sizes), dtype=self._dtype or gradients[0].dtype, device=gradients[0].device)
        parts = [
            part.as_strided(gradient.size(), gradient.stride())
            for part, gradient in zip(message.split(sizes), gradients, strict=True)
        ]
        torch._foreach_copy_(parts, gradients)
        wait = self.send(message)

        def arrive() -> None:
            wait()
            if self._dtype:
                torch._foreach_copy_(gradients, parts)
            else:
                for weight, part in zip(weights, parts, strict=True):
                    weight.grad = part

        return arrive

    def send(self, message: Tensor) -> Callable[[], Any]:
        """Begin to average `message` over all ranks, in its place; what is returned waits for it."""
        if message.is_cuda:
            return dist.all_reduce(message, dist.ReduceOp.AVG, async_op=True).wait
        message.div_(dist.get_world_size())  # gloo has no average
        return dist.all_reduce(message, async_op=True).wait

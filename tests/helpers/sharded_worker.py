"""A worker that trains with ddp and with fsdp from the same weights, on the same images, and notes what fsdp sends."""

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from dpscale.measure.worker.step_worker import StepWorker
from dpscale.strategies.in_torch import parallelise

STEPS = 6
# The name here, and the argument that is the whole message, by torch's own operation.
COLLECTIVES = {"c10d::_allgather_base_": ("all_gather", 0), "c10d::_reduce_scatter_base_": ("reduce_scatter", 1)}


class ShardedWorker(StepWorker):
    def results(self) -> dict[str, Any]:
        return {"losses": self.losses, "sent": self.sent}

    def measure(self) -> None:
        self.losses = {name: self.trained(name) for name in ("ddp", "fsdp")}
        step = self.step_of(*self.build())
        step(self.batch_of(0))
        with Sent() as seen:
            step(self.batch_of(1))
        self.sent = seen.messages

    def trained(self, strategy: str) -> list[float]:
        network = parallelise(self.build_network(), strategy, self.devices, self.settings)
        optimiser, losses = self.optimiser_of(network), []
        for number in range(STEPS):
            optimiser.zero_grad()
            loss = self.workload.loss(network, self.batch_of(number))
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
        return losses

    def batch_of(self, number: int) -> Any:
        """A batch that differs on every rank and in every step."""
        torch.manual_seed(2 * number + self.rank)
        return self.made_up_batch(self.batch)


class Sent(TorchDispatchMode):
    """Collectives as torch dispatches them: operation and bytes."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.messages: list[tuple[str, int]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func._schema.name in COLLECTIVES:
            operation, place = COLLECTIVES[func._schema.name]
            self.messages.append((operation, args[place].numel() * args[place].element_size()))
        return func(*args, **(kwargs or {}))


WORKER = ShardedWorker

"""A worker that trains with ddp and with fsdp from the same weights, on the same images, and notes what fsdp sends."""

from typing import Any

import torch
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode

from dpscale.measure.worker.step_worker import StepWorker
from dpscale.strategies.in_torch import parallelise

STEPS = 6
# The name here, the argument that is the whole message, and that of the group, by torch's own operation.
COLLECTIVES = {
    "c10d::_allgather_base_": ("all_gather", 0, 2),
    "c10d::_reduce_scatter_base_": ("reduce_scatter", 1, 2),
    "c10d::allreduce_": ("allreduce", 0, 1),
    "c10d::broadcast_": ("broadcast", 0, 1),
}


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
    """Collectives as torch dispatches them: operation, bytes of the whole message, and the ranks that take part."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.messages: list[tuple[str, int, int]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func._schema.name in COLLECTIVES:
            operation, place, group = COLLECTIVES[func._schema.name]
            sent = args[place] if isinstance(args[place], list) else [args[place]]
            members = dist.ProcessGroup.unbox(args[group]).size()
            self.messages.append((operation, sum(tensor.nbytes for tensor in sent), members))
        return func(*args, **(kwargs or {}))


WORKER = ShardedWorker

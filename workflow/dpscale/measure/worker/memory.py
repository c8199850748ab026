"""Memory of a training step on one device: what its tensors add up to, and what torch's allocator holds for them."""

from collections.abc import Callable, Iterable
from functools import partial

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer

from dpscale.measure.workload.batches import Batch, Step
from dpscale.measure.workload.work import work_of
from dpscale.records.kinds import AllocatedMemory, StepMemory

# Steps before the one that is looked at: the optimiser has its state after the first one, and DDP its buckets after the
# second.
STEPS_BEFORE = 3
Loss = Callable[[nn.Module, Batch], Tensor]


class WatchedForward:
    """A loss that notes what its forward pass keeps for the backward pass: in tensors, and in the allocator."""

    def __init__(self, loss: Loss, device: torch.device):
        self._loss, self._device = loss, device
        self.saved_bytes, self.activations_bytes = 0, 0

    def __call__(self, network: nn.Module, batch: Batch) -> Tensor:
        storages: dict[int, int] = {}
        before_bytes = allocated_bytes(self._device)
        with saved_tensors_hooks(partial(self._note, storages), _as_it_is):
            loss = self._loss(network, batch)
        self.activations_bytes = max(self.activations_bytes, allocated_bytes(self._device) - before_bytes)
        self.saved_bytes = max(self.saved_bytes, sum(storages.values()))
        return loss

    def _note(self, storages: dict[int, int], tensor: Tensor) -> Tensor:
        """Count the memory that a saved tensor lies in, once, but for that of weights, also where fsdp gathered
        them."""
        if not isinstance(tensor if tensor._base is None else tensor._base, nn.Parameter):
            storage = tensor.untyped_storage()
            storages[storage.data_ptr()] = storage.nbytes()
        return tensor


def memory_of_step(
    build: Callable[[], tuple[nn.Module, Optimizer]],
    step_of: Callable[[nn.Module, Optimizer, Loss], Step],
    loss: Loss,
    batch: Batch,
    device: torch.device,
    is_counted: bool = False,
) -> StepMemory:
    """Build a network, make some steps with a batch, and return their memory on `device`, where the batch lies; with
    the work of one, if it `is_counted`.

    Where a strategy's threads compute on several devices, tensors that they save for the backward pass are not seen.
    """
    _hold_workspaces(device)
    start_bytes = allocated_bytes(device)
    network, optimiser = build()
    built_bytes = allocated_bytes(device) - start_bytes
    step = step_of(network, optimiser, loss)
    for _ in range(STEPS_BEFORE):
        step(batch)
    counted = {
        "weights_bytes": local_bytes([*network.parameters(), *network.buffers()]),
        "gradients_bytes": local_bytes(weight.grad for weight in network.parameters() if weight.grad is not None),
        "optimiser_bytes": local_bytes(state_of(optimiser)),
    }
    with_gradients_bytes = allocated_bytes(device) - start_bytes
    optimiser.zero_grad()
    without_gradients_bytes = allocated_bytes(device) - start_bytes
    watched = WatchedForward(loss, device)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    step_of(network, optimiser, watched)(batch)
    allocated = AllocatedMemory(
        built_bytes=built_bytes,
        gradients_bytes=with_gradients_bytes - without_gradients_bytes,
        optimiser_bytes=without_gradients_bytes - built_bytes,
        activations_bytes=watched.activations_bytes,
        peak_bytes=torch.cuda.max_memory_allocated(device) - start_bytes if device.type == "cuda" else 0,
    )
    return StepMemory(
        **counted,
        work=work_of(network, partial(step, batch)) if is_counted else None,
        saved_bytes=watched.saved_bytes,
        allocated=allocated if device.type == "cuda" else None,
    )


def allocated_bytes(device: torch.device) -> int:
    """Return what torch's allocator holds for tensors on a device; 0 on a CPU, where nobody counts."""
    return torch.cuda.memory_allocated(device) if device.type == "cuda" else 0


def local_bytes(tensors: Iterable[Tensor]) -> int:
    """Return the bytes of tensors on this rank: of those with shards, its own."""
    return sum((tensor.to_local() if isinstance(tensor, DTensor) else tensor).nbytes for tensor in tensors)


def state_of(optimiser: Optimizer) -> list[Tensor]:
    """Return the tensors that an optimiser keeps on this rank from step to step."""
    local: Optimizer = getattr(optimiser, "optim", optimiser)  # torch's ZeroRedundancyOptimizer holds the rank's own
    return [value for state in local.state.values() for value in state.values() if isinstance(value, Tensor)]


def _hold_workspaces(device: torch.device) -> None:
    """Let cuBLAS take the workspaces that it keeps for good, one for forward and one for backward passes: they would
    count as the first network's."""
    square = torch.ones(64, 64, device=device, requires_grad=True)
    (square @ square).sum().backward()


def _as_it_is(tensor: Tensor) -> Tensor:
    return tensor

"""The work of a training step, counted operator by operator: what it computes, and what it moves at most."""

from collections.abc import Callable
from typing import Any

from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from dpscale.measure.workload.batches import size_bytes, tensors
from dpscale.records.kinds import StepWork

# Layers whose work torch's counter does not see.
UNCOUNTED = (nn.RNNBase,)


class MovedBytes(TorchDispatchMode):
    """Adds up the bytes that every operator is given and returns; of one that returns nothing, all that it is given
    counts as written too. That is as if each read and wrote memory, and nothing stayed in a cache or in one kernel with
    what comes after it."""

    total = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        # Neither reads nor writes what makes room alone, or shows the same memory in another shape.
        if not (func.is_view or "empty" in str(func) or "_unsafe_view" in str(func)):
            self.total += size_bytes([args, kwargs, result if tensors(result) else args])
        return result


def is_counted(network: nn.Module) -> bool:
    """Whether torch's counter sees the work of all layers."""
    return not any(isinstance(module, UNCOUNTED) for module in network.modules())


def work_of(network: nn.Module, step: Callable[[], Any]) -> StepWork | None:
    """Make a step of a network, and return its work; None where that cannot be counted."""
    if not is_counted(network):
        return None
    try:
        with FlopCounterMode(display=False) as counter, MovedBytes() as moved:  # type: ignore[no-untyped-call]
            step()
    except NotImplementedError:  # of an operator that no mode sees into, such as flex_attention
        return None
    return StepWork(counter.get_total_flops(), moved.total)

"""What a network computes in."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map


class Autocast(nn.Module):
    """A network that computes in bfloat16 where autocast says so, and returns float32.

    Autocast stands inside the module because DataParallel's threads inherit whether it is on, but not its dtype.
    """

    def __init__(self, network: nn.Module, device_type: str):
        super().__init__()
        self.network = network
        self.device_type = device_type

    def forward(self, *inputs: Any, **named: Any) -> Any:
        with torch.autocast(self.device_type, dtype=torch.bfloat16):
            outputs = self.network(*inputs, **named)
        return tree_map(_as(torch.float32), outputs)


class Bfloat16(nn.Module):
    """A network whose weights and buffers are bfloat16; it takes any numbers, and returns float32."""

    def __init__(self, network: nn.Module):
        super().__init__()
        self.network = network.bfloat16()

    def forward(self, *inputs: Any, **named: Any) -> Any:
        inputs, named = tree_map(_as(torch.bfloat16), (inputs, named))
        return tree_map(_as(torch.float32), self.network(*inputs, **named))


def _as(dtype: torch.dtype) -> Callable[[Any], Any]:
    return lambda item: item.to(dtype) if isinstance(item, Tensor) and item.is_floating_point() else item


def in_precision(network: nn.Module, precision: str, device_type: str) -> nn.Module:
    """`network` for float32, float32-strict, bfloat16 or bfloat16-pure."""
    if precision == "bfloat16-pure":
        return Bfloat16(network)
    return Autocast(network, device_type) if precision == "bfloat16" else network

"""What a network computes in."""

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
        return tree_map(_as_float32, outputs)


def _as_float32(output: Any) -> Any:
    return output.float() if isinstance(output, Tensor) and output.is_floating_point() else output


def in_precision(network: nn.Module, precision: str, device_type: str) -> nn.Module:
    """`network` for float32, float32-strict or bfloat16."""
    return Autocast(network, device_type) if precision == "bfloat16" else network

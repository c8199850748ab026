"""The networks of the study, and of any network its size and its precision.

The CIFAR ResNet-18 of width 64 has K = 11,173,962 trainable parameters.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils._pytree import tree_map

from dpscale.errors import MeasurementError
from dpscale.measure.workload.dataset import CLASSES


class BasicBlock(nn.Module):
    """Two 3x3 convolutions with a shortcut around them (He et al. 2016)."""

    def __init__(self, channels_in: int, channels: int, stride: int):
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.shortcut = nn.Sequential()
        if stride != 1 or channels_in != channels:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels_in, channels, 1, stride, bias=False), nn.BatchNorm2d(channels)
            )

    def forward(self, x: Tensor) -> Tensor:
        out = functional.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        return functional.relu(out + self.shortcut(x))


class CifarResNet18(nn.Module):
    """ResNet-18 for 32x32 images: 3x3 stem, no max-pool, four stages of two blocks, `width` to 8*`width` channels.

    Maps images (batch, 3, 32, 32) to logits (batch, 10).
    """

    def __init__(self, width: int = 64):
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.stages = nn.Sequential(
            _stage(width, width, 1),
            _stage(width, 2 * width, 2),
            _stage(2 * width, 4 * width, 2),
            _stage(4 * width, 8 * width, 2),
        )
        self.linear = nn.Linear(8 * width, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        out = functional.relu(self.bn1(self.conv1(x)))
        out = functional.avg_pool2d(self.stages(out), 4)
        logits: Tensor = self.linear(out.flatten(1))
        return logits


def _stage(channels_in: int, channels: int, stride: int) -> nn.Sequential:
    return nn.Sequential(BasicBlock(channels_in, channels, stride), BasicBlock(channels, channels, 1))


def cifar_resnet50() -> nn.Module:
    """Return torchvision's ResNet-50 (He et al. 2016) with the stem of the other one: 3x3, no max-pool."""
    from torchvision.models import resnet50

    network: nn.Module = resnet50(num_classes=CLASSES)
    network.conv1 = nn.Conv2d(3, 64, 3, padding=1, bias=False)
    network.maxpool = nn.Identity()
    return network


def network_size(network: nn.Module) -> dict[str, int]:
    """Return the trainable parameters, K, and the bytes of all their gradients, K*s."""
    trainable = [parameter for parameter in network.parameters() if parameter.requires_grad]
    return {
        "parameters": sum(parameter.numel() for parameter in trainable),
        "gradient_bytes": sum(parameter.nbytes for parameter in trainable),
    }


class Autocast(nn.Module):
    """A network that computes in a short type where autocast says so, and returns float32.

    Autocast stands inside the module because DataParallel's threads inherit whether it is on, but not its dtype.
    """

    def __init__(self, network: nn.Module, device_type: str, dtype: torch.dtype = torch.bfloat16):
        super().__init__()
        self.network = network
        self.device_type = device_type
        self.dtype = dtype

    def forward(self, *inputs: Any, **named: Any) -> Any:
        with torch.autocast(self.device_type, dtype=self.dtype):
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


def require_units(precision: str, gpu: str, capability: tuple[int, int]) -> None:
    """Raise MeasurementError where a GPU of this compute capability computes in `precision` by emulation alone: units
    for bfloat16 came with Ampere, 8.0."""
    if precision.startswith("bfloat16") and capability < (8, 0):
        raise MeasurementError(f"{gpu} has no bfloat16 units: set precision to float16")


def in_precision(network: nn.Module, precision: str, device_type: str) -> nn.Module:
    """Return `network` for float32, float32-strict, bfloat16, bfloat16-pure or float16."""
    if precision == "bfloat16-pure":
        return Bfloat16(network)
    autocast = {"bfloat16": torch.bfloat16, "float16": torch.float16}
    return Autocast(network, device_type, autocast[precision]) if precision in autocast else network

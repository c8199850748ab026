"""One GPU in torch: the network is trained as it is. Nothing can be taken from its step."""

from torch import nn

from dpscale.schemas.settings import StepSettings
from dpscale.strategies.in_torch import Devices


def wrap(network: nn.Module, devices: Devices, settings: StepSettings) -> nn.Module:
    return network

"""torchvision's ResNet-50 on made-up images of 224 x 224: 25.6 million parameters, much work per image.

A workload for dpscale: `dpscale time --workload examples/resnet50.py ...`, or `workload: examples/resnet50.py` in a
study. The study's SGD trains it. A training of your own would decode files where `Noise` draws numbers.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import Dataset

SIDE = 224
CLASSES = 1_000
SAMPLES = 4_096


class Noise(Dataset[tuple[Tensor, int]]):
    """Images of noise with labels. The same index is always the same image."""

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        generator = torch.Generator().manual_seed(index)
        return torch.randn((3, SIDE, SIDE), generator=generator), index % CLASSES


def network() -> nn.Module:
    from torchvision.models import resnet50

    found: nn.Module = resnet50(num_classes=CLASSES)
    return found


def dataset() -> Dataset[tuple[Tensor, int]]:
    return Noise()


def loss(network: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    images, labels = batch
    return functional.cross_entropy(network(images), labels)

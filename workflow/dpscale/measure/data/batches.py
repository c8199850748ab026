"""Images for both scopes: the augmented epoch already in host memory, or one by one for a DataLoader."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset

from dpscale.measure.data.arrays import EPOCH_ARRAYS, TRAIN_ARRAYS

MEAN = (0.4914, 0.4822, 0.4465)
STD = (0.2023, 0.1994, 0.2010)

ImageBatch = tuple[Tensor, Tensor]  # images (batch, 3, 32, 32) float32, labels (batch,) int64
Transform = Callable[[Any], Any]


# torchvision is loaded where images are transformed one by one: workers that never do start sooner.
def augmentation() -> Transform:
    """What is drawn anew for every image: its crop, and whether it is flipped."""
    from torchvision import transforms

    drawn: Transform = transforms.Compose(
        [transforms.RandomCrop(32, padding=4), transforms.RandomHorizontalFlip(p=0.5)]
    )
    return drawn


def training_transforms() -> Transform:
    """From a PIL image to what the network is trained on."""
    from torchvision import transforms

    whole: Transform = transforms.Compose([augmentation(), transforms.ToTensor(), transforms.Normalize(MEAN, STD)])
    return whole


def normalise(pixels: Tensor, out: Tensor) -> None:
    """Write ToTensor and Normalize of `pixels`, (images, 3, 32, 32) in 8 bits, into the float32 tensor `out`."""
    out.copy_(pixels).div_(255).sub_(_of_channels(MEAN, out.device)).div_(_of_channels(STD, out.device))


@cache
def _of_channels(values: tuple[float, ...], device: torch.device) -> Tensor:
    """Copied to the device once: every copy from the host would wait for it."""
    return torch.tensor(values, device=device).view(3, 1, 1)


def preloaded_batches(
    folder: Path, rank: int, workers: int, batch: int, pinned: bool, memory_format: torch.memory_format
) -> list[ImageBatch]:
    """This rank's share of the augmented epoch as normalised batches in (pinned) host memory.

    Shares are DistributedSampler's: rank r takes images r, r + workers, ..., padded from the start so that all
    ranks have equally many. The last batch may be smaller.
    """
    images = np.load(folder / EPOCH_ARRAYS[0], mmap_mode="r")
    labels = np.load(folder / EPOCH_ARRAYS[1], mmap_mode="r")
    share = shard(len(labels), rank, workers)
    tensor = torch.empty((len(share), *images.shape[1:]), memory_format=memory_format, pin_memory=pinned)
    for part in torch.arange(len(share)).split(2048):  # in parts that stay in the cache
        normalise(torch.from_numpy(images[share[part.numpy()]]), tensor[part[0] : part[-1] + 1])
    targets = torch.from_numpy(labels[share])
    if pinned:
        targets = targets.pin_memory()
    return list(zip(tensor.split(batch), targets.split(batch), strict=True))


def shard(images: int, rank: int, workers: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Indices of the images of `rank`, as DistributedSampler(shuffle=False) assigns them."""
    return np.arange(rank, images_per_rank(images, workers) * workers, workers) % images


def images_per_rank(images: int, workers: int) -> int:
    """Images per rank and epoch: DistributedSampler pads to equal shares."""
    return -(-images // workers)


class DecodedImages(Dataset[tuple[Tensor, int]]):
    """The decoded training images with the training transforms, one by one as torchvision's CIFAR10 returns them."""

    def __init__(self, folder: Path):
        self.images = np.load(folder / TRAIN_ARRAYS[0], mmap_mode="r")
        self.labels = np.load(folder / TRAIN_ARRAYS[1])
        self.transform = training_transforms()

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.transform(Image.fromarray(self.images[index])), int(self.labels[index])

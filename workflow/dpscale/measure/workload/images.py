"""The workload that comes with dpscale: the classification of small images.

Its batches come in three ways: an epoch that is stored ready for the network, images transformed one by one for a
DataLoader, and epochs that a device makes of images in its own memory.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import Dataset

from dpscale.measure.workload.batches import Share, Workload, order_of_epoch, samples_per_rank
from dpscale.measure.workload.dataset import (
    CLASSES,
    EPOCH_ARRAYS,
    IMAGE_SIZE,
    PADDING,
    TRAIN_ARRAYS,
    Transform,
    augmentation,
)
from dpscale.measure.workload.networks import CifarResNet18, cifar_resnet50
from dpscale.schemas.settings import NetworkSettings

MEAN = (0.4914, 0.4822, 0.4465)
STD = (0.2023, 0.1994, 0.2010)
# Each draws from seeds of its own, anew in every epoch: which image comes when, and how each is cut.
STREAMS = ("order", "crops")
# Epochs per seed: more would use the random numbers of the next one.
SEEDS_APART = 2**16
# Images that are cut and normalised at once.
PREPARED_TOGETHER = 2**14

ImageBatch = tuple[Tensor, Tensor]  # images (batch, 3, 32, 32) float32, labels (batch,) int64


def image_workload(settings: NetworkSettings, folder: Path) -> Workload:
    """Return the network of the settings, trained on the images that `dpscale dataset` wrote to `folder`."""
    return Workload(
        network=cifar_resnet50 if settings.network == "cifar_resnet50" else partial(CifarResNet18, settings.width),
        dataset=partial(DecodedImages, folder),
        loss=classification_loss,
        stored_epoch=lambda share, pinned, layout: preloaded_batches(folder, *share, pinned, layout),
        device_epochs=partial(_device_epochs, folder),
        made_up=made_up_images,
    )


def classification_loss(network: nn.Module, batch: ImageBatch) -> Tensor:
    """Return the mean cross-entropy of a batch of images and labels."""
    images, labels = batch
    return functional.cross_entropy(network(images), labels)


def made_up_images(count: int, device: torch.device) -> ImageBatch:
    """Return `count` images and labels on a device, to compile and capture with."""
    images = torch.randn((count, 3, IMAGE_SIZE, IMAGE_SIZE), device=device)
    return images, torch.randint(0, CLASSES, (count,), device=device)


class DecodedImages(Dataset[tuple[Tensor, int]]):
    """The decoded training images with the training transforms, one by one as torchvision's CIFAR10 returns them."""

    def __init__(self, folder: Path):
        from torchvision import transforms

        self.images = np.load(folder / TRAIN_ARRAYS[0], mmap_mode="r")
        self.labels = np.load(folder / TRAIN_ARRAYS[1])
        self.transform: Transform = transforms.Compose(
            [augmentation(), transforms.ToTensor(), transforms.Normalize(MEAN, STD)]
        )

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.transform(Image.fromarray(self.images[index])), int(self.labels[index])


def preloaded_batches(
    folder: Path, rank: int, workers: int, batch: int, pinned: bool, memory_format: torch.memory_format
) -> list[ImageBatch]:
    """Return this rank's share of the stored epoch as normalised batches in (pinned) host memory.

    Shares are DistributedSampler's: rank r takes images r, r + workers, ..., padded from the start so that all
    ranks have equally many. The last batch may be smaller.
    """
    images = np.load(folder / EPOCH_ARRAYS[0], mmap_mode="r")
    labels = np.load(folder / EPOCH_ARRAYS[1], mmap_mode="r")
    share = shard(len(labels), rank, workers)
    tensor = torch.empty((len(share), *images.shape[1:]), memory_format=memory_format, pin_memory=pinned)
    for places in torch.arange(len(share)).split(2048):  # so many stay in the cache
        normalise(torch.from_numpy(images[share[places.numpy()]]), tensor[places[0] : places[-1] + 1])
    targets = torch.from_numpy(labels[share])
    if pinned:
        targets = targets.pin_memory()
    return list(zip(tensor.split(batch), targets.split(batch), strict=True))


def shard(images: int, rank: int, workers: int) -> NDArray[np.int64]:
    """Return the indices of the images of `rank`, as DistributedSampler(shuffle=False) assigns them."""
    return np.arange(rank, samples_per_rank(images, workers) * workers, workers) % images


def normalise(pixels: Tensor, out: Tensor) -> None:
    """Write ToTensor and Normalize of `pixels`, (images, 3, 32, 32) in 8 bits, into the float32 tensor `out`."""
    out.copy_(pixels).div_(255).sub_(_by_channel(MEAN, out.device)).div_(_by_channel(STD, out.device))


def normalised(pixels: Tensor, memory_format: torch.memory_format) -> Tensor:
    """Return ToTensor and Normalize of `pixels`, on their device."""
    out = torch.empty(pixels.shape, device=pixels.device, memory_format=memory_format)
    normalise(pixels, out)
    return out


@cache
def _by_channel(values: tuple[float, ...], device: torch.device) -> Tensor:
    """Return `values` on the device, copied there once: every copy from the host would wait for it."""
    return torch.tensor(values, device=device).view(3, 1, 1)


def random_seed(seed: int, stream: str) -> int:
    """Return the seed of one of STREAMS in the first epoch of the training with `seed`; later epochs add one each.

    Seeds of trainings count from 1. Below 2**15 of them no two trainings, epochs or streams share a number, nor one
    with any training's weights: torch's generator on the CPU uses 32 bits of a seed.
    """
    return (seed * len(STREAMS) + STREAMS.index(stream)) * SEEDS_APART


@dataclass(frozen=True)
class Crops:
    """The place of every image of an epoch in its padded original, and whether it is flipped; each (images,).

    RandomCrop with padding draws each offset evenly from 0 to 2 * padding. RandomHorizontalFlip flips every second
    image on average. An image has one crop per epoch, whichever worker takes it.
    """

    rows: Tensor
    columns: Tensor
    flipped: Tensor

    @classmethod
    def draw(cls, images: int, seed: int, epoch: int, device: torch.device) -> "Crops":
        """Return the crops of an epoch: the same for the same seed, whatever the device and the number of workers."""
        generator = torch.Generator().manual_seed(random_seed(seed, "crops") + epoch)
        offsets = torch.randint(0, 2 * PADDING + 1, (2, images), generator=generator)
        flipped = torch.rand(images, generator=generator) < 0.5
        return cls(offsets[0].to(device), offsets[1].to(device), flipped.to(device))


class DeviceImages:
    """Images and labels in a device's memory, padded with black for the crops: 8 bits per colour, (images, 40, 40).

    The colours of a pixel are one number of 32 bits, so that a crop moves a third as many numbers.
    """

    def __init__(self, images: NDArray[np.uint8], labels: NDArray[np.int64], device: torch.device):
        around = (0, 1, PADDING, PADDING, PADDING, PADDING)
        padded = functional.pad(torch.from_numpy(np.array(images)).to(device), around)
        self.padded = padded.view(torch.int32).squeeze(3)
        self.labels = torch.from_numpy(np.array(labels)).to(device)

    def __len__(self) -> int:
        return len(self.labels)

    def cut(self, chosen: Tensor, crops: Crops) -> Tensor:
        """Return the crops of the `chosen` images, as (chosen, 3, 32, 32) in 8 bits."""
        places = torch.arange(IMAGE_SIZE, device=chosen.device)
        flipped = crops.flipped[chosen][:, None]
        rows = crops.rows[chosen][:, None] + places
        columns = crops.columns[chosen][:, None] + torch.where(flipped, IMAGE_SIZE - 1 - places, places)
        return _colours(self.padded[chosen[:, None, None], rows[:, :, None], columns[:, None, :]])

    def plain(self, chosen: slice) -> Tensor:
        """Return the `chosen` images as they are, (chosen, 3, 32, 32) in 8 bits."""
        inside = slice(PADDING, PADDING + IMAGE_SIZE)
        return _colours(self.padded[chosen, inside, inside].contiguous())


def _colours(pixels: Tensor) -> Tensor:
    """Return pixels of 32 bits, (images, 32, 32), as colours, (images, 3, 32, 32) in 8 bits."""
    return pixels.view(torch.uint8).view(*pixels.shape, 4)[..., :3].permute(0, 3, 1, 2)


@dataclass
class DeviceEpochs:
    """Epochs that are shuffled, cut and normalised in a device's memory, each anew; iterating it is one epoch.

    Images are prepared many at a time, however small the batches: launches per batch would cost small ones dearly.
    """

    images: DeviceImages
    rank: int
    workers: int
    batch: int
    memory_format: torch.memory_format
    seed: int
    epoch: int = 0

    def __len__(self) -> int:
        """Return the batches of an epoch."""
        return -(-samples_per_rank(len(self.images), self.workers) // self.batch)

    def __iter__(self) -> Iterator[ImageBatch]:
        order = order_of_epoch(len(self.images), self.rank, self.workers, random_seed(self.seed, "order") + self.epoch)
        device = self.images.labels.device
        crops = Crops.draw(len(self.images), self.seed, self.epoch, device)
        self.epoch += 1
        together = max(1, PREPARED_TOGETHER // self.batch) * self.batch
        for chosen in order.to(device).split(together):
            pixels = normalised(self.images.cut(chosen, crops), self.memory_format)
            yield from zip(pixels.split(self.batch), self.images.labels[chosen].split(self.batch), strict=True)


def _device_epochs(
    folder: Path, share: Share, device: torch.device, memory_format: torch.memory_format, seed: int
) -> DeviceEpochs:
    pixels, labels = (np.load(folder / name) for name in TRAIN_ARRAYS)
    return DeviceEpochs(DeviceImages(pixels, labels, device), *share, memory_format, seed)

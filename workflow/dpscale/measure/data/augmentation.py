"""The training transforms on the device, in batches: the same distribution as torchvision's per image, but fast."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from dpscale.measure.data.batches import ImageBatch, images_per_rank, normalise
from dpscale.measure.data.dataset import IMAGE_SIZE

PADDING = 4
# What is drawn anew in every epoch: which image comes when, and how each is cut. Each draws from seeds of its own.
STREAMS = ("order", "crops")
# Epochs per seed: more would use the random numbers of the next one.
SEEDS_APART = 2**16
# Images that are cut and normalised at once.
PREPARED_TOGETHER = 2**14


@dataclass(frozen=True)
class Crops:
    """Where every image of an epoch is cut out of its padded original, and whether it is flipped; each (images,).

    RandomCrop with padding draws each offset evenly from 0 to 2 * padding. RandomHorizontalFlip flips every second
    image on average. An image has one crop per epoch, whichever worker takes it.
    """

    rows: Tensor
    columns: Tensor
    flipped: Tensor

    @classmethod
    def draw(cls, images: int, seed: int, epoch: int, device: torch.device) -> "Crops":
        """The crops of an epoch: the same for the same seed, whatever the device and the number of workers."""
        generator = torch.Generator().manual_seed(random_seed(seed, "crops") + epoch)
        offsets = torch.randint(0, 2 * PADDING + 1, (2, images), generator=generator)
        flipped = torch.rand(images, generator=generator) < 0.5
        return cls(offsets[0].to(device), offsets[1].to(device), flipped.to(device))


def random_seed(seed: int, what: str) -> int:
    """What `what`, one of STREAMS, is drawn with in the first epoch of a training with this seed; later ones add one.

    Seeds of trainings count from 1. Below 2**15 of them no two trainings, epochs
    or streams share a number, nor one with any training's weights: torch's generator on the CPU uses 32 bits of a seed.
    """
    return (seed * len(STREAMS) + STREAMS.index(what)) * SEEDS_APART


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
        """The crops of the `chosen` images, as (chosen, 3, 32, 32) in 8 bits."""
        places = torch.arange(IMAGE_SIZE, device=chosen.device)
        flipped = crops.flipped[chosen][:, None]
        rows = crops.rows[chosen][:, None] + places
        columns = crops.columns[chosen][:, None] + torch.where(flipped, IMAGE_SIZE - 1 - places, places)
        return _colours(self.padded[chosen[:, None, None], rows[:, :, None], columns[:, None, :]])

    def plain(self, chosen: slice) -> Tensor:
        """The `chosen` images as they are, (chosen, 3, 32, 32) in 8 bits."""
        inside = slice(PADDING, PADDING + IMAGE_SIZE)
        return _colours(self.padded[chosen, inside, inside].contiguous())


def _colours(pixels: Tensor) -> Tensor:
    """Pixels of 32 bits, (images, 32, 32), as colours, (images, 3, 32, 32) in 8 bits."""
    return pixels.view(torch.uint8).view(*pixels.shape, 4)[..., :3].permute(0, 3, 1, 2)


def order_of_epoch(images: int, rank: int, workers: int, seed: int) -> Tensor:
    """The images of a rank in an epoch that is shuffled with `seed`, in order, (images / workers,) rounded up.

    As DistributedSampler draws and pads them, but without its lists, which hold the GPU up when an epoch starts.
    """
    order = torch.randperm(images, generator=torch.Generator().manual_seed(seed))
    padding = -images % workers
    return torch.cat([order, order[:padding]])[rank::workers]


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
        """Batches of an epoch."""
        return -(-images_per_rank(len(self.images), self.workers) // self.batch)

    def __iter__(self) -> Iterator[ImageBatch]:
        order = order_of_epoch(len(self.images), self.rank, self.workers, random_seed(self.seed, "order") + self.epoch)
        device = self.images.labels.device
        crops = Crops.draw(len(self.images), self.seed, self.epoch, device)
        self.epoch += 1
        together = max(1, PREPARED_TOGETHER // self.batch) * self.batch
        for chosen in order.to(device).split(together):
            pixels = normalised(self.images.cut(chosen, crops), self.memory_format)
            yield from zip(pixels.split(self.batch), self.images.labels[chosen].split(self.batch), strict=True)


def normalised(pixels: Tensor, memory_format: torch.memory_format) -> Tensor:
    """ToTensor and Normalize of `pixels`, on their device."""
    out = torch.empty(pixels.shape, device=pixels.device, memory_format=memory_format)
    normalise(pixels, out)
    return out

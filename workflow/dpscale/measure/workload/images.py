"""The workload that comes with dpscale: the classification of small images."""

from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from dpscale.measure.data.arrays import TRAIN_ARRAYS
from dpscale.measure.data.augmentation import DeviceEpochs, DeviceImages
from dpscale.measure.data.batches import DecodedImages, ImageBatch, preloaded_batches
from dpscale.measure.data.dataset import IMAGE_SIZE
from dpscale.measure.model.resnet import CLASSES, build_network
from dpscale.measure.workload.workload import Share, Workload
from dpscale.schemas.settings import NetworkSettings


def image_workload(settings: NetworkSettings, folder: Path) -> Workload:
    """The network of the settings, trained on the images that `dpscale dataset` wrote to `folder`."""
    return Workload(
        name=settings.network,
        network=partial(build_network, settings.network, settings.width),
        dataset=partial(DecodedImages, folder),
        loss=classification_loss,
        stored_epoch=lambda share, pinned, layout: preloaded_batches(folder, *share, pinned, layout),
        device_epochs=partial(_device_epochs, folder),
        made_up=made_up_images,
    )


def classification_loss(network: nn.Module, batch: ImageBatch) -> Tensor:
    """The mean cross-entropy of a batch of images and labels."""
    images, labels = batch
    return functional.cross_entropy(network(images), labels)


def made_up_images(count: int, device: torch.device) -> ImageBatch:
    """`count` images and labels on a device, to compile and capture with."""
    images = torch.randn((count, 3, IMAGE_SIZE, IMAGE_SIZE), device=device)
    return images, torch.randint(0, CLASSES, (count,), device=device)


def _device_epochs(
    folder: Path, share: Share, device: torch.device, memory_format: torch.memory_format, seed: int
) -> DeviceEpochs:
    pixels, labels = (np.load(folder / name) for name in TRAIN_ARRAYS)
    return DeviceEpochs(DeviceImages(pixels, labels, device), *share, memory_format, seed)

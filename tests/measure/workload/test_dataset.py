"""The dataset: every source, and everything that can be wrong with it."""

from collections.abc import Callable
from itertools import product
from os import truncate
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DistributedSampler

from dpscale.errors import DatasetError
from dpscale.measure.workload.dataset import ARRAYS, make_dataset, read_manifest
from dpscale.measure.workload.images import MEAN, STD, DecodedImages, preloaded_batches, shard
from dpscale.measure.workload.loading import LoadedEpochs

CLASSES = [f"class{number}" for number in range(10)]


@pytest.fixture(scope="module")
def synthetic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("synthetic")
    make_dataset("synthetic", folder, False, 101, folder)
    return folder


@pytest.fixture
def image_folder(tmp_path: Path) -> Path:
    generator = np.random.default_rng(0)
    for split, count in (("train", 3), ("test", 1)):
        for label in CLASSES:
            (tmp_path / "images" / split / label).mkdir(parents=True)
            for number in range(count):
                pixels = generator.integers(0, 256, (32, 32, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(tmp_path / "images" / split / label / f"{number}.png")
    return tmp_path / "images"


def test_the_epoch_is_every_image_once_cropped_and_perhaps_flipped(tmp_path: Path) -> None:
    make_dataset("synthetic", tmp_path, False, 21, tmp_path)
    images, labels, _, _, epoch, epoch_labels = (np.load(tmp_path / name) for name in ARRAYS)
    padded = np.pad(images, ((0, 0), (4, 4), (4, 4), (0, 0)))
    crops = {
        padded[index, top : top + 32, left : left + 32][:, ::direction].tobytes(): index
        for index, top, left, direction in product(range(21), range(9), range(9), (1, -1))
    }
    origins = [crops[image.tobytes()] for image in epoch.transpose(0, 2, 3, 1)]
    assert sorted(origins) == list(range(21)) != origins
    assert labels[origins].tolist() == epoch_labels.tolist()


def test_preloaded_batches_are_what_torchvision_makes_of_the_images(synthetic: Path) -> None:
    from torchvision import transforms

    normal = transforms.Compose([transforms.ToTensor(), transforms.Normalize(MEAN, STD)])
    pixels = np.load(synthetic / "epoch_images.npy").transpose(0, 2, 3, 1)
    expected = torch.stack([normal(Image.fromarray(image)) for image in pixels])
    batches = preloaded_batches(synthetic, 0, 1, 32, False, torch.channels_last)
    assert [len(labels) for _, labels in batches] == [32, 32, 32, 5]
    assert torch.equal(torch.cat([images for images, _ in batches]), expected)
    assert batches[0][0].is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize(("rank", "workers"), [(0, 1), (0, 4), (3, 4)])
def test_shares_are_those_of_distributed_sampler(synthetic: Path, rank: int, workers: int) -> None:
    sampler: DistributedSampler[Any] = DistributedSampler(DecodedImages(synthetic), workers, rank, shuffle=False)
    assert list(sampler) == shard(101, rank, workers).tolist()


def test_loaded_epochs_differ_and_cover_all_images(synthetic: Path) -> None:
    epochs = LoadedEpochs(DecodedImages(synthetic), (0, 2, 16), 0, False)
    first, second = ([labels.tolist() for _, labels in epochs] for _ in range(2))
    assert len(epochs) == len(first) == 4  # ceil(51 / 16)
    assert first != second


def test_an_image_folder(image_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    manifest = make_dataset("imagefolder", image_folder, False, 30, tmp_path / "out")
    assert (manifest.images, manifest.test_images, manifest.classes) == (30, 10, CLASSES)
    assert manifest.root == "~/images"
    labels = np.load(tmp_path / "out" / "train_labels.npy")
    pixels = np.load(tmp_path / "out" / "train_images.npy")
    first_of_class_3 = np.flatnonzero(labels == 3)[0]
    expected = np.asarray(Image.open(image_folder / "train" / "class3" / "0.png"))
    assert np.array_equal(pixels[first_of_class_3], expected)


def test_fewer_images_are_a_fixed_choice_from_all_classes(image_folder: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        make_dataset("imagefolder", image_folder, False, 20, tmp_path / name)
    assert read_manifest(tmp_path / "a") == read_manifest(tmp_path / "b")
    assert len(set(np.load(tmp_path / "a" / "train_labels.npy"))) > 5


@pytest.mark.parametrize(
    ("damage", "images", "message"),
    [
        (lambda f: (f / "test").rename(f / "elsewhere"), 30, "no folder of images"),
        (lambda f: None, 31, "has 30 training images, dataset.images asks for 31"),
        (lambda f: Image.new("RGB", (64, 48)).save(f / "train/class0/0.png"), 30, "0.png: is 64x48, not 32x32"),
        (lambda f: truncate(f / "train/class0/0.png", 100), 30, "not a readable image"),
    ],
)
def test_a_bad_image_folder_is_one_line_and_leaves_no_dataset(
    image_folder: Path, tmp_path: Path, damage: Callable[[Path], object], images: int, message: str
) -> None:
    damage(image_folder)
    with pytest.raises(DatasetError, match=message):
        make_dataset("imagefolder", image_folder, False, images, tmp_path / "out")
    assert not (tmp_path / "out" / "manifest.json").exists()


class Cifar10:
    """In place of torchvision's: 100 training images and 10 to test with, or none."""

    classes = CLASSES

    def __init__(self, root: str, train: bool, download: bool):
        if root == "nowhere":
            raise RuntimeError("Dataset not found or corrupted.")
        count = 100 if train else 10
        self.data, self.targets = np.zeros((count, 32, 32, 3), np.uint8), [number % 10 for number in range(count)]


def test_cifar10_through_torchvision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torchvision.datasets.CIFAR10", Cifar10)
    manifest = make_dataset("cifar10", tmp_path, False, 100, tmp_path)
    assert (manifest.images, manifest.test_images, manifest.synthetic) == (100, 10, False)
    assert np.load(tmp_path / "train_labels.npy").tolist() == [number % 10 for number in range(100)]
    with pytest.raises(DatasetError, match=r"its checksum is wrong, and dataset\.download is false"):
        make_dataset("cifar10", Path("nowhere"), False, 100, tmp_path)

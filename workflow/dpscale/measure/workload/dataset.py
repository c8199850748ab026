"""The dataset of a study, decoded once: images and one augmented epoch as memory-mappable arrays, and the manifest that
says what they hold. Loads torch only to make an epoch."""

import hashlib
import io
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import to_builtins
from numpy.typing import NDArray

from dpscale.errors import DatasetError, RecordError
from dpscale.records.facts import ArrayFile, DatasetManifest
from dpscale.records.files import read_record, write_bytes, write_record
from dpscale.schemas.settings import from_home

# Images of IMAGE_SIZE x IMAGE_SIZE pixels, each in one of CLASSES classes.
IMAGE_SIZE, CLASSES = 32, 10
# Black pixels around an image, for the crops of its augmentation.
PADDING = 4

MANIFEST = "manifest.json"
EPOCH_ARRAYS = ("epoch_images.npy", "epoch_labels.npy")
TRAIN_ARRAYS = ("train_images.npy", "train_labels.npy")
TEST_ARRAYS = ("test_images.npy", "test_labels.npy")
ARRAYS = (*TRAIN_ARRAYS, *TEST_ARRAYS, *EPOCH_ARRAYS)

SYNTHETIC_TEST_SHARE = 5  # one test image for every five training images, as in CIFAR-10
SEED = 0

Images = NDArray[np.uint8]  # (images, 32, 32, 3), as torchvision's CIFAR10 holds them
Labels = NDArray[np.int64]  # (images,)
Indices = NDArray[np.int64]
Transform = Callable[[Any], Any]
# Images and labels to train on, those to test with, and the names of the classes.
Decoded = tuple[tuple[Images, Labels], tuple[Images, Labels], list[str]]


def read_manifest(folder: Path) -> DatasetManifest:
    """Return the manifest of the dataset in `folder`. Raises DatasetError where there is none."""
    try:
        return read_record(DatasetManifest, folder / MANIFEST)
    except RecordError as error:
        raise DatasetError(f"no usable dataset in {folder}: {error}. Make one with: dpscale dataset") from error


def verify_dataset(folder: Path, manifest: DatasetManifest, arrays: Iterable[str]) -> None:
    """Compare `arrays` with the manifest's checksums. Raises DatasetError where one is missing or differs."""
    for name in arrays:
        path = folder / name
        if not path.is_file() or fingerprint(path) != manifest.files.get(name):
            raise DatasetError(
                f"{path}: missing, truncated or changed since it was written. Delete {folder} to have the dataset made "
                "again"
            )


def fingerprint(path: Path) -> ArrayFile:
    """Return the size and the checksum of a file, as the manifest has them."""
    with path.open("rb") as file:
        return ArrayFile(path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest())


def make_dataset(source: str, root: Path, download: bool, images: int, folder: Path) -> DatasetManifest:
    """Decode `images` training images and all test images of a source into `folder`; return the manifest.

    Raises DatasetError where the source is missing, damaged, too small, or not 10 classes of 32x32 images, and
    RecordError where the folder cannot be written.
    """
    (train, train_labels), (test, test_labels), classes = _SOURCES[source](root, download, images)
    epoch, epoch_labels = augmented_epoch(train, train_labels)
    arrays: Sequence[NDArray[Any]] = (train, train_labels, test, test_labels, epoch, epoch_labels)
    for name, array in zip(ARRAYS, arrays, strict=True):
        buffer = io.BytesIO()
        np.save(buffer, array)
        write_bytes(folder / name, buffer.getvalue())
    files = {name: fingerprint(folder / name) for name in ARRAYS}
    manifest = DatasetManifest(
        kind="dataset",
        source=source,
        root=from_home(str(root)),
        synthetic=source == "synthetic",
        images=len(train),
        test_images=len(test),
        classes=classes,
        sha256=hashlib.sha256("".join(files[name].sha256 for name in ARRAYS).encode()).hexdigest(),
        files=files,
    )
    write_record("dataset", folder / MANIFEST, to_builtins(manifest))
    return manifest


def augmented_epoch(images: Images, labels: Labels) -> tuple[Images, Labels]:
    """Return one epoch, shuffled and augmented as for training: (images, 3, 32, 32) in 8 bits, and its labels.

    Normalising is left to the reader: it is exact, and 8 bits are a quarter of the bytes to read.
    """
    import torch
    from PIL import Image

    augment = augmentation()
    torch.manual_seed(SEED)
    order = torch.randperm(len(images)).numpy()
    epoch = np.empty((len(images), 3, IMAGE_SIZE, IMAGE_SIZE), dtype=np.uint8)
    for position, index in enumerate(order):
        epoch[position] = np.asarray(augment(Image.fromarray(images[index]))).transpose(2, 0, 1)
    return epoch, labels[order]


# torchvision is loaded where images are transformed one by one: workers that never do start sooner.
def augmentation() -> Transform:
    """Return torchvision's random crop and flip, drawn anew for every image."""
    from torchvision import transforms

    crop_and_flip: Transform = transforms.Compose(
        [transforms.RandomCrop(IMAGE_SIZE, padding=PADDING), transforms.RandomHorizontalFlip(p=0.5)]
    )
    return crop_and_flip


def _read_cifar10(root: Path, download: bool, images: int) -> Decoded:
    from torchvision.datasets import CIFAR10

    splits = []
    for train in (True, False):
        try:
            split = CIFAR10(str(root), train=train, download=download)
        except (RuntimeError, OSError, EOFError) as error:
            allowed = "downloading it failed" if download else "dataset.download is false"
            raise DatasetError(
                f"{root}: CIFAR-10 is missing or its checksum is wrong, and {allowed} ({error}). "
                "Put cifar-10-batches-py there, or set dataset.download, dataset.source or dataset.root"
            ) from error
        labels = np.asarray(split.targets, dtype=np.int64)
        chosen = _choose(len(labels), images if train else len(labels), root)
        splits.append((split.data[chosen], labels[chosen]))
    return splits[0], splits[1], list(split.classes)


def _read_imagefolder(root: Path, download: bool, images: int) -> Decoded:
    from torchvision.datasets import ImageFolder

    splits = []
    for name in ("train", "test"):
        try:
            split = ImageFolder(str(root / name))
        except OSError as error:
            raise DatasetError(f"{root / name}: no folder of images with one folder per class ({error})") from error
        if len(split.classes) != CLASSES:
            raise DatasetError(f"{root / name}: has {len(split.classes)} classes, the network has {CLASSES}")
        chosen = _choose(len(split), images if name == "train" else len(split), root)
        pixels = np.empty((len(chosen), IMAGE_SIZE, IMAGE_SIZE, 3), dtype=np.uint8)
        for position, index in enumerate(chosen):
            pixels[position] = _decode(split.samples[index][0], split.loader)
        splits.append((pixels, np.asarray(split.targets, dtype=np.int64)[chosen]))
    return splits[0], splits[1], split.classes


def _read_synthetic(root: Path, download: bool, images: int) -> Decoded:
    generator = np.random.default_rng(SEED)
    train, test = (
        (
            generator.integers(0, 256, (count, IMAGE_SIZE, IMAGE_SIZE, 3), dtype=np.uint8),
            generator.integers(0, CLASSES, count, dtype=np.int64),
        )
        for count in (images, images // SYNTHETIC_TEST_SHARE)
    )
    return train, test, [f"noise {number}" for number in range(CLASSES)]


_SOURCES: dict[str, Callable[[Path, bool, int], Decoded]] = {
    "cifar10": _read_cifar10,
    "imagefolder": _read_imagefolder,
    "synthetic": _read_synthetic,
}


def _choose(available: int, wanted: int, root: Path) -> Indices:
    """Return the indices of `wanted` images: all of them in order, or a fixed random choice of fewer."""
    if wanted > available:
        raise DatasetError(f"{root}: has {available} training images, dataset.images asks for {wanted}")
    if wanted == available:
        return np.arange(available)
    return np.sort(np.random.default_rng(SEED).permutation(available)[:wanted])


def _decode(path: str, load: Callable[[str], Any]) -> Images:
    try:
        image = load(path)
    except (OSError, SyntaxError, ValueError) as error:  # Pillow raises one of these, depending on the damage
        raise DatasetError(f"{path}: not a readable image ({error})") from error
    if image.size != (IMAGE_SIZE, IMAGE_SIZE):
        raise DatasetError(f"{path}: is {image.width}x{image.height}, not {IMAGE_SIZE}x{IMAGE_SIZE}")
    return np.asarray(image)

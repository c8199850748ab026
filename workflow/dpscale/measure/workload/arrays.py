"""The arrays of a decoded dataset, and the manifest that says what they hold. Free of torch."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from dpscale.errors import DatasetError, RecordError
from dpscale.records.facts import ArrayFile, DatasetManifest
from dpscale.records.files import read_record

# Images of IMAGE_SIZE x IMAGE_SIZE pixels, each in one of CLASSES classes.
IMAGE_SIZE, CLASSES = 32, 10

MANIFEST = "manifest.json"
EPOCH_ARRAYS = ("epoch_images.npy", "epoch_labels.npy")
TRAIN_ARRAYS = ("train_images.npy", "train_labels.npy")
TEST_ARRAYS = ("test_images.npy", "test_labels.npy")
ARRAYS = (*TRAIN_ARRAYS, *TEST_ARRAYS, *EPOCH_ARRAYS)


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

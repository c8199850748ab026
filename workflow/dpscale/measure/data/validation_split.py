"""Which training images are held out: recipes are compared on them, so that no test image takes part in a choice."""

from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

# The same images whatever the seed of a training: recipes and seeds are compared on equal terms.
SPLIT_SEED = 5000

Indices = NDArray[np.int64]


def split_images(labels: NDArray[Any], held_out: int) -> tuple[Indices, Indices]:
    """The indices to train on and those of the `held_out` images, each in ascending order.

    Drawn by chance, from every class equally many (one more of some where it does not divide).
    """
    shuffled = np.random.default_rng(SPLIT_SEED).permutation(len(labels))
    place_in_class = np.empty(len(labels), dtype=np.int64)
    for label in np.unique(labels):
        members = labels[shuffled] == label
        place_in_class[members] = np.arange(members.sum())
    chosen = np.zeros(len(labels), dtype=bool)
    chosen[shuffled[np.argsort(place_in_class, kind="stable")[:held_out]]] = True
    return np.flatnonzero(~chosen), np.flatnonzero(chosen)


def checksum(indices: Indices) -> int:
    """CRC-32 of indices: equal for equal ones."""
    return crc32(indices.astype(np.int64).tobytes())

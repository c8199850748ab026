"""Records that no clock made: the facts of a study's network, and the manifest of its dataset."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from dpscale.schemas.settings import NetworkSettings
from dpscale.strategies.strategy import NetworkFacts


class NetworkRecord(NetworkFacts, frozen=True, kw_only=True):
    """The facts of a network, and the settings that they depend on."""

    kind: Literal["network"]
    settings: NetworkSettings


class ArrayFile(Struct, frozen=True, forbid_unknown_fields=True):
    """The file of an array."""

    bytes: int
    sha256: str


class DatasetManifest(Struct, frozen=True, forbid_unknown_fields=True):
    """A dataset as `dpscale dataset` wrote it, with the checksum of every array."""

    kind: Literal["dataset"]
    source: Annotated[str, Meta(pattern="^(cifar10|imagefolder|synthetic)$")]
    root: str  # Folder that the images were read from.
    synthetic: bool
    images: Annotated[int, Meta(ge=1)]  # Training images.
    test_images: Annotated[int, Meta(ge=0)]
    classes: list[str]
    sha256: str  # Checksum over the files' checksums.
    files: dict[str, ArrayFile]

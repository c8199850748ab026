"""Records of what is not clocked: datasets, facts of networks, and audits of published studies."""

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


# A row of a table as its file has it, by column. None is an empty entry.
FlatRow = dict[str, str | int | float | bool | None]


class AuditRecord(Struct, frozen=True, forbid_unknown_fields=True):
    """The rows of the tables audit.csv, audit_findings.csv and audit_warnings.csv that are of one published study."""

    kind: Literal["audit"]
    dpscale_version: str
    id: str
    title: str
    sha256: str  # Checksum of the published file that this is the audit of.
    batch: Annotated[str, Meta(pattern="^(per_gpu|global|unstated)$")]  # Of the tables' batches, as stated or as found.
    answer: str  # In short: the first cell that is wrong with its numbers, and how many are explained.
    cells: list[FlatRow]  # Every time and every figure as printed and as defined; and those that are only computed.
    findings: Annotated[list[FlatRow], Meta(min_length=1)]  # The first one says all in short.
    warnings: list[FlatRow]  # Figures that do not agree.

"""GPUs and links as their vendors describe them: peak arithmetic, memory, and bandwidth in one direction."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

TABLE = Path(__file__).with_name("chips.yaml")
LINKS_TABLE = Path(__file__).with_name("links.yaml")

# The units of a GPU that may do the arithmetic of a precision, fastest first. float32 lets cuDNN use TF32.
_UNITS = {
    "float32": ("tf32", "float32"),
    "float32-strict": ("float32",),
    "bfloat16": ("bfloat16", "float32"),
    "float16": ("bfloat16", "float16", "float32"),
}
PRECISIONS = tuple(_UNITS)
_UNIT_WORDS = {"tf32": "TF32", "float32": "float32", "bfloat16": "bfloat16", "float16": "float16"}


@dataclass(frozen=True)
class Link:
    """A link and its bandwidth in one direction, in GB/s."""

    name: str
    gb_s: float
    source: str = ""


@dataclass(frozen=True)
class Chip:
    """A GPU model. Peaks are dense TFLOP/s of one GPU by unit; bandwidths are GB/s."""

    name: str
    models: Sequence[str]
    peak_tflop_s: dict[str, float]
    memory_gb_s: float
    pcie: str
    source: str
    float16_tflop_s: float | None = None
    nvlink_gb_s: float | None = None
    names: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", frozenset(_plain(name) for name in (self.name, *self.models)))

    def peak(self, precision: str) -> tuple[str, float]:
        """The unit, in words, that is fastest for a precision, and its TFLOP/s."""
        halves = {"float16": self.float16_tflop_s} if self.float16_tflop_s else {}
        peaks = {**self.peak_tflop_s, **halves}
        unit = next(unit for unit in _UNITS[precision] if unit in peaks)
        return _UNIT_WORDS[unit], peaks[unit]

    @property
    def links(self) -> list[Link]:
        """What it can be connected by, fastest first."""
        nvlink = [Link("NVLink", self.nvlink_gb_s, self.source)] if self.nvlink_gb_s else []
        return [*nvlink, *(link for link in links() if link.name == self.pcie)]


@cache
def entries() -> list[dict[str, Any]]:
    """The entries of `chips.yaml` as they stand there."""
    found: list[dict[str, Any]] = yaml.safe_load(TABLE.read_text())
    return found


@cache
def chips() -> list[Chip]:
    """All GPUs of the table."""
    return [Chip(**entry) for entry in entries()]


@cache
def links() -> list[Link]:
    """All links that are no part of a chip."""
    return [Link(**entry) for entry in yaml.safe_load(LINKS_TABLE.read_text())]


def chip_named(name: str) -> Chip | None:
    """The GPU of a name as people write it: `Quadro RTX 8000`, `A100`, `NVIDIA H100 80GB HBM3`.

    Where a name is that of several models (`H100`), the one with the fastest links. None where the table has none.
    """
    wanted = _plain(name)
    exact = [chip for chip in chips() if wanted in chip.names]
    of_family = [chip for chip in chips() if _plain(chip.name).startswith(wanted)] if wanted else []
    return max(exact or of_family, key=lambda chip: (chip.nvlink_gb_s or 0, chip.peak_tflop_s["float32"]), default=None)


def link_named(name: str, chip: Chip | None = None) -> Link | None:
    """The link of a name as people write it: `PCI Express 3.0`, `PCIe Gen4 x16`, `NVLink` where the GPU is known.

    Where a name is that of several links (`PCIe`), that of the GPU, otherwise the fastest. None where the table has
    none.
    """
    wanted = _plain_link(name)
    if not wanted:
        return None
    for known in (chip.links if chip else [], links()):
        if found := [link for link in known if _plain_link(link.name).startswith(wanted)]:
            return max(found, key=lambda link: link.gb_s)
    return None


def _plain_link(name: str) -> str:
    """A link's name without spaces and hyphens, in the words of the table. A GPU's NVLink is of one generation."""
    plain = name.lower().replace("pci express", "pcie").replace("gigabit", "gbit/s")
    return "nvlink" if plain.startswith("nvlink") else re.sub(r"gen(?=\s*\d)|[^a-z0-9]", "", plain)


def _plain(name: str) -> str:
    """A name without its vendor, brand, spaces and hyphens."""
    return re.sub(r"nvidia|tesla|quadro|geforce|[^a-z0-9]", "", name.lower())

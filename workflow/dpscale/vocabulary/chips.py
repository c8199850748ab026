"""GPUs and links as their vendors describe them: peak arithmetic, and bandwidth in one direction; and networks that
published figures are about: parameters, and work for an image."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import NamedTuple

from dpscale.vocabulary import own_yaml

TERA = 1e12

# The units of a GPU that do the arithmetic of a precision, fastest first. float32 lets cuDNN use TF32 tensor cores.
# A unit that does bfloat16 does float16 as fast.
UNITS = {
    "float32": ("tf32", "float32"),
    "float32-strict": ("float32",),
    "bfloat16": ("bfloat16",),
    "bfloat16-pure": ("bfloat16",),
    "float16": ("bfloat16", "float16"),
}
PRECISIONS = tuple(UNITS)
_UNIT_WORDS = {"tf32": "TF32"}


@dataclass(frozen=True)
class ChipLink:
    """A link and its bandwidth in one direction, in GB/s."""

    name: str
    gb_s: float
    source: str = ""


class Peak(NamedTuple):
    """The dense arithmetic of a unit of one GPU; the unit in words."""

    unit: str
    tflop_s: float

    @property
    def flop_s(self) -> float:
        return self.tflop_s * TERA


@dataclass(frozen=True)
class Chip:
    """A GPU model. Peaks are dense TFLOP/s of one GPU by unit; bandwidths, of memory and links, are GB/s."""

    name: str
    models: Sequence[str]
    peak_tflop_s: dict[str, float]
    memory_gb_s: float
    pcie: str
    source: str
    nvlink_gb_s: float | None = None

    @cached_property
    def names(self) -> frozenset[str]:
        """Its name and those of its models, as people may write them."""
        return frozenset(map(_plain, (self.name, *self.models)))

    def peak(self, precision: str) -> Peak | None:
        """Return the peak of its fastest unit for a precision. None where it has no such unit."""
        units = (unit for unit in UNITS[precision] if unit in self.peak_tflop_s)
        return next((Peak(_UNIT_WORDS.get(unit, unit), self.peak_tflop_s[unit]) for unit in units), None)

    def most(self, precision: str) -> Peak:
        """Return the highest peak in a precision: where it has no unit for that, its float32 units do it."""
        return self.peak(precision) or Peak("float32", self.peak_tflop_s["float32"])

    @property
    def family(self) -> str:
        """Its name up to the number of the model, without the form factor: `H100` of `H100 SXM`."""
        return re.sub(r"(\d\w*).*", r"\1", self.name)

    @property
    def links(self) -> list[ChipLink]:
        """The links that can connect it, fastest first."""
        nvlink = [ChipLink("NVLink", self.nvlink_gb_s, self.source)] if self.nvlink_gb_s else []
        return [*nvlink, *(link for link in links() if link.name == self.pcie)]


@cache
def chips() -> list[Chip]:
    """Return all GPUs of the table."""
    return [Chip(**entry) for entry in own_yaml(__file__, "chips.yaml")]


@cache
def links() -> list[ChipLink]:
    """Return all links that are no part of a chip."""
    return [ChipLink(**entry) for entry in own_yaml(__file__, "links.yaml")]


def chip_named(name: str) -> Chip | None:
    """Return the GPU of a name, as people or torch write it: `Quadro RTX 8000`, `A100`, `NVIDIA H100 80GB HBM3`.

    Where a name is that of several models (`H100`), the one with the fastest links. None where the table has none: an
    H20 is no H200, and an L40 no L40S.
    """
    wanted = _plain(name)
    exact = [chip for chip in chips() if wanted in chip.names]
    of_family = [
        chip for chip in chips() if wanted.startswith(_plain(chip.family)) and _plain(chip.name).startswith(wanted)
    ]
    return max(exact or of_family, key=lambda chip: (chip.nvlink_gb_s or 0, chip.peak_tflop_s["float32"]), default=None)


def _plain(name: str) -> str:
    """Return a name without its vendor, brand, spaces and hyphens."""
    return re.sub(r"nvidia|tesla|quadro|geforce|[^a-z0-9]", "", name.lower())


@dataclass(frozen=True)
class Network:
    """A network. `first` are the weights of its first layer; FLOP are forward and backward."""

    name: str
    parameters: int
    first: int
    flop_per_image: float | None = None


@cache
def networks() -> list[Network]:
    """Return all networks of the table."""
    return [Network(**entry) for entry in own_yaml(__file__, "networks.yaml")]


def network_of(parameters: int | None) -> Network | None:
    """Return the network with so many trainable parameters. None where the table has none."""
    return next((network for network in networks() if network.parameters == parameters), None)

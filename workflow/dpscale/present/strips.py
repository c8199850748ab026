"""The environment in a strip: what measured, and what its links were measured to carry."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from dpscale.present import words
from dpscale.present.words import Row, Tables, Words

_PEER_COPY = "peer_copy"
_MIB = 2**20


@dataclass(frozen=True)
class Fact:
    name: str
    value: str


@dataclass(frozen=True)
class Strip:
    """What is known of an environment; facts that were not recorded are left out."""

    name: str
    facts: Sequence[Fact]


def strips(tables: Tables, say: Words) -> list[Strip]:
    """One strip for every environment."""
    return [_strip(row, tables["collectives"], say) for row in words.rows(tables["environments"])]


def _strip(row: Row, collectives: pd.DataFrame, say: Words) -> Strip:
    measured = collectives[collectives["environment"].astype(str) == str(row["environment"])]
    facts = [
        ("Environment", words.text(row["environment"]) if say.several_environments else words.ABSENT),
        (words.capitalised(say.device), words.text(row["device_model"])),
        ("Links", words.text(row["links"])),
        ("Copies from one to another", _peer_copies(measured, say)),
        ("Allreduce, largest message", _allreduce(measured, say)),
        ("CPU", words.text(row["cpu_model"])),
        ("Software", _software(row)),
        ("Hosts", words.text(row["hosts"])),
    ]
    name = f"Environment {row['environment']}"
    return Strip(name, [Fact(name, value) for name, value in facts if value != words.ABSENT])


def _peer_copies(collectives: pd.DataFrame, say: Words) -> str:
    """`388 GB/s (387 to 389 in 12 directions, 4 GPUs, 256 MiB)`: the median and the range over directed pairs."""
    copies = _on_most(collectives[collectives["operation"] == _PEER_COPY])
    rates = copies["bus_bandwidth_gb_s"].dropna()
    if rates.empty:
        return words.ABSENT
    low, middle, high = (words.figure(rate, 3) for rate in (rates.min(), rates.median(), rates.max()))
    directions = words.plural(len(rates), "direction")
    size = _size(int(copies["message_bytes"].max()))
    return f"{middle} GB/s ({low} to {high} in {directions}, {say.count(int(copies['gpus'].max()))}, {size})"


def _allreduce(collectives: pd.DataFrame, say: Words) -> str:
    """`355 GB/s [354, 355] bus bandwidth (4 GPUs, 1 GiB)`."""
    found = _on_most(collectives[collectives["operation"] == "allreduce"]).dropna(subset=["bus_bandwidth_gb_s"])
    if found.empty:
        return words.ABSENT
    row = words.rows(found.sort_values("message_bytes").tail(1))[0]
    rate = words.estimate(row, "bus_bandwidth_gb_s", unit=" GB/s")
    return f"{rate} bus bandwidth ({say.count(int(row['gpus']))}, {_size(int(row['message_bytes']))})"


def _on_most(collectives: pd.DataFrame) -> pd.DataFrame:
    most: pd.DataFrame = collectives[collectives["gpus"] == collectives["gpus"].max()]
    return most


def _size(message_bytes: int) -> str:
    return f"{words.figure(message_bytes / _MIB, 3)} MiB"


def _software(row: Row) -> str:
    named = ("torch", "cuda", "cudnn", "nccl", "driver", "python")
    known = [f"{name} {row[name]}" for name in named if words.is_known(row[name])]
    return ", ".join(known) or words.ABSENT

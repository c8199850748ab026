"""The facts of every environment: what measured, and what its links were measured to carry."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from dpscale.present import words
from dpscale.present.finding import extreme
from dpscale.present.words import Row, Tables, Terms
from dpscale.vocabulary.quantities import GB_PER_S, MIB


@dataclass(frozen=True)
class Fact:
    name: str
    value: str


@dataclass(frozen=True)
class EnvironmentFacts:
    """What is known of an environment; facts that were not recorded are left out."""

    name: str
    facts: Sequence[Fact]


def environment_facts(tables: Tables, terms: Terms) -> list[EnvironmentFacts]:
    """The facts of every environment."""
    return [_facts(row, tables, terms) for row in words.rows(tables["environments"])]


def _facts(row: Row, tables: Tables, terms: Terms) -> EnvironmentFacts:
    collectives, copies = (
        tables[name][tables[name]["environment"].astype(str) == str(row["environment"])]
        for name in ("collectives", "peer_copies")
    )
    facts = [
        ("Environment", words.text(row["environment"]) if terms.several_environments else words.ABSENT),
        (words.capitalised(terms.device), words.text(row["device_model"])),
        ("Links", words.text(row["links"])),
        ("Copies from one to another", _peer_copies(copies, terms)),
        ("Allreduce, largest message", _allreduce(collectives, terms)),
        ("CPU", words.text(row["cpu_model"])),
        ("Software", _software(row)),
        ("Hosts", words.text(row["hosts"])),
        ("Older versions of the measurement", words.text(row["older_measurements"])),
    ]
    name = f"Environment {row['environment']}"
    return EnvironmentFacts(name, [Fact(name, value) for name, value in facts if value != words.ABSENT])


def _peer_copies(copies: pd.DataFrame, terms: Terms) -> str:
    """`388 GB/s (387 to 389 in 12 directions, 4 GPUs, 256 MiB)`: the median and the range over directed pairs."""
    if copies.empty:
        return words.ABSENT
    row = extreme(copies, "gpus", largest=True)
    middle = words.measured(row["bus_bandwidth_gb_s"], GB_PER_S)
    low, high = (words.figure(row[f"bus_bandwidth_gb_s_{end}"], 3) for end in ("low", "high"))
    directions = words.plural(int(row["directions"]), "direction")
    size = words.measured(row["message_bytes"], MIB)
    return f"{middle} ({low} to {high} in {directions}, {terms.count(int(row['gpus']))}, {size})"


def _allreduce(collectives: pd.DataFrame, terms: Terms) -> str:
    """`355 GB/s [354, 355] bus bandwidth (4 GPUs, 1 GiB)`."""
    found = _on_most(collectives[collectives["operation"] == "allreduce"]).dropna(subset=["bus_bandwidth_gb_s"])
    if found.empty:
        return words.ABSENT
    row = words.rows(found.sort_values("message_bytes").tail(1))[0]
    rate = words.estimate(row, "bus_bandwidth_gb_s", GB_PER_S, with_unit=True)
    size = words.measured(row["message_bytes"], MIB)
    return f"{rate} bus bandwidth ({terms.count(int(row['gpus']))}, {size})"


def _on_most(collectives: pd.DataFrame) -> pd.DataFrame:
    most: pd.DataFrame = collectives[collectives["gpus"] == collectives["gpus"].max()]
    return most


def _software(row: Row) -> str:
    named = ("torch", "cuda", "cudnn", "nccl", "driver", "python")
    known = [f"{name} {row[name]}" for name in named if words.is_known(row[name])]
    return ", ".join(known) or words.ABSENT

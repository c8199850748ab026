"""The set-up: what was measured and how, and of every environment what measured and what its links carry."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from dpscale.present import words
from dpscale.present.finding import extreme
from dpscale.present.words import Row, Tables, Terms
from dpscale.vocabulary.quantities import GB_PER_S, MIB

# Enough to tell one version of a file from another.
CHECKSUM_DIGITS = 12
_NETWORKS = {
    "cifar_resnet18": "ResNet-18 for 32×32 images",
    "torchvision_resnet18": "torchvision's ResNet-18",
}


@dataclass(frozen=True)
class Fact:
    name: str
    value: str


@dataclass(frozen=True)
class EnvironmentFacts:
    """What is known of an environment; facts that were not recorded are left out."""

    name: str
    facts: Sequence[Fact]


def network(study: Mapping[str, Any]) -> str:
    """`ResNet-18 for 32×32 images, width 8`, or the name of the workload's file."""
    if words.is_own_workload(study):
        return Path(study["workload"]).name
    name, width = _NETWORKS[study["network"]["name"]], study["network"]["width"]
    return name if width == 64 else f"{name}, width {width}"


def dates(records: pd.DataFrame) -> str:
    """The days of the first and the last record, UTC."""
    started, finished = (records[name].dropna().astype(str) for name in ("started_at", "finished_at"))
    if started.empty or finished.empty:
        return "nothing measured yet"
    first, last = started.min()[:10], finished.max()[:10]
    return f"measured {first}" if first == last else f"measured {first} to {last}"


def setup(study: Mapping[str, Any], tables: Tables, terms: Terms) -> list[Fact]:
    """What was measured and how, by the study's own settings; what was not recorded is left out."""
    dataset, epochs, optimiser = study["dataset"], study["epochs"], study["optimiser"]
    switches = [
        f"compile {study['compile']}",
        f"CUDA graph {_on_or_off(study['cuda_graph'])}",
        f"cuDNN benchmark {_on_or_off(study['cudnn_benchmark'])}",
        f"{terms.samples} on the {study['images_on']}",
    ]
    facts = [
        ("Dataset", _dataset(study, terms)),
        ("Network", f"{network(study)}{_parameters(tables)}"),
        *_workload(study),
        ("Precision", f"{study['precision']}, {study['memory_format']}"),
        (
            "Optimiser",
            f"{_unless_own(study)}SGD, learning rate {optimiser['learning_rate']}, momentum {optimiser['momentum']}, "
            f"weight decay {optimiser['weight_decay']}, fused {_on_or_off(optimiser['fused'])}",
        ),
        ("Settings", ", ".join(switches)),
        ("Loader", f"{words.plural(dataset['loader_workers'], 'worker')} per process{_loaders(tables, terms)}"),
        (
            "Clock",
            f"{_runs(study, tables)} per configuration, each of "
            f"{words.plural(epochs['warmup'], 'epoch')} to warm up and at least {epochs['timed']:,} timed",
        ),
    ]
    return [Fact(name, value) for name, value in facts]


def _runs(study: Mapping[str, Any], tables: Tables) -> str:
    """`6 runs`, or `3 to 4 of 6 runs` where configurations lack some."""
    runs = words.ok(tables["times"])["runs"].dropna()
    planned = words.plural(study["runs"], "run")
    if (runs == study["runs"]).all():
        return planned
    return f"{words.span(runs)} of {planned}"


def _dataset(study: Mapping[str, Any], terms: Terms) -> str:
    source = f"that of {network(study)}" if terms.own_workload else study["dataset"]["source"]
    return f"{source}, {study['dataset']['images']:,} {terms.samples} per epoch"


def _workload(study: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The file that says what is trained, where it is not the built-in workload."""
    if not words.is_own_workload(study):
        return []
    return [("Workload", f"{network(study)}, SHA-256 {study['workload_sha256'][:CHECKSUM_DIGITS]}")]


def _unless_own(study: Mapping[str, Any]) -> str:
    return f"that of {network(study)}, or where it has none " if words.is_own_workload(study) else ""


def _parameters(tables: Tables) -> str:
    """`, K = 11,173,962 parameters`, where a table has it."""
    known = tables["bandwidth"].dropna(subset=["parameters"])
    return "" if known.empty else f", K = {words.whole(words.rows(known)[0]['parameters'])} parameters"


def _loaders(tables: Tables, terms: Terms) -> str:
    """`; in total 8 with ddp on 4 GPUs, 2 with single on 1 GPU`: of the most devices of every strategy."""
    known = words.ok(tables["times"]).dropna(subset=["loader_processes"])
    known = known[known["scope"] == "end_to_end"]
    totals = []
    for strategy, rows in known.groupby("strategy"):
        row = extreme(rows, "gpus", largest=True)
        totals.append(f"{words.whole(row['loader_processes'])} with {strategy} on {terms.count(int(row['gpus']))}")
    return f"; in total {', '.join(totals)}" if totals else ""


def _on_or_off(value: bool) -> str:
    return "on" if value else "off"


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
        ("CPU", _cpu(row)),
        ("Software", _software(row)),
        ("Variables", words.text(row["variables"])),
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


def _cpu(row: Row) -> str:
    """`Intel(R) Xeon(R) Processor, 64 cores`."""
    cores = words.text(row["cpu_cores"])
    return words.text(row["cpu_model"]) if cores == words.ABSENT else f"{words.text(row['cpu_model'])}, {cores} cores"


def _software(row: Row) -> str:
    named = ("torch", "cuda", "cudnn", "nccl", "driver", "python")
    known = [f"{name} {row[name]}" for name in named if words.is_known(row[name])]
    return ", ".join(known) or words.ABSENT

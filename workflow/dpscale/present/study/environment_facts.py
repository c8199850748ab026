"""The set-up: what was measured and how, and of every environment what measured and what its links carry."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpscale.present.text.numbers import measured, plain
from dpscale.present.text.words import (
    Terms,
    capitalised,
    is_own_workload,
    listed,
    ok,
    on_or_off,
    plural,
    span,
)
from dpscale.tables.column import GB_PER_S, MIB
from dpscale.tables.communication import BandwidthRow, CollectivesRow, PeerCopiesRow
from dpscale.tables.study import EnvironmentsRow, RecordsRow
from dpscale.tables.timing import TimesRow

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
    if is_own_workload(study):
        return Path(study["workload"]).name
    name, width = _NETWORKS[study["network"]["name"]], study["network"]["width"]
    return name if width == 64 else f"{name}, width {width}"


def devices(
    study: Mapping[str, Any],
    records: Sequence[RecordsRow],
    environments: Iterable[EnvironmentsRow],
    terms: Terms,
) -> str:
    """`up to 4 GPUs (NVIDIA H200)`: what was measured; what was asked for where nothing was."""
    number = max((row.gpus or 0 for row in records), default=max(study["gpus"]))
    models = sorted({row.device_model for row in environments if row.device_model})
    count = terms.count(number) if number == 1 else f"up to {terms.count(number)}"
    return f"{count} ({listed(models)})" if models else count


def on_cpu(study: Mapping[str, Any], environments: Sequence[EnvironmentsRow]) -> str:
    """That workers stand for GPUs, what they share, and what has no rows; "" of GPUs."""
    if study["device"] != "cpu":
        return ""
    cores = listed(sorted({row.cpu_cores for row in environments if row.cpu_cores}))
    without = "" if "dp" in study["strategies"] else " DataParallel has no rows: it needs GPUs."
    return f"Measured on a CPU: {max(study['gpus'])} workers share {f'its {cores}' if cores else 'its'} cores.{without}"


def commit(records: Sequence[RecordsRow]) -> str:
    """The commits of the code that measured, and whether it had uncommitted changes."""
    commits = sorted({row.git_commit[:12] for row in records if row.git_commit})
    changed = [row.git_dirty for row in records]
    if not commits:
        return "commit not recorded"
    some = "" if all(changed) else "some records "
    beyond = f", {some}with uncommitted changes" if any(changed) else ""
    return f"{'commit' if len(commits) == 1 else 'commits'} {listed(commits, 3)}{beyond}"


def setup(
    study: Mapping[str, Any], times: Sequence[TimesRow], bandwidth: Iterable[BandwidthRow], terms: Terms
) -> list[Fact]:
    """What was measured and how, by the study's own settings; what was not recorded is left out."""
    dataset, epochs, optimiser = study["dataset"], study["epochs"], study["optimiser"]
    own = is_own_workload(study)
    of_file = f"that of {network(study)}"
    parameters = next((f", K = {row.parameters:,} parameters" for row in bandwidth if row.parameters), "")
    facts = {
        "Dataset": f"{of_file if own else dataset['source']}, {dataset['images']:,} {terms.samples} per epoch",
        "Network": f"{network(study)}{parameters}",
        "Workload": f"{network(study)}, SHA-256 {study['workload_sha256'][:CHECKSUM_DIGITS]}" if own else "",
        "Precision": f"{study['precision']}, {study['memory_format']}",
        "Optimiser": f"{f'{of_file}, or where it has none ' if own else ''}SGD, learning rate "
        f"{optimiser['learning_rate']}, momentum {optimiser['momentum']}, "
        f"weight decay {optimiser['weight_decay']}, fused {on_or_off(optimiser['fused'])}",
        "Settings": f"compile {study['compile']}, CUDA graph {on_or_off(study['cuda_graph'])}, cuDNN benchmark "
        f"{on_or_off(study['cudnn_benchmark'])}, {terms.samples} on the {study['images_on']}",
        "Loader": f"{plural(dataset['loader_workers'], 'worker')} per process{_loaders(times, terms)}",
        "Clock": f"{_runs(study, times)} per configuration, each of {plural(epochs['warmup'], 'epoch')} to warm up "
        f"and at least {epochs['timed']:,} timed",
    }
    return [Fact(name, value) for name, value in facts.items() if value]


def _runs(study: Mapping[str, Any], times: Iterable[TimesRow]) -> str:
    """`6 runs`, or `3 to 4 of 6 runs` where configurations lack some."""
    runs = {row.runs for row in ok(times) if row.runs is not None}
    planned = plural(study["runs"], "run")
    return planned if runs <= {study["runs"]} else f"{span(runs)} of {planned}"


def _loaders(times: Iterable[TimesRow], terms: Terms) -> str:
    """`; in total 8 with ddp on 4 GPUs, 2 with single on 1 GPU`: of the most devices of every strategy."""
    most: dict[str, TimesRow] = {}
    for row in ok(times):
        if row.scope == "end_to_end" and row.loader_processes is not None:
            most[row.strategy] = max(most.get(row.strategy, row), row, key=lambda row: row.gpus)
    totals = [f"{row.loader_processes:,} with {terms.group(row)}" for _, row in sorted(most.items())]
    return f"; in total {', '.join(totals)}" if totals else ""


def environment_facts(
    environments: Iterable[EnvironmentsRow],
    collectives: Sequence[CollectivesRow],
    copies: Sequence[PeerCopiesRow],
    terms: Terms,
) -> list[EnvironmentFacts]:
    """The facts of every environment."""
    found = []
    for row in environments:
        facts = {
            "Environment": row.environment if terms.several_environments else "",
            capitalised(terms.device): row.device_model,
            "Links": row.links,
            "Copies from one to another": _peer_copies([pair for pair in copies if _is_in(row, pair)], terms),
            "Allreduce, largest message": _allreduce([timed for timed in collectives if _is_in(row, timed)], terms),
            "CPU": ", ".join(filter(None, (row.cpu_model, row.cpu_cores and f"{row.cpu_cores} cores"))),
            "Software": _software(row),
            "Variables": row.variables,
            "Hosts": row.hosts,
            "Older versions of the measurement": row.older_measurements,
        }
        known = [Fact(name, value) for name, value in facts.items() if value]
        found.append(EnvironmentFacts(f"Environment {row.environment}", known))
    return found


def _is_in(environment: EnvironmentsRow, row: CollectivesRow | PeerCopiesRow) -> bool:
    return row.environment == environment.environment


def _peer_copies(copies: Sequence[PeerCopiesRow], terms: Terms) -> str:
    """`388 GB/s (387 to 389 in 12 directions, 4 GPUs, 256 MiB)`: the median and the range over directed pairs."""
    if not copies:
        return ""
    row = max(copies, key=lambda row: row.gpus)
    middle, size = measured(row.bus_bandwidth_gb_s.value, GB_PER_S), measured(row.message_bytes, MIB)
    low, high = (plain(end, 3) for end in row.bus_bandwidth_gb_s.interval)
    directions = plural(row.directions or 0, "direction")
    return f"{middle} ({low} to {high} in {directions}, {terms.count(row.gpus)}, {size})"


def _allreduce(collectives: Iterable[CollectivesRow], terms: Terms) -> str:
    """`355 GB/s bus bandwidth (4 GPUs, 1 GiB)`."""
    reduced = [row for row in collectives if row.operation == "allreduce" and row.bus_bandwidth_gb_s.is_known]
    if not reduced:
        return ""
    row = max(reduced, key=lambda row: (row.gpus, row.message_bytes or 0))
    rate = measured(row.bus_bandwidth_gb_s.value, GB_PER_S)
    return f"{rate} bus bandwidth ({terms.count(row.gpus)}, {measured(row.message_bytes, MIB)})"


def _software(row: EnvironmentsRow) -> str:
    versions = {
        "torch": row.torch, "cuda": row.cuda, "cudnn": row.cudnn, "nccl": row.nccl, "driver": row.driver,
        "python": row.python,
    }  # fmt: skip
    return ", ".join(f"{name} {version}" for name, version in versions.items() if version)

"""The set-up: what was measured and how, and of every environment what measured."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

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
from dpscale.schemas.settings import JsonValues
from dpscale.tables.communication import BandwidthRow
from dpscale.tables.study import EnvironmentsRow, RecordsRow
from dpscale.tables.timing import RunsRow, TimesRow

# Enough to tell one version of a file from another.
CHECKSUM_DIGITS = 12
_VERSIONS = ("torch", "cuda", "cudnn", "nccl", "driver")

Facts = Mapping[str, str]
"""What is said, by what it is about."""


@dataclass(frozen=True)
class SetUp:
    """The set-up in words: sentences, and the facts of the study and of every environment."""

    network: str
    devices: str
    on_cpu: str
    measured: str
    commit: str
    study: Facts
    environments: Mapping[str, Facts]


def set_up(
    study: JsonValues,
    records: Sequence[RecordsRow],
    environments: Sequence[EnvironmentsRow],
    times: Iterable[TimesRow],
    runs: Iterable[RunsRow],
    bandwidth: Iterable[BandwidthRow],
    terms: Terms,
) -> SetUp:
    return SetUp(
        network(study),
        _devices(study, records, environments, terms),
        _on_cpu(study, environments),
        dates(records),
        _commit(records),
        _of_study(study, times, runs, bandwidth, terms),
        environment_facts(environments, terms),
    )


def network(study: JsonValues) -> str:
    """`ResNet-18 for 32×32 images, width 8`, or the name of the workload's file."""
    if is_own_workload(study):
        return Path(study["workload"]).name
    name, width = "ResNet-18 for 32×32 images", study["network"]["width"]
    return name if width == 64 else f"{name}, width {width}"


def _devices(
    study: JsonValues,
    records: Sequence[RecordsRow],
    environments: Iterable[EnvironmentsRow],
    terms: Terms,
) -> str:
    """`up to 4 GPUs (NVIDIA H200)`: what was measured; what was asked for where nothing was."""
    number = max((row.gpus or 0 for row in records), default=max(study["gpus"]))
    models = sorted({row.device_model for row in environments if row.device_model})
    count = terms.count(number) if number == 1 else f"up to {terms.count(number)}"
    return f"{count} ({listed(models)})" if models else count


def _on_cpu(study: JsonValues, environments: Sequence[EnvironmentsRow]) -> str:
    """Say that workers stand for GPUs, and what they share; "" of GPUs."""
    if study["device"] != "cpu":
        return ""
    cores = listed(sorted({row.cpu_cores for row in environments if row.cpu_cores}))
    return f"Measured on a CPU: {max(study['gpus'])} workers share {f'its {cores}' if cores else 'its'} cores."


def dates(records: Sequence[RecordsRow]) -> str:
    """The days of the first and the last record, UTC."""
    started = [row.started_at for row in records if row.started_at]
    finished = [row.finished_at for row in records if row.finished_at]
    if not (started and finished):
        return "nothing measured yet"
    first, last = min(started)[:10], max(finished)[:10]
    return f"measured {first}" if first == last else f"measured {first} to {last}"


def _commit(records: Sequence[RecordsRow]) -> str:
    """The commits of the code that measured."""
    commits = sorted({row.git_commit[:12] for row in records if row.git_commit})
    if not commits:
        return "commit not recorded"
    return f"{'commit' if len(commits) == 1 else 'commits'} {listed(commits, 3)}"


def _of_study(
    study: JsonValues,
    times: Iterable[TimesRow],
    runs: Iterable[RunsRow],
    bandwidth: Iterable[BandwidthRow],
    terms: Terms,
) -> Facts:
    """Return how it was measured, by the study's own settings; what was not recorded is left out."""
    dataset, epochs, optimiser = study["dataset"], study["epochs"], study["optimiser"]
    is_own = is_own_workload(study)
    of_file = f"that of {network(study)}"
    parameters = next((f", K = {row.parameters:,} parameters" for row in bandwidth if row.parameters), "")
    return _known({
        "Dataset": f"{of_file if is_own else dataset['source']}, {dataset['images']:,} {terms.samples} per epoch",
        "Network": f"{network(study)}{parameters}",
        "Workload": f"{network(study)}, SHA-256 {study['workload_sha256'][:CHECKSUM_DIGITS]}" if is_own else "",
        "Precision": f"{study['precision']}, {study['memory_format']}",
        "Optimiser": f"{f'{of_file}, or where it has none ' if is_own else ''}SGD, learning rate "
        f"{optimiser['learning_rate']}, momentum {optimiser['momentum']}, "
        f"weight decay {optimiser['weight_decay']}, fused {on_or_off(optimiser['fused'])}",
        "Settings": f"compile {study['compile']}, CUDA graph {on_or_off(study['cuda_graph'])}, cuDNN benchmark "
        f"{on_or_off(study['cudnn_benchmark'])}, {terms.samples} on the {study['images_on']}",
        "Loader": f"{plural(dataset['loader_workers'], 'worker')} per process",
        "Clock": f"{_runs(study, times)} per configuration, each of {plural(epochs['warmup'], 'epoch')} to warm up "
        f"and {_timed_epochs(study, runs)} timed",
    })  # fmt: skip


def _runs(study: JsonValues, times: Iterable[TimesRow]) -> str:
    """`6 runs`, or `3 to 4 of 6 runs` where configurations lack some."""
    runs = {row.runs for row in ok(times) if row.runs is not None}
    planned = plural(study["runs"], "run")
    return planned if runs <= {study["runs"]} else f"{span(runs)} of {planned}"


def _timed_epochs(study: JsonValues, runs: Iterable[RunsRow]) -> str:
    """`1 to 3`, as the runs under the study's own settings have; what is planned where nothing was measured."""
    return span([row.n for row in runs if not row.variant and row.n is not None] or [study["epochs"]["timed"]])


def environment_facts(environments: Iterable[EnvironmentsRow], terms: Terms) -> dict[str, Facts]:
    """The facts of every environment; those that were not recorded are left out."""
    return {f"Environment {row.environment}": _known(_facts(row, terms)) for row in environments}


def _facts(row: EnvironmentsRow, terms: Terms) -> Facts:
    return {
        "Environment": row.environment if terms.several_environments else "",
        capitalised(terms.device): row.device_model,
        "Links": row.links,
        "CPU": ", ".join(filter(None, (row.cpu_model, row.cpu_cores and f"{row.cpu_cores} cores"))),
        "Software": ", ".join(f"{name} {getattr(row, name)}" for name in _VERSIONS if getattr(row, name)),
        "Variables": row.variables,
        "Hosts": row.hosts,
    }


def _known(facts: Facts) -> Facts:
    return {name: value for name, value in facts.items() if value}

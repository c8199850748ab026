"""The set-up: what was measured and how, and of every environment what measured."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from dpscale.present.text.words import Terms, capitalised, is_own_workload, listed, on_or_off, plural
from dpscale.schemas.settings import JsonValues
from dpscale.tables.communication import BandwidthRow
from dpscale.tables.study import EnvironmentsRow, RecordsRow

# Enough to tell one version of a file from another.
CHECKSUM_DIGITS = 12
_VERSIONS = ("torch", "cuda", "cudnn", "nccl", "driver")

Facts = Mapping[str, str]
"""What is said, by what it is about."""


def network(study: JsonValues) -> str:
    """`ResNet-18 for 32×32 images, width 8`, or the name of the workload's file."""
    if is_own_workload(study):
        return Path(study["workload"]).name
    name, width = "ResNet-18 for 32×32 images", study["network"]["width"]
    return name if width == 64 else f"{name}, width {width}"


def devices(
    study: JsonValues, records: Sequence[RecordsRow], environments: Iterable[EnvironmentsRow], terms: Terms
) -> str:
    """`up to 4 GPUs (NVIDIA H200)`: what was measured; what was asked for where nothing was."""
    number = max((row.gpus or 0 for row in records), default=max(study["gpus"]))
    models = sorted({row.device_model for row in environments if row.device_model})
    return f"up to {terms.count(number)}{f' ({listed(models)})' if models else ''}"


def dates(records: Sequence[RecordsRow]) -> str:
    """Return the days, UTC, on which the first record began and the last one ended; "" without records."""
    started = [row.started_at for row in records if row.started_at]
    finished = [row.finished_at for row in records if row.finished_at]
    days = sorted({min(started)[:10], max(finished)[:10]}) if started and finished else []
    return " to ".join(days)


def study_facts(
    study: JsonValues, records: Sequence[RecordsRow], bandwidth: Iterable[BandwidthRow], terms: Terms
) -> Facts:
    """Return when it was measured, and how, by the study's own settings; what was not recorded is left out."""
    dataset, epochs, optimiser = study["dataset"], study["epochs"], study["optimiser"]
    is_own = is_own_workload(study)
    of_file = f"that of {network(study)}"
    parameters = next((f", K = {row.parameters:,} parameters" for row in bandwidth if row.parameters), "")
    return _known({
        "Measured": dates(records),
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
        "Planned": f"{plural(study['runs'], 'run')} per configuration, each of "
        f"{plural(epochs['warmup'], 'epoch')} to warm up and {epochs['timed']} timed",
    })  # fmt: skip


def environment_facts(environments: Iterable[EnvironmentsRow], terms: Terms) -> dict[str, Facts]:
    """Return the facts of every environment; those that were not recorded are left out."""
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

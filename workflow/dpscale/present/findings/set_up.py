"""The set-up: what was measured and how, and of every environment what measured. Its words: template/set_up.txt.j2."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dpscale.present.text.sentences import paragraphs
from dpscale.present.text.words import Terms, is_own_workload, listed
from dpscale.schemas.settings import JsonValues
from dpscale.tables.communication import BandwidthRow
from dpscale.tables.study import EnvironmentsRow, RecordsRow

# Enough to tell one version of a file from another.
CHECKSUM_DIGITS = 12

Facts = Mapping[str, str]
"""What is said, by what it is about."""


def network(study: JsonValues) -> str:
    """`ResNet-18 for 32×32 images, width 8`, or the name of the workload's file."""
    if is_own_workload(study):
        return Path(study["workload"]).name
    layers, width = study["network"]["name"].removeprefix("cifar_resnet"), study["network"]["width"]
    name = f"ResNet-{layers} for 32×32 images"
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
    """Return when it was measured, by which code, and how, by the study's own settings; what was not recorded is left
    out."""
    coded = [row for row in records if row.git_commit]
    return _facts(
        "study",
        terms,
        study=study,
        is_own=is_own_workload(study),
        network=network(study),
        dates=dates(records),
        commits=sorted({f"{row.git_commit[:12]}{' (dirty)' if row.git_dirty else ''}" for row in coded}),
        parameters=next((row.parameters for row in bandwidth if row.parameters), None),
        checksum=(study["workload_sha256"] or "")[:CHECKSUM_DIGITS],
    )


def environment_facts(environments: Iterable[EnvironmentsRow], terms: Terms) -> dict[str, Facts]:
    """Return the facts of every environment; those that were not recorded are left out."""
    return {f"Environment {row.environment}": _facts("environment", terms, row=row) for row in environments}


def _facts(topic: str, terms: Terms, **values: Any) -> Facts:
    return {name: " ".join(lines) for name, lines in paragraphs("set_up", topic, terms, **values).items()}

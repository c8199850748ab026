"""The file of a workload as a study names it: its place and its checksum. It is not run here. Free of torch."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from dpscale.errors import WorkloadError
from dpscale.schemas.settings import BUILT_IN, NO_CHECKSUM, OF_FILE, NetworkSettings, StepSettings

Settings = TypeVar("Settings", bound=NetworkSettings)


def checksum(path: Path) -> str:
    """Return the SHA-256 of a workload's file in hexadecimal digits. Raises WorkloadError where it cannot be read."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        why = "there is no such file" if isinstance(error, FileNotFoundError) else f"cannot be read: {error.strerror}"
        raise WorkloadError(
            f"workload: {path}: {why}. Name a Python file, from the folder that the study runs in"
        ) from error


def of_its_file(settings: Settings) -> Settings:
    """Return settings with what follows from the file of a workload: its checksum, and where network and samples come
    from. Raises WorkloadError where it cannot be read, or is not the file that the settings were made for."""
    if settings.workload == BUILT_IN:
        return settings
    sha256 = checksum(Path(settings.workload))
    if settings.workload_sha256 not in (NO_CHECKSUM, sha256):
        raise WorkloadError(
            f"workload: {settings.workload}: has changed since this was planned: its checksum is {sha256}, not "
            f"{settings.workload_sha256}. Start the run again"
        )
    settings = replace(settings, network=OF_FILE, workload_sha256=sha256)
    return replace(settings, dataset_source=OF_FILE) if isinstance(settings, StepSettings) else settings


def study_of_its_file(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a study with what follows from the workload's file, where it names one.

    A checksum that stands there already is kept: tables and page need no file. Raises WorkloadError where the file
    cannot be read, or where it is not said how many samples an epoch has.
    """
    path = values.get("workload", BUILT_IN)
    if path == BUILT_IN:
        return dict(values)
    dataset = values.get("dataset", {})
    if "images" not in dataset:
        raise WorkloadError(f"dataset.images: say how many samples of {path} an epoch has")
    stated = values.get("workload_sha256", NO_CHECKSUM)
    return {
        **values,
        "workload_sha256": checksum(Path(path)) if stated == NO_CHECKSUM else stated,
        "network": {"name": OF_FILE, **values.get("network", {})},
        "dataset": {"source": OF_FILE, **dataset},
    }

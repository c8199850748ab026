"""The file of a workload as a study names it: its place and its checksum. The file is not run here. Free of torch."""

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from dpscale.errors import WorkloadError
from dpscale.schemas.settings import BUILT_IN, NO_CHECKSUM, OF_FILE, NetworkSettings, StepSettings

Settings = TypeVar("Settings", bound=NetworkSettings)


def checksum(path: Path) -> str:
    """The SHA-256 of a workload's file, as hexadecimal digits. Raises WorkloadError where it cannot be read."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        why = "there is no such file" if isinstance(error, FileNotFoundError) else f"cannot be read: {error.strerror}"
        raise WorkloadError(
            f"workload: {path}: {why}. Name a Python file, from the folder that the study runs in"
        ) from error


def of_its_file(settings: Settings) -> Settings:
    """The same settings, with what follows from the file of a workload: its checksum, and where network and samples
    come from. Raises WorkloadError where it cannot be read, or is not the file that the settings were made for."""
    if settings.workload == BUILT_IN:
        return settings
    found = checksum(Path(settings.workload))
    if settings.workload_sha256 not in (NO_CHECKSUM, found):
        raise WorkloadError(
            f"workload: {settings.workload}: has changed since this was planned: its checksum is {found}, not "
            f"{settings.workload_sha256}. Start the run again"
        )
    settings = replace(settings, network=OF_FILE, workload_sha256=found)
    return replace(settings, dataset_source=OF_FILE) if isinstance(settings, StepSettings) else settings

"""What is trained: a network, its data and its loss, as plain functions."""

from pathlib import Path
from typing import TYPE_CHECKING

from dpscale.schemas.settings import BUILT_IN, NetworkSettings

if TYPE_CHECKING:
    from dpscale.measure.workload.batches import Workload


def workload_of(settings: NetworkSettings, images: Path) -> "Workload":
    """Return the workload that the settings name: a user's file, or the one that comes with dpscale, on the images in
    the folder `images`. Each loads what it needs, and nothing of the other. Raises WorkloadError."""
    if settings.workload == BUILT_IN:
        from dpscale.measure.workload.images import image_workload

        return image_workload(settings, images)
    from dpscale.measure.workload.from_file import load_workload

    return load_workload(Path(settings.workload).expanduser())

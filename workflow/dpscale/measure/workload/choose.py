"""Which workload a cell trains."""

from pathlib import Path

from dpscale.measure.workload.workload import Workload
from dpscale.schemas.settings import BUILT_IN, NetworkSettings


def workload_of(settings: NetworkSettings, images: Path) -> Workload:
    """The workload that the settings name: a user's file, or the one that comes with dpscale, on the images that lie in
    the folder `images`. Each loads what it needs, and nothing of the other. Raises WorkloadError."""
    if settings.workload == BUILT_IN:
        from dpscale.measure.workload.images import image_workload

        return image_workload(settings, images)
    from dpscale.measure.workload.from_file import load_workload

    return load_workload(Path(settings.workload))

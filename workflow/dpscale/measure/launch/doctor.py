"""What every cell of a study needs, checked where cells run: torch and its GPUs, space for records, the images."""

import os
from collections.abc import Callable
from pathlib import Path

from dpscale.errors import DatasetError, DpscaleError
from dpscale.measure.launch.cells import require_given
from dpscale.plan.study import DATASET_MANIFEST, Study
from dpscale.records.files import claim_space
from dpscale.schemas.settings import OF_FILE
from dpscale.terminal import tell

CIFAR10_FOLDER = "cifar-10-batches-py"  # as torchvision unpacks it


def check_here(study: Study) -> bool:
    """Print a line for everything that was checked. Returns whether all of it is well."""
    passed = [_passes(check, study) for check in (_torch, _space, _images)]
    return all(passed)


def _passes(check: Callable[[Study], str], study: Study) -> bool:
    try:
        tell(f"ok: {check(study)}")
    except (DpscaleError, ImportError, RuntimeError) as error:
        tell(f"failed: {str(error).splitlines()[0]}")
        return False
    return True


def _torch(study: Study) -> str:
    """Compute on the first device. A GPU that this torch was not built for raises RuntimeError."""
    is_on_gpu = study["device"] == "cuda"
    require_given(int(is_on_gpu), os.environ)
    import torch

    torch.ones(1, device=study["device"]).add_(1).item()
    return f"torch {torch.__version__} computes on {torch.cuda.get_device_name() if is_on_gpu else 'the CPU'}"


def _space(study: Study) -> str:
    claim_space(study.results).close()
    return f"{study.results} takes records"


def _images(study: Study) -> str:
    source, folder = study["dataset"]["source"], Path(study["dataset"]["root"]).expanduser()
    if source in ("synthetic", OF_FILE):
        return "no images are needed"
    if source == "cifar10":
        folder /= CIFAR10_FOLDER
    if places := [path for path in (study.results / DATASET_MANIFEST, folder) if path.exists()]:
        return f"images: {places[0]} is there"
    if source == "cifar10" and study["dataset"]["download"]:
        return "images: the first job downloads them"
    raise DatasetError(f"images: {folder} is not there, and nothing downloads it")

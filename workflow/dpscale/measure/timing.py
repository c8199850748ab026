"""A timing cell from the outside: check the dataset, run the workers, write the record. Free of torch."""

import os
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dpscale import __version__
from dpscale.errors import MeasurementError
from dpscale.measure import MEASUREMENT_VERSION
from dpscale.measure.dataset import EPOCH_ARRAYS, TRAIN_ARRAYS, read_manifest, verify_dataset
from dpscale.measure.workers import Workers
from dpscale.record import Record, write_record
from dpscale.study import Cell, Settings

ARRAYS_OF_SCOPE = {"compute": EPOCH_ARRAYS, "end_to_end": TRAIN_ARRAYS}
# Variables that steer CUDA, NCCL and the allocator, and the node that Slurm gave.
RECORDED_VARIABLES = (
    *("NCCL_", "PYTORCH_", "CUDA_", "CUBLAS_", "CUDNN_", "TORCH_", "OMP_NUM_THREADS", "MKL_NUM_THREADS"),
    *("SLURMD_NODENAME", "SLURM_JOB_PARTITION"),
)
JOB_ID_VARIABLES = ("SLURM_JOB_ID",)


def time_cell(
    cell: Cell, settings: Settings, dataset: Path, timeout_s: float, out: Path, end_with_parent: bool
) -> Record:
    """Measure `cell` and write its record to `out`; `end_with_parent` stops it when its parent process is gone.

    Raises DatasetError, RecordError or MeasurementError; there is then no record.
    """
    at = cell.configuration
    if problem := settings.contradiction():
        raise MeasurementError(problem)
    if settings.device == "cpu" and at.strategy == "dp":
        raise MeasurementError("dp is not available on a CPU: DataParallel needs CUDA GPUs")
    if (at.strategy == "single") != (at.gpus == 1):
        raise MeasurementError(f"{at.strategy} does not go with {at.gpus} GPUs: single has 1, dp and ddp more")
    if at.global_batch > settings.epoch_images:
        raise MeasurementError(f"capped: global batch {at.global_batch} > {settings.epoch_images} images")
    manifest = read_manifest(dataset)
    _require_dataset(manifest, settings, dataset)
    started_at = _now()
    job = {
        "configuration": [at.strategy, at.gpus, at.batch_per_gpu],
        "run": cell.run,
        "settings": settings.to_json(),
        "dataset": str(dataset.resolve()),
        "timeout_s": timeout_s,
    }
    processes = at.gpus if at.strategy == "ddp" else 1
    gpus = at.gpus if settings.device == "cuda" else 0
    with Workers("dpscale.measure.timing_worker", job, processes, gpus) as workers:
        # While the workers load torch.
        verify_dataset(dataset, manifest, [name for scope in settings.scopes for name in ARRAYS_OF_SCOPE[scope]])
        provenance = _provenance()
        outcome = workers.outcome(timeout_s, end_with_parent)
    record = {
        "kind": "timing",
        "measurement_version": MEASUREMENT_VERSION,
        "cell": {"strategy": at.strategy, "gpus": at.gpus, "batch_per_gpu": at.batch_per_gpu, "run": cell.run},
        "settings": settings.to_json(),
        "dataset": {key: manifest[key] for key in ("source", "synthetic", "images", "sha256")},
        "started_at": started_at,
        "finished_at": _now(),
        "provenance": provenance,
        **outcome,
    }
    write_record("timing", out, record)
    return record


def _require_dataset(manifest: dict[str, Any], settings: Settings, folder: Path) -> None:
    wanted = {"source": settings.dataset_source, "images": settings.epoch_images}
    for key, value in wanted.items():
        if manifest[key] != value:
            raise MeasurementError(f"{folder}: its {key} is {manifest[key]}, the cell asks for {value}")


def _provenance() -> dict[str, Any]:
    commit, dirty = _git_state(Path(__file__).parents[2])
    return {
        "dpscale_version": __version__,
        "git_commit": commit,
        "git_dirty": dirty,
        "command": shlex.join(["dpscale", *sys.argv[1:]]),
        "job_id": next((os.environ[name] for name in JOB_ID_VARIABLES if name in os.environ), None),
        "environment": {
            name: value for name, value in sorted(os.environ.items()) if name.startswith(RECORDED_VARIABLES)
        },
    }


def _git_state(folder: Path) -> tuple[str | None, bool | None]:
    """Commit of the code in `folder`, and whether anything in it differs; None where there is no repository."""
    try:
        commit = _git(folder, "rev-parse", "HEAD")
        return commit, bool(_git(folder, "status", "--porcelain", "."))
    except (OSError, subprocess.CalledProcessError):
        return None, None


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")

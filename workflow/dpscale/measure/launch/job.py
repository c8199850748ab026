"""The job of a cell: check the dataset, run the workers, write the record."""

import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from dpscale import __version__
from dpscale.errors import MeasurementError
from dpscale.measure.data.arrays import read_manifest, verify_dataset
from dpscale.measure.launch.nodes import ONE_NODE, NodePlace, NodeTeam, node_differences
from dpscale.measure.launch.workers import Workers
from dpscale.measure.watch.nvml import gpus_there
from dpscale.plan.cells import AnyCell, StepCell, TrainingCell, contradiction
from dpscale.plan.workload_file import of_its_file
from dpscale.records.files import JsonRecord, write_record
from dpscale.records.versions import VERSIONS
from dpscale.schemas.settings import BUILT_IN, NetworkSettings, StepSettings
from dpscale.strategies.known import strategy

# Variables that configure CUDA, NCCL and the allocator, and the node that Slurm chose.
RECORDED_VARIABLES = (
    *("NCCL_", "GLOO_", "PYTORCH_", "CUDA_", "CUBLAS_", "CUDNN_", "TORCH_", "OMP_NUM_THREADS", "MKL_NUM_THREADS"),
    "NVIDIA_TF32_OVERRIDE",
    *("SLURMD_NODENAME", "SLURM_JOB_PARTITION"),
)
# What a record says of a cell's samples.
NAMED = ("source", "synthetic", "images", "sha256")


@dataclass(frozen=True)
class Run:
    """How a cell is run: it is stopped after `timeout_s` seconds, and, with `end_with_parent`, when the process that
    started it has ended. Its record is written to `out`, by node 0 of those that it is run on (`place`)."""

    timeout_s: float
    end_with_parent: bool
    out: Path
    place: NodePlace = ONE_NODE


@dataclass(frozen=True)
class Samples:
    """What a cell trains on, as its record names it; and how to verify it, while the workers load torch."""

    named: Mapping[str, Any]
    verify: Callable[[], None] = lambda: None

    @classmethod
    def of(cls, settings: StepSettings, folder: Path | None, arrays: Sequence[str]) -> "Samples":
        """What a cell with these settings trains on: `arrays` in `folder`, or what its file makes, which the workers
        verify when they load it. Raises DatasetError where `folder` holds no dataset, MeasurementError where one is
        needed and none is named, or where it is not that of `settings`."""
        if settings.workload != BUILT_IN:
            # As far as a checksum can tell, they are the file.
            made = (settings.dataset_source, False, settings.epoch_images, settings.workload_sha256)
            return cls(dict(zip(NAMED, made, strict=True)))
        if folder is None:
            raise MeasurementError("no images: name the folder that `dpscale dataset` wrote with --dataset")
        manifest = read_manifest(folder)
        for key, value in {"source": settings.dataset_source, "images": settings.epoch_images}.items():
            if getattr(manifest, key) != value:
                raise MeasurementError(f"{folder}: its {key} is {getattr(manifest, key)}, the cell asks for {value}")
        return cls({key: getattr(manifest, key) for key in NAMED}, partial(verify_dataset, folder, manifest, arrays))


def measure_steps(
    module: str,
    cell: StepCell | TrainingCell,
    settings: StepSettings,
    dataset: Path | None,
    arrays: Sequence[str],
    run: Run,
    **more: Any,
) -> JsonRecord:
    """Have `module` train the configuration of `cell` on the images in the folder `dataset`, or on the samples of the
    settings' file; write the cell's record.

    `more` are further keys of the workers' job. Empty on all nodes but node 0. Raises DatasetError, RecordError,
    MeasurementError or WorkloadError; there is then no record. The second also where no such cell can exist.
    """
    settings = of_its_file(settings)
    configuration = cell.configuration
    if obstacle := contradiction(settings) or configuration.obstacle(settings):
        raise MeasurementError(": ".join(obstacle))
    samples = Samples.of(settings, dataset, arrays)
    job = {
        "configuration": list(configuration.coordinates.values()),
        "seed": cell.seed,
        "dataset": str(dataset.resolve()) if dataset else "",
        **more,
    }
    processes = strategy(configuration.strategy).processes(configuration.gpus)
    return measure(module, cell, settings, job, processes, configuration.gpus, run, samples)


def measure(
    module: str,
    cell: AnyCell,
    settings: NetworkSettings,
    job: Mapping[str, Any],
    processes: int,
    gpus: int,
    run: Run,
    samples: Samples | None = None,
) -> JsonRecord:
    """Run `module` in `processes` workers on `gpus` GPUs, and write the outcome as the cell's record.

    Those are all of the cell's, on all of its nodes. Empty on all nodes but node 0, which writes the record. Raises
    DatasetError, RecordError or MeasurementError; there is then no record.
    """
    started_at = now()
    values = settings.to_json()
    whole_job = {**job, "settings": values, "timeout_s": run.timeout_s}
    identity = {
        "kind": cell.kind,
        "measurement_version": VERSIONS[cell.kind].current,
        "cell": cell.coordinates,
        "settings": values,
        **({} if samples is None else {"dataset": dict(samples.named)}),
    }
    gpus_here = gpus // run.place.nodes if values["device"] == "cuda" else 0
    require_given(gpus_here, os.environ)
    with NodeTeam(run.place, {**identity, "dpscale": __version__}, _steering_variables()) as team:
        with Workers(module, whole_job, processes, gpus_here, team) as workers:
            if samples is not None:
                samples.verify()  # while the workers load torch
            ran = provenance()
            outcome = workers.outcome(run.timeout_s, run.end_with_parent)
        if not outcome:
            return {}
        record = {
            **identity,
            "started_at": started_at,
            "finished_at": now(),
            "provenance": ran,
            **outcome,
        }
        if run.place.nodes > 1:
            shown = zip(outcome["nodes"], team.environments, strict=True)
            record["nodes"] = [{**node, "environment": environment} for node, environment in shown]
            record["nodes_differ"] = node_differences(record["nodes"])
        write_record(cell.kind, run.out, record)
    return record


def require_given(gpus: int, environment: Mapping[str, str]) -> None:
    """Raise MeasurementError where this process has fewer GPUs than it is to use: before torch is loaded."""
    there = gpus_there(environment)
    if gpus and there is not None and there < gpus:
        given = environment.get("CUDA_VISIBLE_DEVICES")
        because = "" if given is None else f", of which CUDA_VISIBLE_DEVICES={given or '(none)'} gives {there}"
        raise MeasurementError(
            f"asked for {gpus} GPUs on this node, there {'is' if there == 1 else 'are'} {there}{because}. "
            "On a CPU, workers take their place: --device cpu (in a study: device: cpu)"
        )


def provenance() -> dict[str, Any]:
    """By which code and command a record is made, and under which variables."""
    commit, dirty = git_state(Path(__file__).parents[3])
    return {
        "dpscale_version": __version__,
        "git_commit": commit,
        "git_dirty": dirty,
        "command": shlex.join(["dpscale", *sys.argv[1:]]),
        "job_id": os.environ.get("SLURM_JOB_ID"),
        "environment": _steering_variables(),
    }


def _steering_variables() -> dict[str, str]:
    return {name: value for name, value in sorted(os.environ.items()) if name.startswith(RECORDED_VARIABLES)}


def git_state(folder: Path) -> tuple[str | None, bool | None]:
    """Commit of the code in `folder`, and whether anything in it differs; None where there is no repository."""
    # Without its locks: a cell that is killed here would leave one behind, and nobody could commit any more.
    git = ["git", "--no-optional-locks", "-C", str(folder)]
    try:
        commit, changes = (
            subprocess.run([*git, *arguments], capture_output=True, text=True, check=True).stdout.strip()
            for arguments in (["rev-parse", "HEAD"], ["status", "--porcelain", "."])
        )
    except (OSError, subprocess.CalledProcessError):
        return None, None
    return commit, bool(changes)


def now() -> str:
    """UTC, as records have it."""
    return datetime.now(UTC).isoformat(timespec="seconds")

"""Runs as offline runs of Weights & Biases, to be sent with `wandb sync` later. Nothing here reaches a network."""

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

# Before it is loaded: it would report its own errors over the network.
os.environ.setdefault("WANDB_ERROR_REPORTING", "false")

import wandb

from dpscale.export.runs import TrackedRun


def export(runs: Sequence[TrackedRun], place: Path) -> str:
    """Write the runs under the folder `place`, each in the place of an earlier export of it, and return how to
    send them."""
    place.mkdir(parents=True, exist_ok=True)
    try:
        for run in runs:
            # An earlier export of this run: it has the time of that in its name.
            for folder in (place / "wandb").glob(f"offline-run-*-{run.id}"):
                shutil.rmtree(folder)
            _write(run, place)
    finally:
        # The process that writes the files is asked for the end: a finished run may not be on the disk yet.
        wandb.teardown()
    return f"Send them: wandb sync {place}/wandb/offline-run-*"


def _write(run: TrackedRun, place: Path) -> None:
    tracked = wandb.init(
        project=run.study,
        id=run.id,
        name=run.key,
        group=run.key.rpartition("/")[0] or None,
        job_type=run.kind,
        config=dict(run.config),
        settings=_settings(place),
        reinit="create_new",
    )
    for row in _history(run, tracked):
        tracked.log(row)
    tracked.summary.update(dict(run.figures))
    if run.files:
        artifact = wandb.Artifact(f"{run.study}-tables-and-page", type="results")
        for file in run.files:
            artifact.add_file(str(file))
        tracked.log_artifact(artifact)
    tracked.finish()


def _history(run: TrackedRun, tracked: wandb.Run) -> Iterator[dict[str, float]]:
    """Return a row for every step and every epoch, with all its figures. Charts have its number as their axis."""
    rows: dict[tuple[str, int], dict[str, float]] = {}
    for curve in run.curves:
        axis = f"{curve.name.partition('/')[0]}/{curve.axis}"
        tracked.define_metric(axis, hidden=True)
        tracked.define_metric(curve.name, step_metric=axis)
        for number, clock_s, value in curve.points:
            rows.setdefault((axis, number), {axis: number, "_timestamp": clock_s})[curve.name] = value
    yield from sorted(rows.values(), key=lambda row: row["_timestamp"])


def _settings(place: Path) -> wandb.Settings:
    """Return settings that are offline, silent, and without anything of this machine: the cells ran elsewhere, or
    earlier."""
    return wandb.Settings(
        mode="offline",
        root_dir=str(place),
        console="off",
        silent=True,
        host="unknown",
        username="unknown",
        disable_git=True,
        disable_code=True,
        save_code=False,
        x_disable_machine_info=True,
        x_disable_meta=True,
        x_disable_stats=True,
        x_save_requirements=False,
    )

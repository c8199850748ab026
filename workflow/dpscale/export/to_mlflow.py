"""Runs in MLflow: in a local store, or on a tracking server. One experiment per study."""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

# Before it is loaded: it would report its use over the network, and ask a server that is not there for minutes.
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")

from mlflow import MlflowClient
from mlflow.entities import Metric, Param
from mlflow.exceptions import MlflowException

from dpscale.errors import ExportError
from dpscale.export.runs import TrackedRun

T = TypeVar("T")

# The tag that tells an exported run from others in its experiment.
ID_TAG = "dpscale.id"
# The most of each that MLflow takes at once.
_METRICS, _PARAMS, _RUNS = 1000, 100, 50_000


def export(runs: Sequence[TrackedRun], place: Path, uri: str | None = None) -> str:
    """Write the runs to the store or server at `uri`, or to a store in the folder `place`, and return how to look at
    them.

    Each takes the place of an earlier export of it. A local store is a database and a folder of artefacts; a server
    keeps files at a place of its own. Raises ExportError where the store does not answer.
    """
    artefacts, hint = None, f"Look at them: {uri}"
    if uri is None:
        place.mkdir(parents=True, exist_ok=True)
        artefacts, uri = place / "artefacts", f"sqlite:///{(place / 'mlflow.db').resolve()}"
        hint = f"Look at them: mlflow ui --backend-store-uri {uri}"
    try:
        client = MlflowClient(uri)
        experiment = _experiment(client, runs[0].study, artefacts)
        earlier = client.search_runs([experiment], max_results=_RUNS)
        before = {run.data.tags.get(ID_TAG): run.info.run_id for run in earlier}
        for run in runs:
            if run.id in before:
                client.delete_run(before[run.id])
            _write(client, experiment, run)
    except MlflowException as error:
        raise ExportError(f"{uri}: MLflow: {str(error).splitlines()[0]}") from error
    return hint


def _experiment(client: MlflowClient, study: str, artefacts: Path | None) -> str:
    """Return the experiment that is named as the study, made where it is missing."""
    experiment = client.get_experiment_by_name(study)
    if experiment is None:
        location = str(artefacts.resolve()) if artefacts else None
        return str(client.create_experiment(study, artifact_location=location))
    if experiment.lifecycle_stage != "active":
        raise ExportError(f"the experiment {study} was deleted in MLflow. Restore it there, or delete it for good")
    return str(experiment.experiment_id)


def _write(client: MlflowClient, experiment: str, run: TrackedRun) -> None:
    tags = {ID_TAG: run.id, "dpscale.kind": run.kind}
    tracked = client.create_run(experiment, start_time=_milliseconds(run.started_s), tags=tags, run_name=run.key)
    number = tracked.info.run_id
    params = [Param(_name(name), "" if value is None else str(value)) for name, value in run.config.items()]
    for batch in _batched(params, _PARAMS):
        client.log_batch(number, params=batch)
    for metrics in _batched(list(_metrics(run)), _METRICS):
        client.log_batch(number, metrics=metrics)
    for file in run.files:
        client.log_artifact(number, str(file), "tables" if file.suffix == ".csv" else None)
    client.set_terminated(number, "FINISHED", _milliseconds(run.finished_s))


def _metrics(run: TrackedRun) -> Iterator[Metric]:
    for curve in run.curves:
        for number, clock_s, value in curve.points:
            yield Metric(_name(curve.name), value, _milliseconds(clock_s), number)
    for name, value in run.figures.items():
        yield Metric(_name(name), value, _milliseconds(run.finished_s), 0)


def _name(name: str) -> str:
    """Return the name with the number of every character that MLflow does not take in one."""
    return re.sub(r"[^\w./ :-]", lambda character: f" {ord(character[0])} ", name)


def _batched(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (items[start : start + size] for start in range(0, len(items), size))


def _milliseconds(clock_s: float) -> int:
    return round(clock_s * 1000)

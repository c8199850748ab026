"""Runs in MLflow, read back with its own client: from a local store."""

import shutil
import socket
from pathlib import Path
from typing import Any

import pytest

from command_line import dpscale
from exported_study import SHORT, Measured

# MLflow takes seconds to load, starts a process then, and takes longer to make a store. So it is loaded within the
# tests, and they share one store.
pytestmark = [pytest.mark.slow, pytest.mark.processes]


def client_of(uri: str) -> Any:
    from mlflow import MlflowClient

    return MlflowClient(uri)


@pytest.fixture(scope="module")
def exported(measured: Measured, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a local store that the study was exported to. No test changes it."""
    place = tmp_path_factory.mktemp("store")
    printed = measured.export("--to", "mlflow", "--out", place)
    assert f"mlflow ui --backend-store-uri {uri_of(place)}" in printed
    return place


@pytest.fixture
def store(exported: Path, tmp_path: Path) -> str:
    """A copy of that store."""
    shutil.copytree(exported, tmp_path / "store")
    return uri_of(tmp_path / "store")


def uri_of(place: Path) -> str:
    return f"sqlite:///{place}/mlflow.db"


def read(uri: str) -> dict[str, Any]:
    """Every run of the study by its name."""
    client = client_of(uri)
    experiment = client.get_experiment_by_name("small")
    assert experiment is not None
    runs = client.search_runs([experiment.experiment_id])
    by_name = {run.info.run_name: run for run in runs}
    assert len(by_name) == len(runs), "no run twice"
    return by_name


def test_a_local_store_has_the_numbers_settings_and_times(measured: Measured, store: str) -> None:
    client, runs = client_of(store), read(store)
    assert set(runs) == set(measured.runs)
    for key, run in measured.runs.items():
        assert {name: runs[key].data.metrics[name.replace("+", " 43 ")] for name in run.figures} == run.figures, key
    number = runs[SHORT].info.run_id
    for curve in measured.runs[SHORT].curves:
        written = sorted(client.get_metric_history(number, curve.name), key=lambda metric: metric.step)
        in_seconds = [(metric.step, metric.timestamp / 1000, metric.value) for metric in written]
        assert in_seconds == [(step, pytest.approx(clock_s, abs=0.001), value) for step, clock_s, value in curve.points]
    artifacts = {file.path for file in client.list_artifacts(runs["study"].info.run_id)}
    assert artifacts == {"tables", "small.html", "answer.json"}
    tables = client.list_artifacts(runs["study"].info.run_id, "tables")
    assert {"tables/speedup.csv", "tables/times.csv"} <= {file.path for file in tables}
    params = runs["variants/half+graph/single/gpus-1/batch-512/run-1"].data.params
    assert (params["precision"], params["gpus"], params["variant"]) == ("bfloat16", "1", "half+graph")
    assert runs["study"].data.params["variants.half 43 graph.precision"] == "bfloat16"
    info = runs[SHORT].info
    assert (info.end_time - info.start_time, info.status) == (60_000, "FINISHED")


def test_a_second_export_replaces_its_runs(measured: Measured, store: str, tmp_path: Path) -> None:
    shutil.copytree(measured.folder, tmp_path / "copy")
    copy = Measured(tmp_path / "copy", measured.study)
    before = read(store)
    key = "cells/ddp/gpus-2/batch-512/run-2"
    (copy.results / f"{key}.json").unlink()
    copy.rewrite_tables()
    copy.export("--to", "mlflow", "--uri", store)
    after = read(store)
    assert set(after) == set(before), "a run without a record stays in the tracker"
    assert after["cells/ddp/gpus-2/batch-512/run-1"].data.metrics["times/compute/runs"] == 1


def test_a_server_that_is_not_there_is_told_in_one_line(measured: Measured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        uri = f"http://127.0.0.1:{free.getsockname()[1]}"
        done = dpscale("export", "study.json", "--to", "mlflow", "--uri", uri, folder=measured.folder)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(f"Error: {uri}: MLflow: ")

"""Offline runs of Weights & Biases, read back with its own reader of run files."""

import json
import re
import socket
from collections import defaultdict
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from exported_study import Measured

# It starts a process of its own.
pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def place(measured: Measured, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("offline")
    printed = measured.export("--to", "wandb", "--out", place)
    assert f"wandb sync {place}/wandb/offline-run-*" in printed
    return place


def records_of(file: Path) -> Iterator[Any]:
    messages: Any = import_module("wandb.proto.wandb_internal_pb2")
    store: Any = import_module("wandb.sdk.internal.datastore").DataStore()
    store.open_for_scan(str(file))
    while (data := store.scan_data()) is not None:
        record = messages.Record()
        record.ParseFromString(data)
        yield record


def read(place: Path) -> dict[str, Any]:
    """The records of every run file by their kind, by the run's name."""
    by_name = {}
    for file in place.glob("wandb/offline-run-*/run-*.wandb"):
        by_kind: dict[str, list[Any]] = defaultdict(list)
        for record in records_of(file):
            kind = record.WhichOneof("record_type")
            by_kind[kind].append(getattr(record, kind))
        by_name[by_kind["run"][0].display_name] = by_kind
    return by_name


@pytest.fixture(scope="module")
def runs(place: Path) -> dict[str, Any]:
    return read(place)


def items(updates: Any) -> dict[str, Any]:
    return {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in updates}


def summary(run: Any) -> dict[str, Any]:
    return {name: value for record in run["summary"] for name, value in items(record.update).items()}


def history(run: Any) -> list[dict[str, Any]]:
    return [items(record.item) for record in run["history"]]


def test_every_run_has_its_figures_and_curves(measured: Measured, runs: dict[str, Any]) -> None:
    for key, run in measured.runs.items():
        assert run.figures.items() <= summary(runs[key]).items(), key
        rows = history(runs[key])
        for curve in run.curves:
            axis = f"{curve.name.partition('/')[0]}/{curve.axis}"
            written = [(row[axis], row["_timestamp"], row[curve.name]) for row in rows if curve.name in row]
            assert written == list(curve.points)


def test_nothing_of_this_machine_is_written(place: Path, runs: dict[str, Any]) -> None:
    for run in runs.values():
        assert run["run"][0].host == "unknown"
        assert not run["environment"]
        assert not run["output_raw"]
    assert not list(place.rglob("requirements.txt"))
    # The texts of the records, not the bytes of the files, which hold checksums: any two letters may stand in one.
    text = "".join(str(record) for file in place.rglob("run-*.wandb") for record in records_of(file))
    assert "small" in text
    assert "node1" not in text
    # As a word: ids are random letters, and the name of a machine may be short.
    assert not re.search(rf"(?<![a-z0-9]){re.escape(socket.gethostname())}(?![a-z0-9])", text)


def test_a_second_export_takes_the_place_of_the_first(measured: Measured, place: Path) -> None:
    ids = {name: run["run"][0].run_id for name, run in read(place).items()}
    measured.export("--to", "wandb", "--out", place)
    assert {name: run["run"][0].run_id for name, run in read(place).items()} == ids
    assert len(list(place.glob("wandb/offline-run-*"))) == len(ids)

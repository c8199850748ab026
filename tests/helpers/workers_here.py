"""Cells of one worker measured in the tests' own process, which has loaded torch already."""

import importlib
import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from dpscale.errors import MeasurementError
from dpscale.measure import OUTCOME
from dpscale.measure.launch import cells as launcher
from dpscale.measure.launch.nodes import NodeTeam
from dpscale.measure.launch.workers import Workers


class WorkerHere:
    """In place of `Workers`, for one worker: it is run when it is asked for its outcome."""

    def __init__(self, module: str, job: Mapping[str, Any]):
        self._module = module
        self._job = job

    def __enter__(self) -> "WorkerHere":
        self._folder = tempfile.TemporaryDirectory(prefix="dpscale-")
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def outcome(self, timeout_s: float, end_with_parent: bool) -> dict[str, Any]:
        threads = torch.get_num_threads()
        try:
            worker = importlib.import_module(self._module).WORKER({**self._job, "folder": self._folder.name}, 0)
            worker.run()
        finally:
            torch.set_num_threads(threads)
        outcome: dict[str, Any] = json.loads((Path(self._folder.name) / OUTCOME).read_text())
        if outcome["status"] == "failed":
            raise MeasurementError(outcome["message"])
        return outcome


@contextmanager
def single_workers_here() -> Iterator[None]:
    """Cells of one worker are measured here, those of more in processes as ever."""

    def workers(module: str, job: Mapping[str, Any], count: int, gpus: int, team: NodeTeam) -> Workers | WorkerHere:
        return WorkerHere(module, job) if count == 1 else Workers(module, job, count, gpus, team)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launcher, "Workers", workers)
        yield

"""Workers of a cell that need not load torch, which takes longer than a small cell: forked from a process that has, or
run in the tests' own process.

That command itself: worker/test_timing_cells.py; that workers end with their launcher: launch/test_workers.py.
"""

import importlib
import json
import multiprocessing
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dpscale.errors import MeasurementError
from dpscale.measure.launch import cells, workers
from dpscale.measure.launch.nodes import NodeTeam
from dpscale.measure.parent import OUTCOME
from dpscale.records.files import JsonRecord
from processes import signals_as_they_were
from warm import WARM

# `dpscale` with fewer messages, and with fewer and shorter blocks, for `python -c`: where no time matters.
QUICK = """
from functools import partial
from dpscale.cli import main
from dpscale.measure.launch import cells
from dpscale.measure.worker import collectives, communication
from dpscale.strategies.ddp import in_torch
from warm_workers import warm_workers

cells.FACTOR = 32
collectives.BUDGET_S = 0.01
in_torch.SETTLES_STEPS = 3
communication.CPU_BLOCK_S = 0.02
communication.random_orders = partial(communication.random_orders, rounds=1)
with warm_workers():
    main()
"""


class WarmWorker:
    """A forked process with the job, rank, environment and session that the launcher gives a worker. It has what the
    launcher needs of `subprocess.Popen`."""

    def __init__(
        self,
        command: Sequence[str],
        env: Mapping[str, str],
        stdin: int,
        start_new_session: bool,
    ):
        _, *module_of_python, worker, job_file, rank = command
        assert module_of_python == ["-m", "dpscale.measure.worker"]
        assert start_new_session
        # A launcher that was itself forked has loaded torch.
        is_forked = multiprocessing.parent_process() is not None
        context = multiprocessing.get_context("fork") if is_forked else WARM
        self._process = context.Process(target=_work, args=(worker, job_file, int(rank), dict(env)))
        self._process.start()
        with suppress(ProcessLookupError):  # where it has ended already
            while os.getpgid(self.pid) != self.pid:  # its session is what the launcher ends
                time.sleep(0.001)

    @property
    def pid(self) -> int:
        assert self._process.pid
        return self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self) -> None:
        self._process.join()


def _work(worker: str, job_file: str, rank: int, environment: Mapping[str, str]) -> None:
    os.setsid()
    os.environ.clear()
    os.environ.update(environment)
    _run(worker, json.loads(Path(job_file).read_text()), rank)


def _run(worker: str, job: Mapping[str, Any], rank: int) -> None:
    """Run the worker of a module, or a class of it: `module:class`."""
    module, _, name = worker.partition(":")
    getattr(importlib.import_module(module), name or "WORKER")(job, rank).run()


@contextmanager
def warm_workers() -> Iterator[None]:
    """Have the launcher fork its workers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workers, "subprocess", SimpleNamespace(Popen=WarmWorker, DEVNULL=subprocess.DEVNULL))
        yield


def outcome_of(worker: type, job: Mapping[str, Any], count: int = 2) -> JsonRecord:
    """Return the outcome of forked workers of a class. Raises MeasurementError as the launcher does."""
    name = f"{worker.__module__}:{worker.__qualname__}"
    with signals_as_they_were(), warm_workers(), workers.Workers(name, job, count, 0) as started:
        return started.outcome(300, end_with_parent=False)


class WorkerHere:
    """One worker in this process, in place of `Workers`: patches reach it. It runs when its outcome is asked for."""

    def __init__(self, worker: str, job: Mapping[str, Any]):
        self._worker = worker
        self._job = job

    def __enter__(self) -> "WorkerHere":
        self._folder = tempfile.TemporaryDirectory(prefix="dpscale-")
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def outcome(self, timeout_s: float, end_with_parent: bool) -> JsonRecord:
        import torch

        threads = torch.get_num_threads()
        try:
            _run(self._worker, {**self._job, "folder": self._folder.name}, 0)
        finally:
            torch.set_num_threads(threads)
        outcome: JsonRecord = json.loads((Path(self._folder.name) / OUTCOME).read_text())
        if outcome["status"] == "failed":
            raise MeasurementError(outcome["message"])
        return outcome


@contextmanager
def single_workers_here() -> Iterator[None]:
    """Measure cells of one worker in this process, and fork the workers of others."""

    def workers_of(
        module: str, job: Mapping[str, Any], count: int, gpus: int, team: NodeTeam
    ) -> workers.Workers | WorkerHere:
        return WorkerHere(module, job) if count == 1 else workers.Workers(module, job, count, gpus, team)

    with pytest.MonkeyPatch.context() as patch, warm_workers():
        patch.setattr(cells, "Workers", workers_of)
        yield

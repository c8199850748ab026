"""Workers of a cell that need not load torch: each is a process of its own with the job, rank, environment and session
that the launcher gives it, and ends as `python -m dpscale.measure.worker` would.

That command itself: worker/test_timing_cells.py; that workers end with their launcher: launch/test_workers.py.
"""

import importlib
import json
import multiprocessing
import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dpscale.measure.launch import workers
from signals import signals_as_they_were
from stub_cell import helpers_for_workers
from warm import WARM


class WarmWorker:
    """What the launcher needs of `subprocess.Popen`."""

    def __init__(
        self,
        command: Sequence[str],
        env: Mapping[str, str],
        stdin: int,
        start_new_session: bool,
        pass_fds: Sequence[int],
    ):
        _, *module_of_python, module, job_file, rank = command
        assert module_of_python == ["-m", "dpscale.measure.worker"]
        assert start_new_session
        # A launcher that was itself forked from what has loaded torch has it, and forks workers with its open files.
        is_forked = multiprocessing.parent_process() is not None
        assert is_forked or not pass_fds, "a worker that is forked from elsewhere inherits no socket of its launcher"
        context = multiprocessing.get_context("fork") if is_forked else WARM
        self._process = context.Process(target=_work, args=(module, job_file, int(rank), dict(env)))
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


@contextmanager
def warm_workers() -> Iterator[None]:
    """The launcher starts workers that have loaded torch already."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workers, "subprocess", SimpleNamespace(Popen=WarmWorker, DEVNULL=subprocess.DEVNULL))
        yield


def outcome_of_two(module: str, job: Mapping[str, Any]) -> dict[str, Any]:
    """What two such workers of a module beside this one leave. Raises MeasurementError as the launcher does."""
    with (
        signals_as_they_were(),
        helpers_for_workers(),
        warm_workers(),
        workers.Workers(module, job, 2, 0) as started,
    ):
        return started.outcome(300, end_with_parent=False)


def _work(module: str, job_file: str, rank: int, environment: Mapping[str, str]) -> None:
    os.setsid()
    os.environ.clear()
    os.environ.update(environment)
    importlib.import_module(module).WORKER(json.loads(Path(job_file).read_text()), rank).run()

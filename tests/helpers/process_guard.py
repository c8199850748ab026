"""Tests that start processes are marked: `make check` leaves them out, and it must stay quick.

A test without such a mark that starts one fails, wherever it runs.
"""

import _posixsubprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

MARKS = ("processes", "snakemake", "browser", "slurm", "gpu")
STARTING = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system"}


class ProcessGuard:
    """Knows which test is running, and refuses it a process where it is not marked."""

    def __init__(self) -> None:
        self._unmarked: str | None = None
        fork_exec = _posixsubprocess.fork_exec

        def guarded_fork_exec(*arguments: Any) -> int:
            """multiprocessing starts its processes with this, which has no audit event."""
            self._refuse_where_unmarked()
            return int(fork_exec(*arguments))

        _posixsubprocess.fork_exec = guarded_fork_exec
        sys.addaudithook(self._audit)

    @contextmanager
    def watching(self, test: pytest.Item) -> Iterator[None]:
        self._unmarked = None if any(test.get_closest_marker(mark) for mark in MARKS) else test.nodeid
        try:
            yield
        finally:
            self._unmarked = None

    def _audit(self, event: str, _arguments: tuple[Any, ...]) -> None:
        if self._unmarked and event in STARTING:
            self._refuse_where_unmarked()

    def _refuse_where_unmarked(self) -> None:
        if self._unmarked:
            raise AssertionError(f"{self._unmarked} starts a process: mark it with pytest.mark.processes")

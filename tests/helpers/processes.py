"""Processes of this machine: which ones a process has started, and which still run."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil


def started_by(pid: int) -> set[int]:
    """Processes that `pid` started, and all that those started."""
    return {process.pid for process in _descendants(pid)}


def workers_of(launcher: int) -> dict[int, int]:
    """The workers that the launcher of a cell has started, by rank. It starts others for a moment, such as git."""
    found = {}
    for process in _descendants(launcher):
        with suppress(psutil.Error):
            command = process.cmdline()
            if "dpscale.measure.worker" in command:
                found[int(command[-1])] = process.pid
    return found


def alive(pids: set[int]) -> set[int]:
    """Those that still run; a zombie waits only for its parent to look."""
    return {process.pid for process in _running("pid") if process.pid in pids}


def running_in(folder: Path) -> list[int]:
    """Processes whose working folder is `folder`: Snakemake, cells and their workers."""
    return [process.pid for process in _running("cwd") if process.info["cwd"] == str(folder)]


def _descendants(pid: int) -> list[psutil.Process]:
    with suppress(psutil.NoSuchProcess):
        return list(psutil.Process(pid).children(recursive=True))
    return []


def _running(what: str) -> Iterator[psutil.Process]:
    for process in psutil.process_iter([what, "status"]):
        if process.info["status"] != psutil.STATUS_ZOMBIE:
            yield process

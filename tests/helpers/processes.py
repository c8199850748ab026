"""Processes of this machine: which ones a process has started, which still run, and what others do."""

import ctypes
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

# Cores that other processes may use during a measurement that decides.
QUIET_CORES = 0.3
# Cells that are no job of a cluster wait for each other, however long. Nodes wait for each other so long and no longer:
# with this in the environment, as a job of their own, their cell waits for none of another test.
OWN_JOB = {"SLURM_JOB_ID": str(os.getpid())}
_PR_SET_CHILD_SUBREAPER = 36  # <linux/prctl.h>


def started_by(pid: int) -> set[int]:
    """Processes that `pid` started, and all that those started."""
    return {process.pid for process in _descendants(pid)}


def workers_of(launcher: int) -> dict[int, int]:
    """The workers that the launcher of a cell has started, by rank. It starts others for a moment, such as git."""
    pid_by_rank = {}
    for process in _descendants(launcher):
        with suppress(psutil.Error):
            command = process.cmdline()
            if "dpscale.measure.worker" in command:
                pid_by_rank[int(command[-1])] = process.pid
    return pid_by_rank


def alive(pids: set[int]) -> set[int]:
    """Return those that still run; a zombie waits only for its parent to look."""
    return {process.pid for process in _running("pid") if process.pid in pids}


def running_in(folder: Path) -> list[int]:
    """Processes whose working folder is `folder`: Snakemake, cells and their workers."""
    return [process.pid for process in _running("cwd") if process.info["cwd"] == str(folder)]


def _descendants(pid: int) -> list[psutil.Process]:
    with suppress(psutil.NoSuchProcess):
        return list(psutil.Process(pid).children(recursive=True))
    return []


def _running(attribute: str) -> Iterator[psutil.Process]:
    for process in psutil.process_iter([attribute, "status"]):
        if process.info["status"] != psutil.STATUS_ZOMBIE:
            yield process


class OtherWork:
    """`cores`: how many cores worked for others than this process and its children, on average; known afterwards.

    Processes that outlive the child which started them become children of this process.
    """

    cores: float

    @contextmanager
    def watched(self) -> Iterator["OtherWork"]:
        start, others_before_s = time.perf_counter(), _others_s()
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
        try:
            yield self
        finally:
            ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 0)
        self.cores = (_others_s() - others_before_s) / (time.perf_counter() - start)


def _others_s() -> float:
    """CPU time of all other processes since the machine started, and what its host took away from it (steal), in s."""
    times = psutil.cpu_times()
    busy_s = sum(times) - times.idle - times.iowait - times.guest - times.guest_nice  # guests are in user and nice
    this = psutil.Process()
    times_here = [process.cpu_times() for process in (this, *this.children(recursive=True))]
    used_s = sum(cpu.user + cpu.system + cpu.children_user + cpu.children_system for cpu in times_here)
    return float(busy_s - used_s)


@contextmanager
def signals_as_they_were() -> Iterator[None]:
    """A cell that is measured in the tests' own process must not decide what ends the tests."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

"""A worker ends when the process that started it ends, and writes its outcome for that process. Free of torch."""

import ctypes
import importlib
import json
import os
import signal
import struct
from collections.abc import Mapping
from pathlib import Path

OUTCOME = "outcome.json"
PARENT_PID = "DPSCALE_PARENT_PID"
# The socket of a process that has loaded torch and forks workers, where there is one; and how it sends a number.
PRELOADED = "DPSCALE_PRELOADED"
NUMBER = struct.Struct("!i")
_PR_SET_PDEATHSIG = 1  # <linux/prctl.h>


def end_with_parent(parent_pid: int | None = None) -> None:
    """Let the kernel kill this process when its parent ends, for whatever reason (Linux).

    With `parent_pid` this process ends at once where the parent had already ended before this call.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if parent_pid is not None and os.getppid() != parent_pid:
        os._exit(1)


def run_worker(module: str, job_file: str, rank: str) -> None:
    """Run the `WORKER` of a module, which loads torch, on the job in a file."""
    job = json.loads(Path(job_file).read_text())  # before: a launcher that is stopped meanwhile removes it
    importlib.import_module(module).WORKER(job, int(rank)).run()


def write_outcome(folder: Path, outcome: Mapping[str, object]) -> None:
    """Write `outcome` for the process that started this worker. The first outcome that is written stays."""
    partial = folder / f"{OUTCOME}.{os.getpid()}"
    partial.write_text(json.dumps(outcome))
    try:
        os.link(partial, folder / OUTCOME)
    except FileExistsError:
        return

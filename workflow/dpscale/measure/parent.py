"""A worker ends when the process that started it ends, and writes its outcome for that process. Free of torch."""

import ctypes
import json
import os
import signal
from collections.abc import Mapping
from pathlib import Path

OUTCOME = "outcome.json"
PARENT_PID = "DPSCALE_PARENT_PID"
_PR_SET_PDEATHSIG = 1  # <linux/prctl.h>


def end_with_parent(parent_pid: int | None = None) -> None:
    """Let the kernel kill this process when its parent ends, for whatever reason (Linux).

    With `parent_pid` this process ends at once where the parent had already ended before this call.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if parent_pid is not None and os.getppid() != parent_pid:
        os._exit(1)


def write_outcome(folder: Path, outcome: Mapping[str, object]) -> None:
    """Write `outcome` for the process that started this worker. The first outcome that is written stays."""
    partial = folder / f"{OUTCOME}.{os.getpid()}"
    partial.write_text(json.dumps(outcome))
    try:
        os.link(partial, folder / OUTCOME)
    except FileExistsError:
        return

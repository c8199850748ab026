"""A worker and the process that started it: it ends when that does, and leaves its outcome there. Free of torch."""

import ctypes
import json
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

OUTCOME = "outcome.json"
PARENT_PID = "DPSCALE_PARENT_PID"
_PR_SET_PDEATHSIG = 1  # <linux/prctl.h>


def end_with_parent(parent_pid: int | None = None) -> None:
    """Have the kernel kill this process when its parent ends, however that ended (Linux).

    `parent_pid` closes the gap in which the parent ended before this call: the process then ends at once.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if parent_pid is not None and os.getppid() != parent_pid:
        os._exit(1)


def write_outcome(folder: Path, outcome: Mapping[str, Any]) -> None:
    """Leave `outcome` for the process that started this worker. The first one to be written stays."""
    partial = folder / f"{OUTCOME}.{os.getpid()}"
    partial.write_text(json.dumps(outcome))
    try:
        os.link(partial, folder / OUTCOME)
    except FileExistsError:
        return

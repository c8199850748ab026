"""No orphans: a process that ends when the one that started it does, however that one ended."""

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1  # <linux/prctl.h>


def die_with_parent(parent_pid: int | None = None) -> None:
    """Have the kernel kill this process when its parent dies (Linux).

    `parent_pid` closes the gap in which the parent died before this call: the process then ends at once.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if parent_pid is not None and os.getppid() != parent_pid:
        os._exit(1)

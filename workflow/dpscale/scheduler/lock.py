"""One run at a time in a folder, and no lock of a run that is gone.

Snakemake's own lock is a list of files, which stays where its process is killed. So every run holds a file of its own
besides, which the kernel frees with the process.
"""

import fcntl
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dpscale.terminal import say

HERE = f" on {socket.gethostname()}"
HELD = Path(".snakemake/dpscale.lock")
SNAKEMAKES = Path(".snakemake/locks")


def lock_until_the_process_ends() -> None:
    """Have Snakemake's lock end with its process. A dry run takes none."""
    from snakemake.persistence import PersistenceBase  # which can be imported in a process of Snakemake alone

    snakemakes_lock = PersistenceBase.lock

    @contextmanager
    def lock(persistence: Any) -> Iterator[None]:
        with _held() as killed:
            if persistence.locked:
                _take_over(killed)
            with snakemakes_lock(persistence):
                yield

    PersistenceBase.lock = lock


@contextmanager
def _held() -> Iterator[str]:
    """Hold this folder. Gives the run that held it last and was killed, `process 12 on login-1`; empty where none was,
    or where the file system cannot tell. Ends this process where another run holds it."""
    with HELD.open("a+") as file:
        file.seek(0)
        holder = file.read()
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.exit(f"Error: another run holds this folder ({holder}): wait until it has ended, or use another clone")
        except OSError:
            yield ""
            return
        file.truncate(0)
        file.write(f"process {os.getpid()}{HERE}")
        file.flush()
        try:
            yield holder
        finally:
            file.truncate(0)


def _take_over(killed: str) -> None:
    """Remove Snakemake's lock of a run on this machine that is gone. Ends this process where that is not known."""
    if not killed.endswith(HERE):
        sys.exit(
            f"Error: a run holds this folder, or was killed ({killed or 'where is not known'}). Where it is gone: "
            "make unlock, or the same command with --unlock"
        )
    say(f"the lock of a run that was killed is taken over: {killed}", sys.stderr)
    for file in SNAKEMAKES.glob("*.lock"):
        file.unlink()

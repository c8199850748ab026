"""Folders that a process needs for as long as it lives. What a killed one left is deleted by a later one."""

import fcntl
import os
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path

_PREFIX = "dpscale-run-"
# So old a folder is locked, if its process lives.
OLD_S = 60.0


class TemporaryFolder(tempfile.TemporaryDirectory[str]):
    """A folder that is locked until it is deleted: nobody else takes it for one that was left."""

    def __init__(self) -> None:
        for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
            with suppress(OSError):  # locked, another user's, or deleted meanwhile
                _delete_left(path)
        super().__init__(prefix=_PREFIX)
        self._lock = os.open(self.name, os.O_RDONLY)
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def cleanup(self) -> None:
        super().cleanup()
        os.close(self._lock)


def _delete_left(path: Path) -> None:
    folder = os.open(path, os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if time.time() - path.stat().st_mtime > OLD_S:
            shutil.rmtree(path)
    finally:
        os.close(folder)

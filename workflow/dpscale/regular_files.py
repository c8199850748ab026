"""Reading files that may be anything: only regular ones, and no more of them than such a file has."""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

# Bytes of a record, a table or a user's script at most; the longest record of a study has 64 kB.
MOST_BYTES = 20_000_000


def read_bytes(path: Path, most_bytes: int = MOST_BYTES) -> bytes:
    """Return the content of a regular file. Raises OSError where it is none, is too large, or cannot be read."""
    with _opened(path) as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise OSError(errno.EFBIG, f"it has more than {most_bytes / 1e6:g} MB")
    return content


def read_end(path: Path, most_bytes: int) -> bytes:
    """Return the last bytes of a regular file. Raises OSError where it is none, or cannot be read."""
    with _opened(path) as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - most_bytes))
        return file.read(most_bytes)


def _opened(path: Path) -> BinaryIO:
    # A FIFO would wait here until somebody writes to it.
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))  # noqa: SIM115
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "it is no regular file")
    return file

"""Space on the disk for a record, claimed before anything is measured for it."""

import os
import tempfile
from pathlib import Path
from typing import IO

from dpscale.errors import RecordError

# More than any record has.
RECORD_BYTES = 2**20


def claim_space(folder: Path) -> IO[bytes]:
    """Return a file without a name that holds the space of a record in `folder`, until it is closed. Raises RecordError
    where the folder cannot be written to, or where disk or quota have no such space."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - the caller closes it
        os.posix_fallocate(file.fileno(), 0, RECORD_BYTES)
    except OSError as error:
        raise RecordError(
            f"{folder}: no record can be written: {error.strerror}. Free space or fix permissions"
        ) from error
    return file

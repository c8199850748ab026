"""Reading and writing records: a file is complete or it does not exist. Has no effect but on these files."""

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from dpscale.errors import RecordError
from dpscale.schemas.validation import violations

Record = dict[str, Any]


def write_text(path: Path, content: str) -> None:
    """Write `content` as UTF-8, as `write_bytes` does. Raises RecordError."""
    write_bytes(path, content.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Write `content` to a temporary file beside `path` and rename it, so that a half-written one never exists.

    Two writers at once both succeed, and the later file stays. Raises RecordError where the folder is read-only or
    the disk is full; the file that was at `path` before is then unchanged.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".partial", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            Path(name).chmod(0o644)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise RecordError(f"{path}: cannot be written: {error.strerror}. Free space or fix permissions") from error


def write_record(schema: str, path: Path, record: Record) -> None:
    """Write a record that `schema` allows. Raises RecordError where it does not: that is a bug of the program."""
    problems = violations(schema, record)
    if problems:
        raise RecordError(f"{path}: not written, it violates {schema}.schema.yaml: {'; '.join(problems)}")
    write_text(path, json.dumps(record, indent=1, allow_nan=False) + "\n")


def read_record(schema: str, path: Path) -> Record:
    """The record at `path`. Raises RecordError where it is missing, damaged, or not what `schema` allows."""
    try:
        record = json.loads(path.read_bytes())
    except OSError as error:
        raise RecordError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise RecordError(f"{path}: is damaged: {error}") from error
    problems = violations(schema, record)
    if problems:
        more = f"; and {len(problems) - 1} more" if len(problems) > 1 else ""
        raise RecordError(f"{path}: is not a {schema} record: {problems[0]}{more}")
    return record  # type: ignore[no-any-return]


def set_aside(path: Path) -> Path:
    """Rename the file at `path` to the first free `<name>.set-aside-<n>` beside it, and return that."""
    number = 1
    while (aside := path.with_name(f"{path.name}.set-aside-{number}")).exists():
        number += 1
    return path.rename(aside)

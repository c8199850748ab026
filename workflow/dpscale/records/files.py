"""Reading and writing records: a file is complete or it does not exist. Has no effect but on these files."""

import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from dpscale.errors import RecordError
from dpscale.formulas.on_server import NO_BLOCK
from dpscale.records.kinds import RECORDS, Record
from dpscale.schemas.validation import settings_violations, violations

JsonRecord = dict[str, Any]
R = TypeVar("R", bound=Record)


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


def write_record(kind: str, path: Path, record: JsonRecord) -> None:
    """Write a record that its class or its schema allows. Raises RecordError where it does not: that is a bug of the
    program."""
    text = json.dumps(record, indent=1, allow_nan=False) + "\n"
    try:
        if kind in RECORDS:
            decoded(RECORDS[kind], text.encode())
        else:
            _raise(kind, violations(kind, record))
    except RecordError as error:
        raise RecordError(f"{path}: not written, it {error}") from error
    write_text(path, text)


def read_record(kind: type[R], path: Path) -> R:
    """The record at `path`. Raises RecordError where it is missing, damaged, or not of the class `kind`."""
    try:
        return decoded(kind, _content(path))
    except RecordError as error:
        raise RecordError(f"{path}: {error}") from error


def read_json(kind: str, path: Path) -> JsonRecord:
    """The record at `path` as JSON holds it. Raises RecordError where it is missing, damaged, or not of this kind."""
    try:
        return _checked(kind, _content(path))
    except RecordError as error:
        raise RecordError(f"{path}: {error}") from error


def decoded(kind: type[R], content: bytes) -> R:
    """The record that this JSON is. Raises RecordError where it is damaged, or not of the class `kind`."""
    name = next(name for name, record_type in RECORDS.items() if record_type is kind)
    try:
        record = msgspec.json.decode(content, type=kind)
    except msgspec.ValidationError as error:
        raise RecordError(f"is not a {name} record: {error}") from error
    except (msgspec.DecodeError, ValueError) as error:
        raise RecordError(f"is damaged: {error}") from error
    if record.environment or record.block != NO_BLOCK:
        raise RecordError(f"is not a {name} record: environment and block are not measured")
    _raise(name, settings_violations(name, record.settings))
    return record


def _checked(kind: str, content: bytes) -> JsonRecord:
    if kind in RECORDS:
        decoded(RECORDS[kind], content)
        return json.loads(content)  # type: ignore[no-any-return]
    try:
        record = json.loads(content)
    except ValueError as error:
        raise RecordError(f"is damaged: {error}") from error
    _raise(kind, violations(kind, record))
    return record  # type: ignore[no-any-return]


def _raise(kind: str, problems: Sequence[str]) -> None:
    if problems:
        more = f"; and {len(problems) - 1} more" if len(problems) > 1 else ""
        raise RecordError(f"is not a {kind} record: {problems[0]}{more}")


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise RecordError(f"cannot be read: {error.strerror}") from error


def set_aside(path: Path) -> Path:
    """Rename the file at `path` to the first free `<name>.set-aside-<n>` beside it, and return that."""
    number = 1
    while (aside := path.with_name(f"{path.name}.set-aside-{number}")).exists():
        number += 1
    return path.rename(aside)

"""Reading and writing records: a file is complete or it does not exist. Has no effect but on these files."""

import json
import os
import tempfile
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from dpscale.errors import RecordError
from dpscale.records import VERSIONS
from dpscale.records.facts import AuditRecord, DatasetManifest, NetworkRecord
from dpscale.records.kinds import RECORDS, Record
from dpscale.records.script import ScriptRecord

JsonRecord = dict[str, Any]  # A record, or a part of one, as JSON holds it.
R = TypeVar("R", bound=msgspec.Struct)
# The class of every kind of record.
KINDS: dict[str, type[msgspec.Struct]] = {
    **RECORDS,
    "network": NetworkRecord,
    "dataset": DatasetManifest,
    "audit": AuditRecord,
    "script": ScriptRecord,
}


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
    """Write a record that its class allows. Raises RecordError where it does not: that is a bug of the program."""
    text = json.dumps(record, indent=1, allow_nan=False) + "\n"
    try:
        decoded(KINDS[kind], text.encode())
    except RecordError as error:
        raise RecordError(f"{path}: not written, it {error}") from error
    write_text(path, text)


def read_record(kind: type[R], path: Path) -> R:
    """The record at `path`. Raises RecordError where it is missing, damaged, or not of the class `kind`."""
    try:
        return decoded(kind, path.read_bytes())
    except OSError as error:
        raise RecordError(f"{path}: cannot be read: {error.strerror}") from error
    except RecordError as error:
        raise RecordError(f"{path}: {error}") from error


def decoded(kind: type[R], content: bytes) -> R:
    """The record that this JSON is. Raises RecordError where it is damaged, or not of the class `kind`."""
    name = next(name for name, record_type in KINDS.items() if record_type is kind)
    try:
        record = msgspec.json.decode(content, type=kind)
    except msgspec.ValidationError as error:
        raise RecordError(f"is not a {name} record: {error}") from error
    except (msgspec.DecodeError, ValueError) as error:
        raise RecordError(f"is damaged: {error}") from error
    if isinstance(record, Record) and record.measurement_version == VERSIONS[name].current:
        named = msgspec.json.decode(content, type=_Named).settings
        if unknown := sorted(named.keys() - record.settings.names()):
            raise RecordError(f"names settings that this dpscale does not know: {', '.join(unknown)}")
    return record


class _Named(msgspec.Struct):
    """Settings as a record names them. One of another version may name others than this dpscale has."""

    settings: JsonRecord


def set_aside(path: Path) -> Path:
    """Rename the file at `path` to the first free `<name>.set-aside-<n>` beside it, and return that."""
    number = 1
    while (aside := path.with_name(f"{path.name}.set-aside-{number}")).exists():
        number += 1
    return path.rename(aside)

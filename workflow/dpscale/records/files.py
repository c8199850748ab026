"""Reading and writing files, records above all: a file is complete or it does not exist, what dpscale did not write is
not overwritten, and space for a record is claimed before anything is measured for it."""

import json
import os
import re
import secrets
import stat
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, TypeVar

import msgspec

from dpscale.errors import RecordError
from dpscale.records import VERSIONS
from dpscale.records.facts import AuditRecord, DatasetManifest, NetworkRecord
from dpscale.records.kinds import RECORDS, Record
from dpscale.records.script import ScriptRecord, VersusRecord
from dpscale.regular_files import read_bytes
from dpscale.schemas.settings import GONE

JsonRecord = dict[str, Any]  # A record, or a part of one, as JSON holds it.
R = TypeVar("R", bound=msgspec.Struct)
# The class of every kind of record.
KINDS: dict[str, type[msgspec.Struct]] = {
    **RECORDS,
    "network": NetworkRecord,
    "dataset": DatasetManifest,
    "audit": AuditRecord,
    "script": ScriptRecord,
    "versus": VersusRecord,
}

# How a page of dpscale begins, one of its charts, and otherwise the names of a table's first columns or the kind of a
# record.
_BEGIN = re.compile(r"(?s)<!DOCTYPE html>.{,300}?style-src 'sha256-|<svg role=\"img\" aria-label=|[^,\n]*[,\n]?[^,\n]*")
_BEGIN_BYTES = 1000
_NAME_CHARACTERS = 40  # of a file's name in that of its temporary one, which must not be too long
RECORD_BEGIN = '{{\n "kind": "{}"'
RECORD_BYTES = 2**20  # more than any record has


def write_text(path: Path, content: str) -> None:
    """Write `content` as UTF-8, as `write_bytes` does. Raises RecordError, also where `path` holds what dpscale did not
    write, or something else of dpscale's."""
    require_replaceable(path, content)
    write_bytes(path, content.encode())


def now() -> str:
    """Return the time in UTC, as records have it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def require_replaceable(path: Path, content: str) -> None:
    """Raise RecordError where the file at `path` does not begin as `content` does: it is nothing to overwrite. Also
    where no file can have this path."""
    try:
        is_kept = path.is_file() and not _is_output(path) and not begins_alike(path, content)
    except OSError as error:
        raise RecordError(f"{path}: cannot be written: {error.strerror}. Name another file") from error
    if is_kept:
        raise RecordError(f"{path}: holds something else, which is kept. Name another file, or delete this one")


def begins_alike(path: Path, content: str) -> bool:
    """Return whether the file at `path` is empty, or begins as `content` does: both are pages or charts of dpscale,
    tables with the same first columns, or records of the same kind."""
    try:
        with path.open("rb") as file:
            present = file.read(_BEGIN_BYTES).decode(errors="replace")
    except OSError:
        return False
    return not present or present.startswith(_BEGIN.findall(content)[0])


def write_bytes(path: Path, content: bytes) -> None:
    """Write `content` to a temporary file beside `path` and rename it, so that a half-written one never exists.

    A file that is there keeps its permissions, and a link stays a link: what it leads to is replaced. What is no file,
    such as a pipe or /dev/stdout, is written to. Two writers at once both succeed, and the later file stays. Raises
    RecordError where the folder is read-only or the disk is full; the file that was at `path` before is then unchanged.
    """
    try:
        special = _opened(path)
        if special is None:
            _replace(Path(os.path.realpath(path)), content)
        else:
            with os.fdopen(special, "wb") as file:
                file.write(content)
    except OSError as error:
        raise RecordError(f"{path}: cannot be written: {error.strerror}. Free space or fix permissions") from error


def _opened(path: Path) -> int | None:
    """Return an open file to write to where none is to be replaced: standard output, a pipe, a device."""
    if _is_output(path):
        return os.dup(1)
    return os.open(path, os.O_WRONLY) if path.exists() and not path.is_file() else None


def _is_output(path: Path) -> bool:
    """Return whether a link leads to standard output, as /dev/stdout does."""
    return path.is_symlink() and path.exists() and path.samefile("/proc/self/fd/1")


def _replace(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name[:_NAME_CHARACTERS]}.{secrets.token_hex(4)}.partial")
    try:
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb") as file:
            if path.exists():
                os.fchmod(file.fileno(), stat.S_IMODE(path.stat().st_mode))
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


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
        content = read_bytes(path)
    except OSError as error:
        raise RecordError(f"{path}: cannot be read: {error.strerror}") from error
    return record_in(kind, content, path)


def record_in(kind: type[R], content: bytes, path: Path) -> R:
    """The record that this content of the file at `path` is. Raises RecordError as `read_record` does."""
    try:
        return decoded(kind, content)
    except RecordError as error:
        raise RecordError(f"{path}: {error}") from error


def decoded(kind: type[R], content: bytes) -> R:
    """The record that this JSON is. Raises RecordError where it is damaged, or not of the class `kind`."""
    name = next(name for name, record_type in KINDS.items() if record_type is kind)
    try:
        record = msgspec.json.decode(content, type=kind)
        is_current = isinstance(record, Record) and record.measurement_version == VERSIONS[name].current
        named = msgspec.json.decode(content, type=_Named).settings if is_current else {}
    except msgspec.ValidationError as error:
        raise RecordError(f"is not a {name} record: {error}") from error
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise RecordError(f"is damaged: {error}") from error
    named = {key: value for key, value in named.items() if key not in GONE or GONE[key] != value}
    if isinstance(record, Record) and (unknown := sorted(named.keys() - record.settings.names())):
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

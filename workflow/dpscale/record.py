"""The JSON records, the only contract between measuring and analysing: atomic write and validating read."""

import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpscale.attempts import Failure, find_dataset_failure, find_failure, without_private
from dpscale.errors import RecordError
from dpscale.measure import MEASUREMENT_VERSIONS
from dpscale.published import AUDIT_PATH, read_all
from dpscale.schema import violations
from dpscale.study import NETWORK_FACTS, AnyCell, NetworkSettings, Settings

Record = dict[str, Any]


def write_text(path: Path, content: str) -> None:
    """Write `content` as UTF-8, as `write_bytes` does. Raises RecordError."""
    write_bytes(path, content.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Write `content` to a temporary file beside `path` and rename it, so that a half-written one never exists.

    Two writers at once both succeed; the later one stays. Raises RecordError where the folder is read-only or
    the disk is full; what stood at `path` before is then untouched.
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
    """Write a record that `schema` allows. Raises RecordError where it does not: that is a fault of the program."""
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


def differences(record: Record, cell: AnyCell, settings: Mapping[str, Any]) -> list[str]:
    """What keeps a valid record from being the result of `cell` under `settings`; empty when it is."""
    wanted: dict[str, Any] = {
        "measurement_version": MEASUREMENT_VERSIONS[cell.kind],
        **cell.coordinates,
        **cell.settings_in(settings),
    }
    found = {
        "measurement_version": record["measurement_version"],
        **record["cell"],
        **record["settings"],
    }
    return [f"{key} is {found[key]}, the study says {wanted[key]}" for key in wanted if found[key] != wanted[key]]


@dataclass(frozen=True)
class Collected:
    """The records of a study: those that answer its cells, what is wrong with the files that do not, how cells that
    were tried in vain ended, and the facts of its network, None where they were not made."""

    records: dict[AnyCell, Record]
    rejected: dict[AnyCell, str]
    failures: dict[AnyCell, Failure]
    network: Record | None = None


def examine(
    results: Path, cells: Iterable[AnyCell], settings: Settings
) -> Iterator[tuple[AnyCell, Record | None, str]]:
    """Every cell with its record under the folder `results`, or with None and what is wrong with the file there.

    A record that is damaged, or that was measured under other settings, is never given out. The last item is
    empty where the record is good, and where there is no file.
    """
    values = settings.to_json()
    for cell in cells:
        path = results / cell.path
        try:
            record = read_record(cell.kind, path)
        except RecordError as error:
            yield cell, None, str(error) if path.exists() else ""
            continue
        reasons = differences(record, cell, values)
        if reasons:
            yield cell, None, f"{path}: {'; '.join(reasons)}"
        else:
            yield cell, record, ""


def collect(results: Path, cells: Iterable[AnyCell], settings: Settings) -> Collected:
    """All records that answer `cells`, and what is known of the cells that have none (see `examine`)."""
    collected = Collected({}, {}, {}, read_network_facts(results, settings))
    without_dataset = find_dataset_failure(results)
    for cell, record, problem in examine(results, cells, settings):
        if record is not None:
            collected.records[cell] = record
        elif problem:
            collected.rejected[cell] = without_private(problem)
        elif failure := find_failure(results, cell) or (without_dataset if cell.needs_images else None):
            collected.failures[cell] = failure
    return collected


def read_network_facts(results: Path, settings: NetworkSettings) -> Record | None:
    """The facts of the study's network; None where they are not there yet, or are those of another network."""
    try:
        facts = read_record("network", results / NETWORK_FACTS)
    except RecordError:
        return None
    return facts if settings.same_network(facts["settings"]) else None


def collect_audits(results: Path, published: Sequence[str]) -> list[Record]:
    """The audits, under the folder `results`, of the published files at these paths.

    Raises RecordError where one is missing or of another version of its file, PublishedError where a file is not valid.
    """
    audits = []
    for study in read_all(published).values():
        path = results / AUDIT_PATH.format(id=study.id)
        audit = read_record("audit", path)
        if audit["sha256"] != study.sha256:
            raise RecordError(f"{path}: is of another version of its published file. Make it again with: dpscale audit")
        audits.append(audit)
    return audits


def set_aside(path: Path) -> Path:
    """Rename the file at `path` to the first free `<name>.set-aside-<n>` beside it, and return that."""
    number = 1
    while (aside := path.with_name(f"{path.name}.set-aside-{number}")).exists():
        number += 1
    return path.rename(aside)

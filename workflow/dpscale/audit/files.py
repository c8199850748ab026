"""Audits of many files: each is read and audited by itself, and its times are set beside those of all others."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import click
from msgspec import to_builtins

from dpscale.audit.audit import audit, is_faulty
from dpscale.audit.checks import LOOK
from dpscale.audit.physics import COPIED
from dpscale.audit.reading.own_table import is_table, read_studies, slug
from dpscale.audit.reading.published import AUDIT_PATH, Published
from dpscale.audit.sentences import summary as in_short
from dpscale.audit.sentences import worst_by_cell
from dpscale.audit.tables import rows
from dpscale.errors import PublishedError
from dpscale.records.audit import AuditRecord
from dpscale.records.failures import RECORD_WRITTEN
from dpscale.records.files import write_record, write_text
from dpscale.tables.row import csv_text

NOTHING, FAULTS, NOT_READ = 0, 1, 2
_YAML = (".yaml", ".yml")


class SummaryLine(NamedTuple):
    """Line of a file in the summary."""

    file: str
    status: str
    faults: int = 0
    first_fault: str = ""
    copied_from: str = ""


def audit_files(
    paths: Iterable[Path], out: Path | None, pages: Path | None, summary: Path | None, assumptions: Mapping[str, str]
) -> int:
    """Audit all files at these paths, and in these folders. `out` and `pages` are folders to write records and pages
    to, `summary` a file, and `assumptions` is what files may leave out. Returns the exit status.

    Raises DpscaleError where a result cannot be written.
    """
    by_file, lines = {}, []
    for path in _files(paths):
        try:
            by_file[path] = read_studies(path, assumptions)
        except PublishedError as error:
            click.echo(f"Error: {error}", err=True)
            lines.append(SummaryLine(str(path), "not read", 0, str(error).removeprefix(f"{path}: ")))
    status = NOT_READ if lines else NOTHING
    studies = _with_own_ids(by_file)
    every = [study for of_file in studies.values() for study in of_file]
    for path, of_file in studies.items():
        records = [audit(study, every) for study in of_file]
        click.echo("\n".join([*map(in_short, records), *_written(records, out, pages)]) + "\n")
        lines.append(_line(path, records))
        if is_table(path) and any(map(is_faulty, records)):
            status = max(status, FAULTS)
    if summary:
        write_text(summary, csv_text([SummaryLine._fields, *sorted(lines)]))
    return status


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    """The files, those of folders in order. A file that is named is read whatever it is called."""
    for path in paths:
        inside = [at for at in sorted(path.rglob("*")) if at.is_file() and (is_table(at) or at.suffix in _YAML)]
        yield from inside or [path]


def _with_own_ids(by_file: Mapping[Path, Sequence[Published]]) -> dict[Path, list[Published]]:
    """Return studies with ids of their own: where two files share one, folder and kind of file are added to it."""
    names = Counter(study.id for studies in by_file.values() for study in studies)
    root = os.path.commonpath([path.parent.absolute() for path in by_file] or "/")

    def with_own_id(path: Path, study: Published) -> Published:
        parts = os.path.relpath(path.parent, root), path.suffix, study.id
        return replace(study, id=slug(" ".join(parts))) if names[study.id] > 1 else study

    return {path: [with_own_id(path, study) for study in studies] for path, studies in by_file.items()}


def _written(records: Sequence[AuditRecord], out: Path | None, pages: Path | None) -> Iterator[str]:
    """Write the records and the page of a file; yield the lines that say where."""
    if out:
        for record in records:
            file = out / Path(AUDIT_PATH.format(id=record.id)).name
            write_record("audit", file, to_builtins(record))
            yield f"{RECORD_WRITTEN}{file}"
    if pages:
        from dpscale.audit.page import render

        page = pages / f"{records[0].id}.html"
        write_text(page, render(records))
        yield f"page: {page}"


def _line(path: Path, records: Sequence[AuditRecord]) -> SummaryLine:
    warnings = [rows([record]).audit_warnings for record in records]
    faults = sum(severity != LOOK for of_record in warnings for severity in worst_by_cell(of_record).values())
    copied = dict.fromkeys(
        row.detail.split(" are those of ")[-1] for of_record in warnings for row in of_record if row.check == COPIED
    )
    first = next((record.answer for record in records if is_faulty(record)), "")
    status = "faults" if faults else "nothing wrong"
    return SummaryLine(str(path), status, faults, first, ", ".join(name.split(",")[0] for name in copied))

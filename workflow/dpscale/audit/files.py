"""Audits of many files: each is read and audited by itself, and its times are set beside those of all others."""

import csv
import io
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from dpscale.audit.audit import Record, audit, is_faulty
from dpscale.audit.checks import LOOK
from dpscale.audit.physics import Reference, recorded_references, references_of, references_of_records
from dpscale.audit.reading.own_table import is_table, read_studies
from dpscale.audit.reading.published import AUDIT_PATH, Published
from dpscale.audit.sentences import summary
from dpscale.errors import PublishedError
from dpscale.records.failures import RECORD_WRITTEN
from dpscale.records.files import write_record, write_text

NOTHING, FAULTS, NOT_READ = 0, 1, 2
_YAML = (".yaml", ".yml")
_STATUS = {NOTHING: "nothing wrong", FAULTS: "faults", NOT_READ: "not read"}
_COPIED = "times of another study"


@dataclass(frozen=True)
class Options:
    """Where to write records, pages and the summary; what to compare with; and what files may leave out."""

    out: Path | None = None
    pages: Path | None = None
    summary: Path | None = None
    beside: Sequence[Path] = ()
    said: Mapping[str, str] | None = None


class SummaryLine(NamedTuple):
    """What came of a file, in the summary."""

    file: str
    status: str
    faults: int = 0
    first_fault: str = ""
    copied_from: str = ""


def audit_files(
    paths: Iterable[Path], options: Options, say: Callable[[str], object], complain: Callable[[str], object]
) -> int:
    """Audit all files at these paths, and in these folders. Returns the exit status.

    Raises DpscaleError where a result cannot be written, or what to compare with cannot be read.
    """
    found, lines = {}, []
    for path in _files(paths):
        try:
            found[path] = read_studies(path, options.said)
        except PublishedError as error:
            complain(f"Error: {error}")
            lines.append(SummaryLine(str(path), _STATUS[NOT_READ], 0, str(error).removeprefix(f"{path}: ")))
    status = NOT_READ if lines else NOTHING
    studies = _with_own_ids(found)
    others = [Published.read(path) for path in options.beside if not path.is_dir()]
    every = [*(study for of in studies.values() for study in of), *others]
    references = [*_references(every, options.beside)]
    for path, of_file in studies.items():
        records = [audit(study, references, every) for study in of_file]
        say("\n".join([*map(summary, records), *_written(records, options)]) + "\n")
        lines.append(_line(path, records))
        if is_table(path) and any(map(is_faulty, records)):
            status = max(status, FAULTS)
    if options.summary:
        write_text(options.summary, _csv(sorted(lines)))
    return status


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    """The files, those of folders in order. A file that is named is read whatever it is called."""
    for path in paths:
        inside = sorted(path.rglob("*")) if path.is_dir() else [path]
        yield from (at for at in inside if at == path or (at.is_file() and (is_table(at) or at.suffix in _YAML)))


def _with_own_ids(found: Mapping[Path, Sequence[Published]]) -> dict[Path, list[Published]]:
    """Where two files have the same id, theirs have the names of their folders, and what kind of file it is, too."""
    names = [study.id for studies in found.values() for study in studies]
    root = os.path.commonpath([path.resolve().parent for path in found]) if found else ""

    def own(path: Path, study: Published) -> Published:
        parts = *path.resolve().parent.relative_to(root).parts, path.suffix.lstrip("."), study.id
        return replace(study, id="-".join(parts).lower()) if names.count(study.id) > 1 else study

    return {path: [own(path, study) for study in studies] for path, studies in found.items()}


def _references(studies: Iterable[Published], beside: Iterable[Path]) -> Iterator[Reference]:
    yield from recorded_references()
    for study in studies:
        yield from references_of(study)
    for folder in beside:
        yield from references_of_records(folder) if folder.is_dir() else ()


def _written(records: Sequence[Record], options: Options) -> Iterator[str]:
    """What says where the records and the page of a file were written."""
    for record in records if options.out else ():
        assert options.out
        file = options.out / Path(AUDIT_PATH.format(id=record["id"])).name
        write_record("audit", file, record)
        yield f"{RECORD_WRITTEN}{file}"
    if options.pages:
        from dpscale.audit.page import render

        page = options.pages / f"{records[0]['id']}.html"
        write_text(page, render(records))
        yield f"page: {page}"


def _line(path: Path, records: Sequence[Record]) -> SummaryLine:
    faulty = [record for record in records if is_faulty(record)]
    cells = {
        (record["id"], warning["quantity"], warning.get("batch_per_gpu", warning.get("global_batch")), warning["gpus"])
        for record in faulty
        for warning in record["warnings"]
        if warning["severity"] != LOOK
    }
    warnings = [warning for record in records for warning in record["warnings"]]
    copied = [re.sub(r".* are those of |, digit.*", "", of["detail"]) for of in warnings if of["check"] == _COPIED]
    first = faulty[0]["answer"] if faulty else ""
    status = _STATUS[FAULTS if faulty else NOTHING]
    return SummaryLine(str(path), status, len(cells), first, ", ".join(dict.fromkeys(copied)))


def _csv(lines: Iterable[SummaryLine]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(SummaryLine._fields)
    writer.writerows(lines)
    return text.getvalue()

"""The audit of a published study: search, checks and corrected figures, as one record of rows. Audits of many files:
each is read and audited by itself, and its times are set beside those of all others."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import click
from msgspec import to_builtins

from dpscale import __version__
from dpscale.audit.checks import COPIED, LOOK, Doubt, doubts
from dpscale.audit.conventions import telling
from dpscale.audit.own_table import is_table, read_studies, slug
from dpscale.audit.published import AUDIT_PATH, GLOBAL, Published
from dpscale.audit.sentences import answer, remarks, sentence, verdict_of, worst_by_cell
from dpscale.audit.sentences import summary as in_lines
from dpscale.audit.verdicts import FigureVerdict, Reading, corrected, read
from dpscale.errors import PublishedError
from dpscale.formulas.figure import UNKNOWN, Figure
from dpscale.formulas.rounded import Rounded
from dpscale.records.facts import AuditRecord
from dpscale.records.failures import RECORD_WRITTEN
from dpscale.records.files import write_record, write_text
from dpscale.tables.row import csv_text
from dpscale.tables.study import AuditFindingsRow, AuditRow, AuditTables, AuditWarningsRow

NOTHING, FAULTS, NOT_READ = 0, 1, 2
_YAML = (".yaml", ".yml")
# The corrected quantity beside a published one of another name.
_CORRECTED_BY = {"speedup_alternative": "speedup"}
# Units of quantities; a bandwidth has that of its label.
_UNITS = {"compute_s": "s", "communication_s": "s", "images_per_s": "images/s", "utilisation_percent": "%"}

# The verdict of the row that says all of a study in short.
_IN_SHORT = "in short"


def audit(published: Published, studies: Sequence[Published] = (), beside: Sequence[Published] = ()) -> AuditRecord:
    """Return the record of an audit: a row of every figure, of every column, and of every warning; pure.

    `studies` are what others published, to set its times beside, and `beside` those of its own file.
    """
    reading = read(published, beside)
    if any("the batch being that of all GPUs" in choice.words for choice in reading.choices("bandwidth")):
        reading = replace(reading, published=replace(reading.published, batch=GLOBAL))
    published = reading.published
    warnings = [_warning(published, doubt) for doubt in doubts(reading, studies)]
    tables = AuditTables([*_cells(reading)], [*_findings(reading)], warnings)
    in_one_sentence = answer(tables)
    first_row = AuditFindingsRow(study=published.id, title=published.title, verdict=_IN_SHORT, sentence=in_one_sentence)
    return AuditRecord(
        kind="audit",
        dpscale_version=__version__,
        id=published.id,
        title=published.title,
        sha256=published.sha256,
        batch=published.batch,
        answer=in_one_sentence,
        cells=[row.flat() for row in tables.audit],
        findings=[row.flat() for row in (first_row, *tables.audit_findings)],
        warnings=[row.flat() for row in tables.audit_warnings],
    )


def is_faulty(record: AuditRecord) -> bool:
    """Whether a figure is impossible, wrong or not explained; what is only worth a look is none of these."""
    return any(warning["severity"] != LOOK for warning in record.warnings)


def _cells(reading: Reading) -> Iterator[AuditRow]:
    """Times first, then every published quantity, then the quantities that were only computed here."""
    published = reading.published
    defined = corrected(reading)
    units = {**_UNITS, "bandwidth": published.bandwidth_unit or "GB/s"}
    printed = {(name, place): (str(time), "s") for name, place, time in published.times}
    for name in (*reading.outcomes, *published.of_other_runs):
        figures = {**published.quantities.get(name, {}), **published.of_other_runs.get(name, {})}
        printed |= {(name, place): (str(number), units.get(name, "")) for place, number in figures.items()}
    for name, place in {**printed, **defined}:
        shown, unit = printed.get((name, place), ("", ""))
        verdict = reading.verdicts.get((name, place), FigureVerdict(""))
        by = _CORRECTED_BY.get(name, name)
        defined_here = defined.get((by, place))
        yield AuditRow(
            study=published.id,
            quantity=name,
            **place._asdict(),
            published=shown,
            published_unit=unit,
            verdict=verdict.state,
            why=verdict.why,
            recomputed=_figure(verdict.given),
            corrected=_figure(defined_here),
            unit=units.get(by, "") if defined_here else "",
            reason=defined_here if isinstance(defined_here, str) else "",
        )


def _findings(reading: Reading) -> Iterator[AuditFindingsRow]:
    """Yield a finding of every column, and what else there is to say."""
    study, title = reading.published.id, reading.published.title
    for quantity, outcome in reading.outcomes.items():
        yield AuditFindingsRow(
            study=study,
            title=title,
            quantity=quantity,
            verdict=verdict_of(reading, quantity),
            convention=outcome.match.convention.shown if outcome.match else "",
            supporting_cells=outcome.reference.supporting,
            independent_cells=len(telling(outcome.checkable, quantity)),
            conventions_tried=outcome.tried,
            chance=outcome.chance,
            sentence=sentence(reading, quantity),
        )
    for verdict, text in remarks(reading):
        yield AuditFindingsRow(study=study, title=title, quantity="epoch_s", verdict=verdict, sentence=text)


def _warning(published: Published, doubt: Doubt) -> AuditWarningsRow:
    return AuditWarningsRow(
        study=published.id,
        check=doubt.check,
        severity=doubt.severity,
        quantity=doubt.quantity,
        **doubt.place._asdict(),
        detail=doubt.detail,
    )


def _figure(value: Rounded | str | None) -> Figure:
    return Figure.of(value.value, value.low, value.high) if isinstance(value, Rounded) else UNKNOWN


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
    by_file, lines, status = {}, [], NOTHING
    for path, is_named in _files(paths):
        if not is_named and not (is_table(path) or path.suffix in _YAML):
            lines.append(SummaryLine(str(path), "left out", 0, "its name is not that of a table"))
            continue
        try:
            by_file[path] = read_studies(path, assumptions)
        except PublishedError as error:
            click.echo(f"Error: {error}", err=True)
            lines.append(SummaryLine(str(path), "not read", 0, str(error).removeprefix(f"{path}: ")))
            status = NOT_READ
    studies = _with_own_ids(by_file)
    for path, of_file in studies.items():
        others = [study for other, of_other in studies.items() if other != path for study in of_other]
        records = [audit(study, others, of_file) for study in of_file]
        click.echo("\n".join([*map(in_lines, records), *_written(records, out, pages)]) + "\n")
        lines.append(_line(path, records))
        if is_table(path) and any(map(is_faulty, records)):
            status = max(status, FAULTS)
    if summary:
        write_text(summary, csv_text([SummaryLine._fields, *sorted(lines)]))
    return status


def _files(paths: Iterable[Path]) -> Iterator[tuple[Path, bool]]:
    """Yield the files, those of folders in order, and whether one was named: that is read whatever it is called."""
    for path in paths:
        inside = [at for at in sorted(path.rglob("*")) if at.is_file()]
        yield from ((at, False) for at in inside)
        if not inside:
            yield path, True


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
    warnings = [AuditTables.of([record]).audit_warnings for record in records]
    faults = sum(severity != LOOK for of_record in warnings for severity in worst_by_cell(of_record).values())
    copied = dict.fromkeys(
        row.detail.split(" are those of ")[-1] for of_record in warnings for row in of_record if row.check == COPIED
    )
    first = next((record.answer for record in records if is_faulty(record)), "")
    status = "faults" if faults else "nothing wrong"
    return SummaryLine(str(path), status, faults, first, ", ".join(name.split(",")[0] for name in copied))

"""The report that is handed in: the assignment's tables of a study, what they say and cannot say, in LaTeX, Markdown
and CSV."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import vl_convert
from markupsafe import Markup

from dpscale.present.findings.set_up import dates, network
from dpscale.present.handin_2026 import sections_of_2026
from dpscale.present.handin_assignment import AssignmentRows, AssignmentTable, Quantity, grids, state_words
from dpscale.present.handin_questions import Section, sections
from dpscale.present.text.html import ENVIRONMENT
from dpscale.present.text.numbers import ABSENT, MINUS
from dpscale.present.text.sentences import paragraphs, sentences, template_of
from dpscale.present.text.table import ShownTable
from dpscale.present.text.words import Terms, capitalised, ok
from dpscale.records.files import write_bytes, write_text
from dpscale.schemas.settings import JsonValues
from dpscale.tables.row import csv_text
from dpscale.tables.study import EnvironmentsRow
from dpscale.tables.tables import Tables
from dpscale.tables.timing import TimesRow
from dpscale.terminal import with_names
from dpscale.vocabulary.states import AT_LEAST, MARK

_MARKDOWN_SPECIAL = re.compile(r"([\\|*_`<>~])")
_LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", ABSENT: "--", MINUS: "$-$", "×": r"$\times$",
    "·": r"$\cdot$", AT_LEAST: r"$\geq$", "⁹": "$^9$", MARK: r"$\dagger$",
}  # fmt: skip

# With the checksum of what stands above.
_LAST_LINE = {".tex": "% dpscale {}\n", ".md": "<!-- dpscale {} -->\n", ".csv": "# dpscale {}\n"}

BATCHES = (32, 128, 512)
ASSIGNED = ("dp", "ddp")  # strategies
GPUS = (1, 2, 4)


@dataclass(frozen=True)
class Report:
    """Facts of the machine, tables, and sentences: what is lacking, and what the writer has to add."""

    machine: Sequence[str]
    lacking: Sequence[str]
    grids: Sequence[AssignmentTable]
    sections: Sequence[Section]
    to_say: Sequence[str]
    terms: Terms

    @property
    def sheets(self) -> list[ShownTable]:
        """The tables as they are handed in; none where nothing was measured on several devices."""
        return [grid.by_configuration(self.terms) for grid in self.grids]


def report(study: JsonValues, tables: Tables, terms: Terms) -> Report:
    """Return the report of the environment with the most records."""
    place = max(tables.environments, key=lambda row: row.records or 0, default=EnvironmentsRow())
    in_place = AssignmentRows.of(tables).in_environment(place.environment)
    rows = _assigned(in_place)
    strategies = sorted({row.strategy for row in ok(rows.times) if row.gpus > 1})
    printed_grids = grids(rows, terms)
    arms = [row for row in tables.training_summary if row.environment in ("", place.environment)]
    return Report(
        machine=_machine(study, rows, place, dates(tables.records), terms),
        lacking=_lacking(rows.times, printed_grids, terms),
        grids=printed_grids,
        sections=[
            *sections(rows, printed_grids, in_place.times, arms, terms),
            *sections_of_2026(tables, place.environment, terms),
        ],
        to_say=sentences("handin", "to_say", terms, strategies=strategies),
        terms=terms,
    )


def _assigned(rows: AssignmentRows) -> AssignmentRows:
    """Return the rows of the assignment's batches and numbers of devices; of a study with other batches its own first
    ones."""
    batches = sorted({row.batch_per_gpu for row in rows.times})
    assigned = [batch for batch in BATCHES if batch in batches]
    chosen = assigned if len(assigned) > 1 else batches[: len(BATCHES)]
    return rows.where(lambda row: row.gpus in GPUS and row.batch_per_gpu in chosen)


def _machine(
    study: JsonValues, rows: AssignmentRows, place: EnvironmentsRow, measured_on: str, terms: Terms
) -> list[str]:
    """Return the facts of the machine and the study, each behind its name."""
    facts = paragraphs(
        "handin",
        "machine",
        terms,
        study=study,
        place=place,
        most=max((row.gpus for row in ok(rows.times)), default=0),
        links={row.gpus: row.bus_bandwidth_gb_s.value for row in rows.bandwidth if row.bus_bandwidth_gb_s.is_known},
        network=network(study),
        parameters=next((row.parameters for row in rows.bandwidth if row.parameters), None),
        dates=measured_on,
    )
    return [f"{name}: {' '.join(lines)}" for name, lines in facts.items()]


def _lacking(times: Sequence[TimesRow], printed_grids: Sequence[AssignmentTable], terms: Terms) -> list[str]:
    """Return a sentence for everything of the assignment that the tables do not hold."""
    places = [(row.strategy, row.gpus, row.batch_per_gpu) for row in ok(times)]
    strategies, gpus, batches = map(set, zip(*places, strict=True)) if places else (set(), set(), set())
    too_large = {row.batch_per_gpu for row in times if row.status == "oom"}
    reasons = {row.strategy: row.reason for row in reversed(times)}
    absent = [name for name in ASSIGNED if name not in strategies]
    return sentences(
        "handin",
        "lacking",
        terms,
        strategies={name: reasons.get(name, "the study does not ask for it") for name in absent},
        gpus=[number for number in GPUS if number not in gpus],
        batches=[batch for batch in BATCHES if batch not in batches | too_large],
        has_words=any(grid.paragraphs for grid in printed_grids),
    )


def files(report: Report) -> Mapping[str, str]:
    """Return the texts of a report by the names of their files."""
    return {
        "report.tex": _filled("report.tex.j2", report, latex),
        "report.md": _filled("report.md.j2", report, markdown),
        "tables.csv": table(report),
    }


def write(report: Report, folder: Path) -> list[Path]:
    """Write the files of a report into a folder, and return them. One that was edited there is kept: the new one is
    `report.new.tex` beside it. Raises RecordError."""
    places = []
    for name, text in files(report).items():
        place = folder / name
        while place.exists() and not _is_as_written(place):
            place = place.with_stem(f"{place.stem}.new")
        write_bytes(place, _sealed(text, place.suffix).encode())
        places.append(place)
    for section in report.sections:
        if section.picture:
            svg = section.picture.document
            write_text(folder / f"{section.picture.name}.svg", svg)
            write_bytes(folder / f"{section.picture.name}.pdf", vl_convert.svg_to_pdf(svg))
    return places


def _sealed(text: str, suffix: str) -> str:
    """Return a text with a last line that tells whether it was edited since."""
    text = text.rstrip("\n") + "\n"
    return text + _LAST_LINE[suffix].format(hashlib.sha256(text.encode()).hexdigest())


def _is_as_written(path: Path) -> bool:
    text = path.read_bytes().decode(errors="replace")
    return text == _sealed(text.rstrip("\n").rpartition("\n")[0], path.suffix)


def _filled(template: str, report: Report, escape: Any) -> str:
    """Return what a template makes of a report; every text that it shows is escaped."""
    environment = ENVIRONMENT.overlay(
        finalize=lambda value: value if isinstance(value, Markup) else Markup(escape(value)),
        variable_start_string="<<",
        variable_end_string=">>",
        block_start_string="<%",
        block_end_string="%>",
    )
    return environment.get_template(template).render(report=report, said=template_of("handin", report.terms))


def table(report: Report) -> str:
    """Return one row per configuration: every figure, its low and high end and its state, each in its column."""
    headings = [heading for grid in report.grids for quantity in grid.quantities for heading in _headings(quantity)]
    places = dict.fromkeys(place for grid in report.grids for place in grid.places)
    rows: list[list[Any]] = [["Strategy", report.terms.heading, f"Batch per {report.terms.device}", *headings]]
    for place in places:
        cells = [cell for grid in report.grids for cell in grid.row(place)]
        rows.append([*place, *(entry for cell in cells for entry in (*cell.plain, state_words(cell.states)))])
    notes = dict.fromkeys(note for sheet in report.sheets for note in sheet.notes)
    return "".join(f"# {line}\n" for line in (*report.machine, *notes)) + csv_text(rows)


def _headings(quantity: Quantity) -> list[str]:
    name, unit = capitalised(quantity.name), quantity.unit.shown
    return [f"{name} ({unit})", f"{name} low ({unit})", f"{name} high ({unit})", f"{name} state"]


def markdown(text: object) -> str:
    """Return text as Markdown writes it."""
    return _MARKDOWN_SPECIAL.sub(r"\\\1", _one_line(text))


def latex(text: object) -> str:
    """Return text as LaTeX writes it.

    Characters that LaTeX has no letter for without a package become a question mark.
    """
    return "".join(_LATEX.get(character, character if character.isascii() else "?") for character in _one_line(text))


def _one_line(text: object) -> str:
    return " ".join(with_names(str(text)).split())

"""The files that are handed in: a report in LaTeX and in Markdown, and all numbers of its tables as CSV."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dpscale.present.handin.grid import Quantity
from dpscale.present.handin.report import Report
from dpscale.present.text.html import ENVIRONMENT
from dpscale.present.text.numbers import ABSENT, MINUS
from dpscale.present.text.words import capitalised
from dpscale.records.files import write_text
from dpscale.tables.tables import csv_text
from dpscale.vocabulary.states import AT_LEAST, MARK

_MARKDOWN_SPECIAL = re.compile(r"([\\|*_`<>~])")
_BEFORE_UNIT = re.compile(r"(?<=\d) (?=(?:s|ms|MB|GB/s|\\%)(?!\w))")
_LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", ABSENT: "--", MINUS: "$-$", "×": r"$\times$",
    "·": r"$\cdot$", AT_LEAST: r"$\geq$", "⁹": "$^9$", MARK: r"$\dagger$",
}  # fmt: skip


def files(report: Report) -> Mapping[str, str]:
    """Texts by the names of their files."""
    return {
        "report.tex": _filled("report.tex.j2", report, latex),
        "report.md": _filled("report.md.j2", report, markdown),
        "tables.csv": table(report),
    }


def write(report: Report, folder: Path) -> None:
    for name, text in files(report).items():
        write_text(folder / name, text)


def _filled(template: str, report: Report, escape: Any) -> str:
    """Every text that the template shows is escaped."""
    environment = ENVIRONMENT.overlay(
        autoescape=False,
        finalize=escape,
        variable_start_string="<<",
        variable_end_string=">>",
        block_start_string="<%",
        block_end_string="%>",
    )
    return environment.get_template(template).render(report=report, capitalised=capitalised)


def table(report: Report) -> str:
    """One row per configuration: every figure with its low and high end and its state in columns of their own."""
    headings = [heading for grid in report.grids for quantity in grid.quantities for heading in _headings(quantity)]
    spots = dict.fromkeys(spot for grid in report.grids for spot in grid.spots)
    rows: list[list[Any]] = [["Strategy", report.terms.heading, f"Batch per {report.terms.device}", *headings]]
    for spot in spots:
        cells = [cell for grid in report.grids for cell in grid.row(spot)]
        rows.append([*spot, *(entry for cell in cells for entry in cell.plain)])
    facts = [f"{name}: {value}" for name, value in report.facts.items()]
    notes = dict.fromkeys(note for sheet in report.sheets for note in sheet.notes)
    return "".join(f"# {line}\n" for line in (*facts, *notes)) + csv_text(rows)


def _headings(quantity: Quantity) -> list[str]:
    name, unit = capitalised(quantity.name), quantity.unit.shown
    return [f"{name} ({unit})", f"{name} low ({unit})", f"{name} high ({unit})", f"{name} state"]


def markdown(text: object) -> str:
    return _MARKDOWN_SPECIAL.sub(r"\\\1", _one_line(text))


def latex(text: object) -> str:
    """A unit stays beside its number. Characters that LaTeX has no letter for without a package become a question
    mark."""
    known = (_LATEX.get(character, character if character.isascii() else "?") for character in _one_line(text))
    return _BEFORE_UNIT.sub("~", "".join(known))


def _one_line(text: object) -> str:
    return " ".join(str(text).split())

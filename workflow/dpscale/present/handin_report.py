"""The report that is handed in: the assignment's tables of a study, what they say and cannot say, in LaTeX, Markdown
and CSV."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpscale.analyse.timing.points import HEADLINE_STEPS
from dpscale.present.findings.set_up import dates, network
from dpscale.present.handin_assignment import AssignmentTable, Quantity, grids, state_words
from dpscale.present.handin_sentences import AssignmentRows
from dpscale.present.text.html import ENVIRONMENT
from dpscale.present.text.numbers import ABSENT, MINUS, measured
from dpscale.present.text.table import ShownTable
from dpscale.present.text.words import Terms, capitalised, joined, listed, ok
from dpscale.records.files import write_text
from dpscale.schemas.settings import JsonValues
from dpscale.strategies.known import STRATEGIES, parallel_strategies
from dpscale.tables.column import GB_PER_S
from dpscale.tables.row import csv_text
from dpscale.tables.study import EnvironmentsRow
from dpscale.tables.tables import Tables
from dpscale.tables.timing import TimesRow
from dpscale.vocabulary.states import AT_LEAST, MARK

_MARKDOWN_SPECIAL = re.compile(r"([\\|*_`<>~])")
_LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", ABSENT: "--", MINUS: "$-$", "×": r"$\times$",
    "·": r"$\cdot$", AT_LEAST: r"$\geq$", "⁹": "$^9$", MARK: r"$\dagger$",
}  # fmt: skip

BATCHES = (32, 128, 512)
GPUS = (1, 2, 4)


@dataclass(frozen=True)
class Report:
    """Facts of the machine by name, tables, and sentences: what is lacking, and what the writer has to add."""

    facts: Mapping[str, str]
    lacking: Sequence[str]
    grids: Sequence[AssignmentTable]
    to_say: Sequence[str]
    terms: Terms

    @property
    def sheets(self) -> list[ShownTable]:
        """The tables as they are handed in; none where nothing was measured on several devices."""
        return [grid.by_configuration(self.terms) for grid in self.grids]


def report(study: JsonValues, tables: Tables, terms: Terms) -> Report:
    """Return the report of the environment with the most records."""
    place = max(tables.environments, key=lambda row: row.records or 0, default=EnvironmentsRow())
    rows = _assigned(AssignmentRows.of(tables).in_environment(place.environment))
    printed_grids = grids(rows, terms)
    return Report(
        facts=_facts(study, rows, place, dates(tables.records), terms),
        lacking=list(_lacking(rows.times, printed_grids, terms)),
        grids=printed_grids,
        to_say=list(_to_say(study, rows, printed_grids, terms)),
        terms=terms,
    )


def _assigned(rows: AssignmentRows) -> AssignmentRows:
    """Return the rows of the assignment's batches and numbers of devices; of a study with other batches its own first
    ones."""
    batches = sorted({row.batch_per_gpu for row in rows.times})
    assigned = [batch for batch in BATCHES if batch in batches]
    chosen = assigned if len(assigned) > 1 else batches[: len(BATCHES)]
    return rows.where(lambda row: row.gpus in GPUS and row.batch_per_gpu in chosen)


def _facts(
    study: JsonValues, rows: AssignmentRows, place: EnvironmentsRow, measured_on: str, terms: Terms
) -> dict[str, str]:
    """Return the facts of the machine and the study by name. `dpscale audit` reads some of the names."""
    parameters = next((row.parameters for row in rows.bandwidth if row.parameters), None)
    links = {row.gpus: row.bus_bandwidth_gb_s.value for row in rows.bandwidth if row.bus_bandwidth_gb_s.is_known}
    most = max((row.gpus for row in ok(rows.times)), default=0)
    facts = {
        "Study": study["study"],
        "GPU": place.device_model if terms.device == "GPU" else "",
        "Used": f"up to {terms.count(most)}",
        "Links": place.links,
        "Bus bandwidth": ", ".join(
            f"{measured(gb_s, GB_PER_S, 4)} on {terms.count(gpus)}" for gpus, gb_s in links.items()
        ),
        "CPU": place.cpu_model,
        "Cores": place.cpu_cores,
        "Torch": place.torch,
        "CUDA": place.cuda,
        "NCCL": place.nccl,
        "Network": network(study),
        "Parameters": f"{parameters:,}" if parameters else "",
        "Images": f"{study['dataset']['images']:,}",
        "Precision": study["precision"],
        "Batch": f"per {terms.device}",
        "Measured": measured_on,
    }
    return {name: value for name, value in facts.items() if value}


def _lacking(times: Sequence[TimesRow], printed_grids: Sequence[AssignmentTable], terms: Terms) -> Iterator[str]:
    """Yield a sentence for everything of the assignment that the tables do not hold."""
    if terms.synthetic:
        yield f"The {terms.samples} are synthetic: times are real, accuracy means nothing."
    if terms.device != "GPU":
        yield "This machine has no GPU that was used: workers are processes on the CPU, so times are no GPU's."
    measured_rows = ok(times)
    for strategy in parallel_strategies():
        if strategy not in {row.strategy for row in measured_rows} and not STRATEGIES[strategy].is_sharded:
            reasons = (row.reason for row in times if row.strategy == strategy)
            reason = next(reasons, "the study does not ask for it")
            yield f"There is no result with {strategy}: {reason}."
    for number in GPUS:
        if number not in {row.gpus for row in measured_rows}:
            yield f"Nothing was measured on {terms.count(number)}."
    batches = {row.batch_per_gpu for row in measured_rows}
    if lacking := [batch for batch in BATCHES if batch not in batches]:
        yield f"Not measured of the assignment's batches: {joined([str(batch) for batch in lacking])}."
    if not any(grid.paragraphs for grid in printed_grids):
        yield f"No epoch has {HEADLINE_STEPS} full steps, so nothing is said of these numbers."


def _to_say(
    study: JsonValues, rows: AssignmentRows, printed_grids: Sequence[AssignmentTable], terms: Terms
) -> Iterator[str]:
    """Yield the questions that no table can answer."""
    strategies = sorted({row.strategy for row in ok(rows.times) if row.gpus > 1})
    yield f"Your conclusion: on how many {terms.devices} would you train, with which strategy, and at which batch?"
    if len(strategies) > 1:
        yield f"Why {' and '.join(strategies)} differ, in your own words."
    if unexplained := [grid.title.partition(":")[0] for grid in printed_grids if not grid.paragraphs.get("Cause")]:
        yield f"What you think is the cause of the numbers in {listed(unexplained)}: these data name none."
    yield "Why another machine may give other numbers: its links, cores and versions beside those above."
    if study["training"]["arms"]:
        yield "What large batches do to accuracy: the page of the study has it."


def files(report: Report) -> Mapping[str, str]:
    """Return the texts of a report by the names of their files."""
    return {
        "report.tex": _filled("report.tex.j2", report, latex),
        "report.md": _filled("report.md.j2", report, markdown),
        "tables.csv": table(report),
    }


def write(report: Report, folder: Path) -> None:
    """Write the files of a report into a folder."""
    for name, text in files(report).items():
        write_text(folder.joinpath(name), text)


def _filled(template: str, report: Report, escape: Any) -> str:
    """Return what a template makes of a report; every text that it shows is escaped."""
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
    """Return one row per configuration: every figure, its low and high end and its state, each in its column."""
    headings = [heading for grid in report.grids for quantity in grid.quantities for heading in _headings(quantity)]
    places = dict.fromkeys(place for grid in report.grids for place in grid.places)
    rows: list[list[Any]] = [["Strategy", report.terms.heading, f"Batch per {report.terms.device}", *headings]]
    for place in places:
        cells = [cell for grid in report.grids for cell in grid.row(place)]
        rows.append([*place, *(entry for cell in cells for entry in (*cell.plain, state_words(cell.states)))])
    facts = [f"{name}: {value}" for name, value in report.facts.items()]
    notes = dict.fromkeys(note for sheet in report.sheets for note in sheet.notes)
    return "".join(f"# {line}\n" for line in (*facts, *notes)) + csv_text(rows)


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
    return " ".join(str(text).split())

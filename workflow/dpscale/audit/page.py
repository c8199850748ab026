"""The page of audits: of one record, for whoever printed the figures; or of all studies that a study's file names.

Both show the rows of `audit.tables` in the same way: what was found, what does not agree, and every cell as printed and
as defined.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from dpscale.audit.sentences import by_check, cell_of, worst_by_cell
from dpscale.audit.tables import IN_SHORT, AuditTables, Record, rows
from dpscale.audit.verdicts import EXPLAINED
from dpscale.present.text.downloads import csv_link
from dpscale.present.text.html import fill
from dpscale.present.text.numbers import ABSENT, estimate
from dpscale.present.text.words import listed, plural
from dpscale.schemas.validation import SCHEMA_LOADER
from dpscale.tables.column import MULTIPLES, PERCENT, SECONDS, column
from dpscale.tables.published import AuditFindingsRow, AuditRow, AuditWarningsRow
from dpscale.tables.quantities import (
    ALTERNATIVE_SPEEDUP,
    BANDWIDTH,
    COMMUNICATION,
    EFFICIENCY,
    SPEEDUP,
    THROUGHPUT,
)
from dpscale.tables.row import grouped
from dpscale.tables.tables import Tables

# What studies differ in most stands first: the table is wider than a phone.
_QUANTITIES = {
    "speedup": SPEEDUP,
    "speedup_alternative": ALTERNATIVE_SPEEDUP,
    "efficiency": EFFICIENCY,
    "bandwidth": BANDWIDTH,
    "communication_s": COMMUNICATION,
    "compute_s": column("Compute time", "", SECONDS),
    "images_per_s": THROUGHPUT,
    "utilisation_percent": column("Utilisation", "", PERCENT),
}
# Quantities that are shown although they were not printed.
_ALWAYS_COMPUTED = ("speedup", "communication_s", "bandwidth")
# Two definitions that differ by less give the same number.
_SAME = 1e-6
# What a check means, and what to do, in words for whoever printed the figures.
HELP: Mapping[str, str] = yaml.load(Path(__file__).with_name("help.yaml").read_text(), SCHEMA_LOADER)


class Check(NamedTuple):
    """What does not agree: its severity, what it is, and the cells with their numbers."""

    severity: str
    name: str
    cells: Sequence[str]

    @property
    def help(self) -> str:
        """What it means, and what to do, in words for whoever printed the figures."""
        if self.name.startswith("speedup over"):
            return "Speedup is over one GPU. Say so where it is over several."
        if self.name.endswith("is not what it is called"):
            return "Compute it again as the definitions below say, or call it what it is."
        return HELP.get(self.name, "")


class Entry(NamedTuple):
    """An entry of the table, and the worst severity of what is said about it."""

    text: str
    severity: str = ""


class Heading(NamedTuple):
    """A column of the table: its heading, its quantity, and what it shows of that in a cell."""

    text: str
    quantity: str
    shows: Callable[[AuditRow], str]


class AuditedStudy(NamedTuple):
    """An audited study: its sentence, its table, what does not agree, how it was computed, and notes."""

    id: str
    title: str
    answer: str
    batch: str
    headings: Sequence[Heading]
    entries: Sequence[tuple[int, int, Sequence[Entry]]]
    checks: Sequence[Check]
    findings: Sequence[tuple[str, str, str]]
    notes: Sequence[str]


def render(records: Sequence[Record]) -> str:
    """The page of one table's audits, as HTML that needs no other file: one block, or one per strategy or run. Pure,
    but for reading its own template."""
    blocks = [
        block(record["title"], rows([record]), "Global batch" if record["batch"] == "global" else "Batch", "your")
        for record in records
    ]
    return fill("audit.html.j2", title=records[0]["title"], study=None, page="", blocks=blocks, audit_link=None)


def render_studies(study: Mapping[str, Any], tables: Tables, page: str) -> str:
    """The page of other people's figures. `page` is the file name of the study's own page. Pure, but for reading its
    own template."""
    link, title = csv_link("audit", tables.audit), f"Other people's figures: study {study['study']}"
    return fill("audit.html.j2", title=title, study=study, page=page, blocks=studies(tables), audit_link=link)


def studies(tables: Tables) -> list[AuditedStudy]:
    """Every published study that was audited."""
    titles = {row.study: row.title for row in tables.audit_findings}
    return [block(title, _of(tables, study), "Batch per GPU", "their") for study, title in titles.items()]


def _of(tables: Tables, study: str) -> AuditTables:
    every = tables.audit, tables.audit_findings, tables.audit_warnings
    return AuditTables(*([row for row in table if row.study == study] for table in every))  # type: ignore[arg-type]


def block(title: str, tables: AuditTables, batch: str, whose: str) -> AuditedStudy:
    """What is shown of a study."""
    headings, worst = _headings(tables), worst_by_cell(tables.audit_warnings)
    cells = {cell_of(row): row for row in tables.audit if row.batch_per_gpu}
    places = sorted({(row_batch, gpus) for name, row_batch, gpus in cells if name in ("epoch_s", *_QUANTITIES)})
    (short,) = [row.sentence for row in tables.audit_findings if row.verdict == IN_SHORT]
    findings, remarks = _findings(tables.audit_findings)
    return AuditedStudy(
        tables.audit[0].study if tables.audit else "",
        title,
        short.replace("your", whose),
        batch,
        headings,
        [(*at, [_entry(heading, cells.get((heading.quantity, *at)), worst) for heading in headings]) for at in places],
        checks(tables.audit_warnings),
        findings,
        [*remarks, *_strong_speedups(tables.audit), *_notes(tables.audit)],
    )


def _findings(found: Iterable[AuditFindingsRow]) -> tuple[list[tuple[str, str, str]], list[str]]:
    """Quantity, verdict and sentence of every column; and what else there is to say."""
    columns = [row for row in found if row.conventions_tried is not None]
    of_columns = [(_QUANTITIES[row.quantity].label, row.verdict, row.sentence) for row in columns]
    return of_columns, [row.sentence for row in found if row not in columns and row.verdict != IN_SHORT]


def checks(warnings: Iterable[AuditWarningsRow]) -> list[Check]:
    """What does not agree, worst first."""
    return [Check(*check, cells) for check, (_, cells) in by_check(warnings).items()]


def _headings(tables: AuditTables) -> list[Heading]:
    """Times, then every printed quantity, then what was computed here alone."""
    of_quantities = grouped(tables.audit, lambda row: row.quantity)
    printed = {name: found for name, of in of_quantities.items() if (found := [row for row in of if row.published])}
    headings = [Heading("T(N,b), s", "epoch_s", _published)]
    for name, (label, unit) in {name: (of.label, of.unit) for name, of in _QUANTITIES.items()}.items():
        shown = label if unit is MULTIPLES or name == "efficiency" else f"{label}, {unit.shown}"
        if name in printed:
            labelled = f"{label}, {printed[name][0].published_unit}" if name == "bandwidth" else shown
            headings.append(Heading(labelled, name, _published))
        elif name in _ALWAYS_COMPUTED and any(
            row.corrected.is_known or row.reason for row in of_quantities.get(name, [])
        ):
            headings.append(Heading(f"{shown}, as defined here", name, _as_defined))
    return headings


def _entry(heading: Heading, row: AuditRow | None, worst: Mapping[tuple[str, int, int], str]) -> Entry:
    if row is None:
        return Entry(ABSENT)
    return Entry(heading.shows(row), worst.get(cell_of(row), "look" if row.caution else ""))


def _published(row: AuditRow) -> str:
    """With the digits that were printed, and behind an arrow what it is, where that is another number."""
    given, corrected = row.recomputed, row.corrected
    is_another = given.is_known and abs(given.value - corrected.value) > _SAME * abs(corrected.value)
    if not row.published or not corrected.is_known or (row.verdict == EXPLAINED and not is_another):
        return row.published or ABSENT
    unit = f" {row.unit}" if row.unit != row.published_unit and row.unit else ""
    return f"{row.published} → {_as_defined(row)}{unit}"


def _as_defined(row: AuditRow) -> str:
    """Three significant digits, fewer where rounding hides them."""
    figure, scale = row.corrected, 100 if row.published.endswith("%") else 1
    if not figure.is_known:
        unknown = "not resolvable" if row.reason.startswith("not resolvable") else "not known"
        return unknown if row.reason else ABSENT
    value, sign = figure.value * scale, " %" if scale > 1 else ""
    if abs(value) >= 1000:
        return f"{value:,.0f}{sign}"
    is_sharp = (figure.high - figure.low) / 2 < abs(figure.value) / 20
    return (f"{value:#.3g}".rstrip(".") if is_sharp else f"{value:.2g}") + sign


def _strong_speedups(audit: Iterable[AuditRow]) -> list[str]:
    """A sentence for every global batch that was held fixed: these cells have no weak figures to stand beside."""
    known = [row for row in audit if row.quantity == "speedup_strong" and row.corrected.is_known]
    return [
        f"Strong speedup at global batch {batch:,}: "
        + "; ".join(f"{estimate(row.corrected)}× on {plural(row.gpus, 'GPU')}" for row in group)
        + "."
        for batch, group in sorted(grouped(known, lambda row: cell_of(row)[1]).items())
    ]


def _notes(audit: Sequence[AuditRow]) -> Iterator[str]:
    """A sentence for every reason why there is no figure, and for every time that may be wrong."""
    for reason, labels, cells in _shared(audit, lambda row: row.reason):
        yield f"Not recomputable, as {reason}: {labels} ({plural(cells, 'cell')})."
    for caution, labels, _ in _shared(audit, lambda row: row.caution):
        yield f"Caution: {labels} {caution}."


def _shared(audit: Iterable[AuditRow], text: Callable[[AuditRow], str]) -> Iterator[tuple[str, str, int]]:
    """A text that cells have, with their quantities in words, and how many cells they are."""
    shown = (row for row in audit if text(row) and row.quantity in _QUANTITIES)
    for said, group in grouped(shown, text).items():
        labels = dict.fromkeys(_QUANTITIES[row.quantity].label.lower() for row in group)
        yield said, listed([*labels]), len({(row.batch_per_gpu, row.gpus) for row in group})

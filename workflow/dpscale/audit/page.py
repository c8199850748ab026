"""The page of audits: of one record, for whoever printed the figures; or of all studies that a study's file names.

Both show the rows of `audit.tables` in the same way: what was found, what does not agree, and every cell as printed and
as defined.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from dpscale.audit.reading.in_words import NAMES
from dpscale.audit.sentences import by_check, cell_of, worst_by_cell
from dpscale.audit.tables import IN_SHORT, AuditTables, Record, rows
from dpscale.audit.verdicts import EXPLAINED
from dpscale.present.text.downloads import csv_link
from dpscale.present.text.html import fill
from dpscale.present.text.numbers import ABSENT
from dpscale.schemas.validation import SCHEMA_LOADER
from dpscale.tables.published import AuditRow, AuditWarningsRow
from dpscale.tables.row import grouped
from dpscale.tables.tables import Tables

# What studies differ in most stands first: the table is wider than a phone.
_ORDER = (
    *("speedup", "speedup_alternative", "efficiency", "bandwidth", "communication_s", "compute_s", "images_per_s"),
    "utilisation_percent",
)
# Quantities that are shown although they were not printed.
_ALWAYS_COMPUTED = ("speedup", "communication_s", "bandwidth")
# Two definitions that differ by less give the same number.
_SAME = 1e-6
# What a check means, and what to do, in words for whoever printed the figures; by a part of its name.
HELP: Mapping[str, str] = yaml.load(Path(__file__).with_name("help.yaml").read_text(), SCHEMA_LOADER)


class Check(NamedTuple):
    """What does not agree: its severity, what it is, what to do, and the cells with their numbers."""

    severity: str
    name: str
    help: str
    cells: Sequence[str]


class Entry(NamedTuple):
    """An entry of the table, and the worst severity of what is said about it."""

    text: str
    severity: str = ""


class Heading(NamedTuple):
    """A column of the table: its heading, its quantity, and whether that was printed or only computed here."""

    text: str
    quantity: str
    is_printed: bool = True


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
    every = tables.audit, tables.audit_findings, tables.audit_warnings
    titles = {row.study: row.title for row in tables.audit_findings}
    of = {name: AuditTables(*([row for row in table if row.study == name] for table in every)) for name in titles}  # type: ignore[arg-type]
    return [block(title, of[name], "Batch per GPU", "their") for name, title in titles.items()]


def block(title: str, tables: AuditTables, batch: str, whose: str) -> AuditedStudy:
    """What is shown of a study."""
    headings, worst = [*_headings(tables)], worst_by_cell(tables.audit_warnings)
    cells = {cell_of(row): row for row in tables.audit}
    shown = (row for row in tables.audit if row.quantity in ("epoch_s", *_ORDER))
    places = sorted({(row.batch_per_gpu, row.gpus) for row in shown})
    (short,) = [row.sentence for row in tables.audit_findings if row.verdict == IN_SHORT]
    columns = [row for row in tables.audit_findings if row.conventions_tried is not None]
    remarks = [row.sentence for row in tables.audit_findings if row not in columns and row.verdict != IN_SHORT]
    return AuditedStudy(
        tables.audit[0].study if tables.audit else "",
        title,
        short.replace("your", whose),
        batch,
        headings,
        [(*at, [_entry(heading, cells.get((heading.quantity, *at)), worst) for heading in headings]) for at in places],
        checks(tables.audit_warnings),
        [(_label(row.quantity), row.verdict, row.sentence) for row in columns],
        [*remarks, *dict.fromkeys(f"Some figures are not known: {row.reason}." for row in tables.audit if row.reason)],
    )


def checks(warnings: Iterable[AuditWarningsRow]) -> list[Check]:
    """What does not agree, worst first."""
    return [
        Check(severity, name, next((text for part, text in HELP.items() if part in name), ""), cells)
        for (severity, name), (_, cells) in by_check(warnings).items()
    ]


def _label(quantity: str) -> str:
    return NAMES[quantity].capitalize()


def _headings(tables: AuditTables) -> Iterator[Heading]:
    """Times, then every printed quantity, then what was computed here alone."""
    yield Heading("Epoch time, s", "epoch_s")
    of_quantities = grouped(tables.audit, lambda row: row.quantity)
    for name in _ORDER:
        printed = [row for row in of_quantities.get(name, []) if row.published]
        computed = [row for row in of_quantities.get(name, []) if row.corrected.is_known or row.reason]
        if printed:
            yield Heading(", ".join(filter(None, [_label(name), printed[0].published_unit])), name)
        elif computed and name in _ALWAYS_COMPUTED:
            parts = _label(name), computed[0].unit, "as defined here"
            yield Heading(", ".join(filter(None, parts)), name, is_printed=False)


def _entry(heading: Heading, row: AuditRow | None, worst: Mapping[tuple[str, int, int], str]) -> Entry:
    if row is None:
        return Entry(ABSENT)
    shown = _published(row) if heading.is_printed else _as_defined(row)
    return Entry(shown, worst.get(cell_of(row), ""))


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

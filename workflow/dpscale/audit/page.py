"""The pages of audits: of one record, for whoever printed the figures; and of all studies that a study's file names.

Both show the rows of `audit.tables`: what was found, what does not agree, and every cell as printed and as defined.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from dpscale.audit.checks import SEVERITIES
from dpscale.audit.tables import CORRECTED_BY, Record, rows
from dpscale.present.text.downloads import csv_link
from dpscale.present.text.html import fill
from dpscale.present.text.numbers import ABSENT, estimate, whole
from dpscale.present.text.view import ShownColumn, View
from dpscale.present.text.words import capitalised, listed, plural
from dpscale.schemas.validation import SCHEMA_LOADER
from dpscale.tables.column import MULTIPLES, PERCENT, SECONDS, Unit, column
from dpscale.tables.published import AuditRow, AuditWarningsRow
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
    "bandwidth": BANDWIDTH,
    "communication_s": COMMUNICATION,
    "compute_s": column("Compute time", SECONDS, ""),
    "efficiency": EFFICIENCY,
    "images_per_s": THROUGHPUT,
    "utilisation_percent": column("Utilisation", PERCENT, ""),
}
# A quantity that is shown beside other studies only where somebody printed it.
_ONLY_PUBLISHED = "images_per_s"
# Quantities that are shown to their author although they were not printed.
_ALWAYS_COMPUTED = ("speedup", "communication_s", "bandwidth")
# So many cells of a warning are told; the others are in the table.
_CELLS_SHOWN = 6
# What a check means, and what to do, in words for whoever printed the figures.
HELP: Mapping[str, str] = yaml.load(Path(__file__).with_name("help.yaml").read_text(), SCHEMA_LOADER)
_ORDER = (*SEVERITIES, "")
NOT_RECOMPUTABLE = "not recomputable"

# Batch and GPUs.
_Place = tuple[int, int]
_Cells = Mapping[tuple[str, _Place], AuditRow]


class Check(NamedTuple):
    """What does not agree: its severity, what to do about it, and the cells with their numbers."""

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

    @property
    def line(self) -> str:
        """All of it in a line, for a page with many studies."""
        more = len(self.cells) - _CELLS_SHOWN
        cells = [*self.cells[:_CELLS_SHOWN], *([f"and {more} more cells"] if more > 0 else [])]
        return f"{capitalised(': '.join(filter(None, (self.severity, self.name))))}: {'; '.join(cells)}"


class Entry(NamedTuple):
    """An entry of the table, and the worst severity of what is said about it."""

    text: str
    severity: str = ""


class Heading(NamedTuple):
    """A column of the table: its heading, its quantity, and what it shows of that in a cell."""

    text: str
    quantity: str
    shows: Callable[[AuditRow], str]


def render(record: Record) -> str:
    """The page of an audit's record, as HTML that needs no other file. Pure, but for reading its own template."""
    tables = rows([record])
    headings = _headings(record, tables.audit)
    cells, worst = _by_place(tables.audit), _worst(tables.audit_warnings)
    return fill(
        "audit.html.j2",
        title=record["title"],
        answer=answer(record),
        checks=checks(tables.audit_warnings),
        findings=[(_QUANTITIES[found["quantity"]].label, found) for found in record["quantities"]],
        columns=headings,
        rows=[
            (*place, [_entry(heading, place, cells, worst) for heading in headings]) for place in _places(tables.audit)
        ],
        batch="Global batch" if record["batch"] == "global" else "Batch",
        remarks=[remark["sentence"] for remark in record["remarks"]],
        cautions=sorted({row.caution for row in tables.audit if row.caution}),
    )


def answer(record: Record) -> str:
    """How many cells are impossible, wrong, or worth a look, in one sentence."""
    worst = list(_worst(rows([record]).audit_warnings).values())
    verbs = {
        "impossible": ("is impossible", "are impossible"),
        "wrong": (
            "is not what it is called, or not what your times give",
            "are not what they are called, or not what your times give",
        ),
        "look": ("is worth a look", "are worth a look"),
    }
    parts = [
        f"{plural(count, 'figure')} {verbs[severity][count > 1]}"
        for severity in SEVERITIES
        if (count := worst.count(severity))
    ]
    checkable = sum(quantity["checkable_cells"] for quantity in record["quantities"])
    return "; ".join(parts) + "." if parts else f"Nothing calls for a second look: {checkable} figures were checked."


def checks(warnings: Iterable[AuditWarningsRow]) -> list[Check]:
    """What does not agree, worst first; a detail that many cells share is said once."""
    found = []
    for (severity, name), group in grouped(warnings, lambda row: (row.severity, row.check)).items():
        cells = [
            f"{_place_words(same[0])}: {detail}" if len(same) == 1 else f"{detail} ({len(same)} cells)"
            for detail, same in grouped(group, lambda row: row.detail).items()
        ]
        found.append(Check(severity, name, cells))
    return sorted(found, key=lambda check: _ORDER.index(check.severity))


def _place_words(row: AuditWarningsRow) -> str:
    name = "batch" if row.global_batch is None else "global batch"
    return f"{name} {_batch(row):,} on {plural(row.gpus, 'GPU')}"


def _batch(row: AuditRow | AuditWarningsRow) -> int:
    return row.batch_per_gpu or row.global_batch or 0


def _worst(warnings: Iterable[AuditWarningsRow]) -> Mapping[tuple[str, _Place], str]:
    """The worst severity by quantity, batch and GPUs."""
    by_cell = grouped(warnings, lambda row: (row.quantity, (_batch(row), row.gpus)))
    return {cell: min((row.severity for row in group), key=_ORDER.index) for cell, group in by_cell.items()}


def _by_place(audit: Iterable[AuditRow]) -> _Cells:
    return {(row.quantity, (row.batch_per_gpu, row.gpus)): row for row in audit if row.batch_per_gpu}


def _places(audit: Iterable[AuditRow]) -> list[_Place]:
    return sorted({place for quantity, place in _by_place(audit) if quantity in ("epoch_s", *_QUANTITIES)})


def _headings(record: Record, audit: Iterable[AuditRow]) -> list[Heading]:
    """Times, then every printed quantity with what it is here beside it, then what was computed here alone."""
    of_quantities = grouped(audit, lambda row: row.quantity)
    printed = [quantity["quantity"] for quantity in record["quantities"]]
    found = [_TIMES]
    for name in (*printed, *(name for name in _ALWAYS_COMPUTED if name not in printed)):
        label, unit = _QUANTITIES[name].label, _QUANTITIES[name].unit
        shown = label if unit is MULTIPLES else f"{label}, {unit.shown}"
        as_printed = f"{label}, {record['bandwidth_unit']}" if name == "bandwidth" else shown
        if name in printed:
            found.append(Heading(f"{as_printed}, printed", name, _published))
        corrected_by = CORRECTED_BY.get(name, name)
        if _is_computed(of_quantities.get(corrected_by, [])):
            found.append(Heading(f"{shown}, as defined here", corrected_by, _as_defined))
    return found


def _is_computed(audit: Iterable[AuditRow]) -> bool:
    return any(row.corrected.is_known or row.reason for row in audit)


def _entry(heading: Heading, place: _Place, cells: _Cells, worst: Mapping[tuple[str, _Place], str]) -> Entry:
    row = cells.get((heading.quantity, place))
    if row is None:
        return Entry(ABSENT)
    of_computed = "look" if row.caution else ""
    severity = worst.get((heading.quantity, place), "") if heading.shows is _published else of_computed
    return Entry(heading.shows(row), severity)


def _published(row: AuditRow) -> str:
    """With the digits that were printed."""
    return row.published or ABSENT


def _as_defined(row: AuditRow) -> str:
    """Three significant digits, fewer where rounding hides them."""
    figure = row.corrected
    if not figure.is_known:
        unknown = "not resolvable" if row.reason.startswith("not resolvable") else "not known"
        return unknown if row.reason else ABSENT
    if abs(figure.value) >= 1000:
        return f"{figure.value:,.0f}"
    is_sharp = (figure.high - figure.low) / 2 < abs(figure.value) / 20
    return f"{figure.value:#.3g}".rstrip(".") if is_sharp else f"{figure.value:.2g}"


def _recomputed(unit: Unit) -> Callable[[AuditRow], str]:
    """As defined here, with what rounding allows, in as many decimals as make sense."""

    def shows(row: AuditRow) -> str:
        if not row.corrected.is_known and row.reason:
            return NOT_RECOMPUTABLE
        return estimate(row.corrected, Unit("", "", unit.scale))

    return shows


_TIMES = Heading("T(N,b), s", "epoch_s", _published)


class AuditedStudy(NamedTuple):
    """A published study among others: its verdicts with their sentences, its warnings, its table, and notes."""

    id: str
    title: str
    findings: Sequence[tuple[str, str]]
    warnings: Sequence[str]
    view: View
    notes: Sequence[str]


def render_studies(study: Mapping[str, Any], tables: Tables, page: str) -> str:
    """The page of other people's figures. `page` is the file name of the study's own page. Pure, but for reading its
    own template."""
    link = csv_link("audit", tables.audit)
    return fill("published.html.j2", study=study, page=page, blocks=studies(tables), audit_link=link)


def studies(tables: Tables) -> list[AuditedStudy]:
    """Every published study that was audited."""
    found = []
    for study, findings in grouped(tables.audit_findings, lambda row: row.study).items():
        audit = [row for row in tables.audit if row.study == study]
        found.append(
            AuditedStudy(
                study,
                findings[0].title,
                [(capitalised(row.verdict), row.sentence) for row in findings],
                [check.line for check in checks(row for row in tables.audit_warnings if row.study == study)],
                _view(study, audit),
                [*_strong_speedups(audit), *_notes(audit)],
            )
        )
    return found


def _view(study: str, audit: Sequence[AuditRow]) -> View:
    """One row a cell with several GPUs, published and corrected side by side."""
    of_quantities = grouped(audit, lambda row: row.quantity)
    headings = [_TIMES]
    for name, shown in _QUANTITIES.items():
        rows_of_it = of_quantities.get(name, [])
        published = [row for row in rows_of_it if row.published]
        if published:
            unit = f"labelled {published[0].published_unit}" if name == "bandwidth" else shown.unit.shown
            headings.append(Heading(f"{shown.label}, published, {unit}", name, _published))
        is_wanted = name != "speedup_alternative" and (published or name != _ONLY_PUBLISHED)
        if is_wanted and _is_computed(rows_of_it):
            headings.append(Heading(shown.heading, name, _recomputed(shown.unit)))
    cells = _by_place(audit)
    entries = [
        [*map(whole, place), *(_entry(heading, place, cells, {}).text for heading in headings)]
        for place in _places(audit)
        if place[1] > 1
    ]
    columns = [ShownColumn(text, str) for text in ("Batch per GPU", "GPUs", *(heading.text for heading in headings))]
    return View(f"audit-{study}", "audit", f"{study}, as published and as defined here", columns, entries, 0, None)


def _strong_speedups(audit: Iterable[AuditRow]) -> list[str]:
    """A sentence for every global batch that was held fixed: these cells have no weak figures to stand beside."""
    known = [row for row in audit if row.quantity == "speedup_strong" and row.corrected.is_known]
    return [
        f"Strong speedup at global batch {batch:,}: "
        + "; ".join(f"{estimate(row.corrected)}× on {plural(row.gpus, 'GPU')}" for row in group)
        + "."
        for batch, group in sorted(grouped(known, _batch).items())
    ]


def _shared(audit: Iterable[AuditRow], text: Callable[[AuditRow], str]) -> Iterator[tuple[str, str, int]]:
    """A text that cells have, with their quantities in words, and how many cells they are."""
    shown = (row for row in audit if text(row) and row.quantity in _QUANTITIES)
    for said, group in grouped(shown, text).items():
        labels = dict.fromkeys(_QUANTITIES[row.quantity].label.lower() for row in group)
        yield said, listed([*labels]), len({(row.batch_per_gpu, row.gpus) for row in group})


def _notes(audit: Sequence[AuditRow]) -> Iterator[str]:
    """A sentence for every reason why there is no figure, and for every time that may be wrong."""
    for reason, labels, cells in _shared(audit, lambda row: row.reason):
        yield f"{capitalised(NOT_RECOMPUTABLE)}, as {reason}: {labels} ({plural(cells, 'cell')})."
    for caution, labels, _ in _shared(audit, lambda row: row.caution):
        yield f"Caution: {labels} {caution}."

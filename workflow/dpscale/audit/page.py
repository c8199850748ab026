"""The page of audits: of one record, for whoever printed the figures; or of all studies that a study's file names.

Both show the rows of audits in the same way: what was found, what does not agree, and every cell as printed and
as defined.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from dpscale.audit.grids import WORDS
from dpscale.audit.sentences import ByCheck, by_check, cell_of, in_short, name_of, worst_by_cell
from dpscale.audit.verdicts import EXPLAINED
from dpscale.present.text.html import fill
from dpscale.present.text.numbers import ABSENT, plain
from dpscale.present.text.table import Flagged, ShownColumn, ShownTable
from dpscale.records.facts import AuditRecord
from dpscale.tables.row import grouped
from dpscale.tables.study import AuditRow, AuditTables
from dpscale.tables.tables import Tables
from dpscale.vocabulary import own_yaml

# What studies differ in most stands first: the table is wider than a phone.
_ORDER: Sequence[str] = WORDS["on_the_page"]
# Two definitions that differ by less give the same number.
_SAME = 1e-6
# What a check means, and what to do, in words for whoever printed the figures; by a part of its name.
HELP: Mapping[str, str] = own_yaml(__file__, "help.yaml")


_CAPTION = (
    "every cell as printed; behind an arrow what the definitions give for the printed times, where that is another "
    "number. The word behind it says what is below about it"
)


class AuditedStudy(NamedTuple):
    """An audited study: its sentence, answers to what is asked first, its table, what does not agree, how it was
    computed, and notes."""

    id: str
    title: str
    answer: str
    in_short: Sequence[tuple[str, str]]
    table: ShownTable
    checks: ByCheck
    findings: Sequence[tuple[str, str, str]]
    notes: Sequence[str]


def render(records: Sequence[AuditRecord]) -> str:
    """The page of one table's audits, as HTML that needs no other file: one block, or one per strategy or run. Pure,
    but for reading its own template."""
    batches = {record.id: "Global batch" if record.batch == "global" else "Batch" for record in records}
    return _filled(records[0].title, studies(AuditTables.of(records), batches), study=None)


def render_studies(study: Mapping[str, object], tables: Tables, page: str) -> str:
    """The page of other people's figures. `page` is the file name of the study's own page. Pure, but for reading its
    own template."""
    title = f"Other people's figures: study {study['study']}"
    return _filled(title, studies(tables, {}), study=study, page=page)


def _filled(title: str, blocks: Iterable[AuditedStudy], **values: Any) -> str:
    return fill("audit.html.j2", title=title, blocks=[*blocks], help_of=help_of, **values)


def help_of(check: str) -> str:
    """Return the help of a check: its meaning, and what to do."""
    return next((text for words, text in HELP.items() if words in check), "")


def studies(tables: Tables | AuditTables, batches: Mapping[str, str]) -> Iterator[AuditedStudy]:
    """Yield every audited study as it is shown; `batches` are the headings of batches, by study."""
    for name, (short, *more) in grouped(tables.audit_findings, lambda row: row.study).items():
        cells = [row for row in tables.audit if row.study == name]
        warnings = [row for row in tables.audit_warnings if row.study == name]
        reasons = dict.fromkeys(f"Some figures are not known: {row.reason}." for row in cells if row.reason)
        yield AuditedStudy(
            name,
            short.title,
            short.sentence,
            in_short(AuditTables(cells, [short, *more], warnings)),
            _table(name, short.title, batches.get(name, "Batch per GPU"), cells, worst_by_cell(warnings)),
            by_check(warnings),
            [
                (name_of(row.quantity).capitalize(), row.verdict, row.sentence)
                for row in more
                if row.conventions_tried is not None
            ],
            [*(row.sentence for row in more if row.conventions_tried is None), *reasons],
        )


def _table(
    study: str, title: str, batch: str, cells: Sequence[AuditRow], worst: Mapping[tuple[str, int, int], str]
) -> ShownTable:
    """Return every cell as it was printed, with the `worst` that is said about it: times, then every quantity."""
    columns: dict[str, dict[tuple[int, int], str]] = {}
    by_quantity = grouped(cells, lambda row: row.quantity)
    for name in _ORDER:
        rows = by_quantity.get(name, [])
        if units := [row.published_unit for row in rows if row.published]:
            columns[", ".join(filter(None, [name_of(name).capitalize(), units[0]]))] = {
                (row.batch_per_gpu, row.gpus): Flagged.of(_published(row), worst.get(cell_of(row), "")) for row in rows
            }
    places = sorted({place for entries in columns.values() for place in entries})
    return ShownTable(
        name=f"figures-{study}",
        caption=f"{title}: {_CAPTION}",
        columns=[ShownColumn(heading) for heading in (batch, "GPUs", *columns)],
        cells=[
            [f"{place[0]:,}", str(place[1] or ABSENT), *(entries.get(place, ABSENT) for entries in columns.values())]
            for place in places
        ],
    )


def _published(row: AuditRow) -> str:
    """With the digits that were printed, and behind an arrow what it is, where that is another number."""
    given, corrected = row.recomputed, row.corrected
    is_another = given.is_known and abs(given.value - corrected.value) > _SAME * abs(corrected.value)
    if not row.published or not corrected.is_known or (row.verdict == EXPLAINED and not is_another):
        return row.published or ABSENT
    scale, unit = (100, " %") if row.published.endswith("%") else (1, "")
    return f"{row.published} → {plain(corrected.value * scale, 3)}{unit}"

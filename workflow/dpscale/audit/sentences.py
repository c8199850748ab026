"""What was found, in one sentence per quantity, made from the outcome."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from textwrap import fill

from dpscale.audit.checks import LOOK, SEVERITIES, listed
from dpscale.audit.conventions import OTHER, WRONG, telling
from dpscale.audit.published import QUANTITIES, Spot, is_telling
from dpscale.audit.verdicts import ANOTHER_RUN, EXPLAINED, UNEXPLAINED, UNKNOWN, Reading
from dpscale.records.facts import AuditRecord
from dpscale.tables.row import grouped
from dpscale.tables.study import AuditRow, AuditTables, AuditWarningsRow

EXPLAINED_EXCEPT = "explained except"
# Of a terminal.
_WIDTH = 120
# So many cells of a warning are told; the others are in the table.
_CELLS_SHOWN = 6

# Quantity, batch and GPUs.
_Cell = tuple[str, int, int]
ByCheck = Mapping[tuple[str, str], tuple[int, Sequence[str]]]


def verdict_of(reading: Reading, quantity: str) -> str:
    """Return the state of a column: that of all its figures; or that its convention gives all but a few."""
    verdicts = reading.of(quantity)
    # On one GPU a ratio is 1 by any convention.
    states = {verdicts[place].state for place in telling(verdicts, quantity) or verdicts}
    if states <= {EXPLAINED, UNKNOWN}:
        return EXPLAINED if EXPLAINED in states else UNKNOWN
    if reading.outcomes[quantity].best and EXPLAINED in states:
        return EXPLAINED_EXCEPT
    return UNEXPLAINED if UNEXPLAINED in states else ANOTHER_RUN


def sentence(reading: Reading, quantity: str) -> str:
    """Return the outcome for a quantity in words: its convention, and what supports it. Warnings say which cells it
    does not give."""
    outcome, name = reading.outcomes[quantity], QUANTITIES[quantity]
    cells, match = len(telling(outcome.checkable, quantity)), outcome.match
    if verdict_of(reading, quantity) == UNKNOWN and not match:
        reasons = dict.fromkeys(verdict.why for verdict in reading.of(quantity).values() if verdict.state == UNKNOWN)
        return f"The {name} cannot be checked: {listed([*reasons])}."
    if not match:
        return f"No convention of the {outcome.tried:,} tried gives the {name}."
    where = f"in {match.supporting} of {cells} cells" if outcome.best else "with figures of another run"
    chance = (
        f"; chance alone would do as well in {outcome.chance * 100:.1g} % of cases" if outcome.chance >= 1e-6 else ""
    )
    differences = "; ".join(match.convention.words(OTHER, WRONG))
    defined = f"not as defined here ({differences})" if differences else "as defined here"
    return f"The {name} is {match.convention.shown}, {defined}, {where}{chance}."


# What is assumed of these shows in formulas as this.
_RESTS_ON = {"images": r"\bD\b", "network": r"\d{4,} "}


def remarks(reading: Reading) -> Iterator[tuple[str, str]]:
    """Yield verdict and sentence of what else there is to say."""
    published = reading.published
    formulas = " ".join(verdict.why for verdict in reading.verdicts.values() if verdict.state == EXPLAINED)
    used = [published.assumed[name] for name in published.assumed if re.search(_RESTS_ON.get(name, "^$"), formulas)]
    if used:
        yield "assumed", f"Not given, and assumed: {'; '.join(used)}."
    if count := sum(map(len, published.of_other_runs.values())):
        figures = f"{count} figure{'s' if count > 1 else ''} of other runs than these"
        yield "left out", f"Not held against the times: {figures}, as the table says."
    for omission in published.left_out:
        yield "left out", f"{omission}."
    if published.gpu and not published.chip:
        yield "not compared", f"Times are not compared with a peak: {published.gpu} is not known here."


def answer(tables: AuditTables) -> str:
    """Say what is wrong, in one sentence with the column, the cell and the numbers; how many more are; and how many
    were checked."""
    worst = worst_by_cell(tables.audit_warnings)
    faulty = [cell for cell, severity in worst.items() if severity != LOOK]
    looks = [cell for cell, severity in worst.items() if severity == LOOK]
    sentences = []
    if faulty:
        first = min(tables.audit_warnings, key=_rank)
        sentences.append(f"{_at_its_place(first)}.")
        further = len({*faulty} - {cell_of(first)})
        sentences += [f"{further} more in question."] if further else []
    if looks:
        first = next(row for row in tables.audit_warnings if cell_of(row) in looks)
        sentences.append(f"{len(looks)} worth a look{'' if faulty else f': {_at_its_place(first)}'}.")
    figures = [row for row in tables.audit if row.verdict and is_telling(row.quantity, row.gpus)]
    explained = sum(row.verdict == EXPLAINED and cell_of(row) not in faulty for row in figures)
    unknown = [row.why for row in figures if row.verdict == UNKNOWN]
    checked = f"{explained} of {len(figures)} figures are explained" if figures else "There was no figure to check"
    if unknown:
        checked += f"; {len(unknown)} cannot be checked: {listed([*dict.fromkeys(unknown)])}"
    start = "" if sentences or not figures else "Nothing calls for a second look: "
    return " ".join([*sentences, f"{start}{checked}."])


def in_short(tables: AuditTables) -> list[tuple[str, str]]:
    """Answer what a reader asks first: which figures are wrong, and what they should be; why; what cannot be checked;
    and by which conventions the others are explained."""
    faulty = [row for row in tables.audit_warnings if row.severity != LOOK]
    wrong = [f"{row.detail.partition(': ')[0]} ({Spot(row.batch_per_gpu, row.gpus)})" for row in faulty]
    reasons = [row.why for row in tables.audit if row.verdict == UNKNOWN and is_telling(row.quantity, row.gpus)]
    unknown = [f"{why} ({count} figures)" if count > 1 else why for why, count in Counter(reasons).items()]
    conventions = [f"{name_of(row.quantity)}: {row.convention}" for row in tables.audit_findings if row.convention]
    answers = {
        "Wrong": wrong or ["no figure that can be checked"],
        "Why": [*dict.fromkeys(row.check for row in faulty)],
        "Cannot be checked": unknown or ["nothing"],
        "Conventions": conventions,
    }
    return [(question, listed(items, _CELLS_SHOWN)) for question, items in answers.items() if items]


def by_check(warnings: Iterable[AuditWarningsRow]) -> ByCheck:
    """Return by severity and check, the worst first, how many cells fail it, and what is said of them. What many share
    is said once, and of many others the first."""
    details = {}
    for check, group in grouped(warnings, lambda row: (row.severity, row.check)).items():
        lines = []
        for detail, alike in grouped(group, lambda row: row.detail).items():
            place = Spot(alike[0].batch_per_gpu, alike[0].gpus)
            lines.append(f"{detail} ({len(alike)} cells)" if len(alike) > 1 else f"{place}: {detail}")
        more = [f"and {len(lines) - _CELLS_SHOWN} more cells"] if len(lines) > _CELLS_SHOWN else []
        details[check] = len(group), [*lines[:_CELLS_SHOWN], *more]
    return dict(sorted(details.items(), key=lambda entry: SEVERITIES.index(entry[0][0])))


def _rank(warning: AuditWarningsRow) -> int:
    """Return the place of a warning among all, the worst first."""
    return SEVERITIES.index(warning.severity)


def cell_of(row: AuditRow | AuditWarningsRow) -> _Cell:
    """Return the quantity, batch and GPUs of a row."""
    return row.quantity, row.batch_per_gpu, row.gpus


def name_of(quantity: str) -> str:
    """Return the name of a column, of times too."""
    return QUANTITIES.get(quantity, "epoch time")


def worst_by_cell(warnings: Iterable[AuditWarningsRow]) -> dict[_Cell, str]:
    """Return the worst severity of what is said about a cell."""
    return {cell: min(group, key=_rank).severity for cell, group in grouped(warnings, cell_of).items()}


def _at_its_place(warning: AuditWarningsRow) -> str:
    """`Batch 32, 2 GPUs: speedup 3.20; the times give 1.60`; of what is no figure, what the check says."""
    quantity, batch, gpus = cell_of(warning)
    where = f"Batch {batch:,}, {Spot(batch, gpus).devices}" if batch else Spot(batch, gpus).devices
    is_of_the_figure = warning.detail.startswith(name_of(quantity))
    return f"{where}: {warning.detail if is_of_the_figure else f'{warning.check} ({warning.detail})'}"


def summary(record: AuditRecord) -> str:
    """Return a record of an audit in a few lines for the terminal."""
    lines, tables = [f"{record.id}: {record.title}", f"  {record.answer}"], AuditTables.of([record])
    for row in tables.audit_findings:
        if row.conventions_tried is not None:
            # What is 4 bytes stands in the record; a line has to fit a terminal.
            formula = row.convention.replace(" bytes", "") or "-"
            cells = f"{row.supporting_cells} of {row.independent_cells} cells" if row.independent_cells else ""
            lines.append(f"  {QUANTITIES[row.quantity]:19}  {row.verdict:18} {cells:>13}  {formula}")
    for (severity, check), (count, of_check) in by_check(tables.audit_warnings).items():
        lines.append(f"  {severity}: {check} ({count})")
        lines += [f"    {detail}" for detail in of_check if severity != LOOK]
    lines += [f"  note: {row.sentence}" for row in tables.audit_findings if row.verdict in ("assumed", "left out")]
    return "\n".join(fill(line, _WIDTH, subsequent_indent="    ", break_on_hyphens=False) for line in lines)

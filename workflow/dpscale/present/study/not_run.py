"""What was asked for and has no number, and why."""

from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter

from dpscale.present.text.numbers import whole
from dpscale.present.text.table import ROWS_SHOWN, ShownColumn, ShownTable
from dpscale.present.text.words import Terms, left_out, listed, plural, state
from dpscale.tables.row import grouped, in_groups
from dpscale.tables.study import AbsencesRow, MissingRow
from dpscale.tables.timing import TimesRow

_CELLS_NAMED = 2
_CAPTION = "Configurations without a number, and why. Strategy × {devices} at batch per {device}, in {samples}"
_ABSENCES = ("State", "Reason", "Configurations", "Which")


@dataclass(frozen=True)
class MissingCells:
    """Cells that were planned and have no record: how many are of one state, reason and end of the log, if any, and
    the first of them."""

    number: str
    state: str
    reason: str
    log: str
    names: str


def absences(times: Iterable[TimesRow], counted: Iterable[AbsencesRow], terms: Terms) -> ShownTable:
    """Return the table of every state but `ok` with its reason and its configurations, the most frequent first, as they
    were `counted`. `times` are in the order in which people read them."""

    def point(row: TimesRow) -> str:
        return f"{row.strategy} × {row.gpus} at {row.batch_per_gpu:,}{terms.environment(row)}"

    rows_by_reason = grouped((row for row in times if row.status != "ok"), _why)
    numbers = {_why(row): row.configurations or 0 for row in counted}
    reasons = sorted(rows_by_reason, key=lambda why: numbers[why], reverse=True)
    return ShownTable(
        "absences",
        terms.filled(_CAPTION),
        [ShownColumn(heading, is_number=heading == "Configurations") for heading in _ABSENCES],
        [
            [*why, whole(numbers[why]), listed([*dict.fromkeys(map(point, rows_by_reason[why]))])]
            for why in reasons[:ROWS_SHOWN]
        ],
        source="times",
        rows_left_out=left_out(reasons, ROWS_SHOWN),
    )


def _why(row: TimesRow | AbsencesRow) -> tuple[str, str]:
    return state(row.status), row.reason or "no reason recorded"


def missing_cells(missing: Iterable[MissingRow], terms: Terms) -> list[MissingCells]:
    """Return the planned cells without a record, those that failed first."""
    return [
        MissingCells(
            number=plural(len(rows), "cell"),
            state=rows[0].status,
            reason=rows[0].reason,
            log=rows[0].log,
            names=listed([_job(row, terms) for row in rows], _CELLS_NAMED, "; "),
        )
        for rows in in_groups(missing, attrgetter("status", "reason", "log"))
    ]


def _job(row: MissingRow, terms: Terms) -> str:
    """Return the name of a job. Timing needs no name: it is what a study is about."""
    if row.kind == "training":
        return f"training of arm {row.arm}, seed {row.seed}"
    run = f"run {row.run}"
    if row.kind == "collectives":
        return f"collectives on {terms.count(row.gpus)}, {run}"
    kind = "communication of " if row.kind == "communication" else ""
    variant = f"variant {row.variant} of " if row.variant else ""
    return f"{kind}{variant}{terms.point(row)}, {run}"

"""What was asked for and has no number, and why."""

from collections.abc import Iterable
from dataclasses import dataclass

from dpscale.present.text.words import Terms, listed, plural, state
from dpscale.tables.row import grouped, in_groups
from dpscale.tables.study import AbsencesRow, MissingRow
from dpscale.tables.timing import TimesRow

_CELLS_NAMED = 2


@dataclass(frozen=True)
class Absence:
    """A reason why configurations have no number, how many it holds for, and which."""

    state: str
    reason: str
    number: int
    points: str


@dataclass(frozen=True)
class MissingCells:
    """Cells that were planned and have no record: how many are of one state, reason and end of the log, if any, and
    the first of them."""

    number: str
    state: str
    reason: str
    log: str
    names: str


def absences(times: Iterable[TimesRow], counted: Iterable[AbsencesRow], terms: Terms) -> list[Absence]:
    """Return every state but `ok` with its reason and its configurations, the most frequent first, as they were
    `counted`. `times` are in the order in which people read them."""

    def point(row: TimesRow) -> str:
        return f"{row.strategy} × {row.gpus} at {row.batch_per_gpu:,}{terms.environment(row)}"

    rows_by_reason = grouped((row for row in times if row.status != "ok"), _why)
    numbers = {_why(row): row.configurations or 0 for row in counted}
    reasons = [
        Absence(*why, numbers[why], listed([*dict.fromkeys(map(point, rows))])) for why, rows in rows_by_reason.items()
    ]
    return sorted(reasons, key=lambda absence: absence.number, reverse=True)


def _why(row: TimesRow | AbsencesRow) -> tuple[str, str]:
    return state(row.status), row.reason or "no reason recorded"


def missing_cells(missing: Iterable[MissingRow], terms: Terms) -> list[MissingCells]:
    """Return the planned cells without a record, those that failed first."""

    def why(row: MissingRow) -> tuple[str, str, str]:
        return row.status, row.reason, row.log

    return [
        MissingCells(
            plural(len(rows), "cell"), *why(rows[0]), listed([_job(row, terms) for row in rows], _CELLS_NAMED, "; ")
        )
        for rows in in_groups(missing, why)
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

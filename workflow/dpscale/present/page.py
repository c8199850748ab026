"""The page: everything a study says, in one HTML file that needs nothing else."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dpscale.analyse.answer.answer import answer_of
from dpscale.present.charts import communication, timing, training
from dpscale.present.charts.picture import Chart
from dpscale.present.findings.answer import first_screen
from dpscale.present.findings.cautions import by_chance, first_cautions, other_cautions
from dpscale.present.findings.findings import beside_the_public_best, findings, witnesses
from dpscale.present.findings.set_up import set_up
from dpscale.present.handin_assignment import sheets
from dpscale.present.handin_sentences import AssignmentRows
from dpscale.present.shown_tables import views
from dpscale.present.text.html import fill
from dpscale.present.text.numbers import measured
from dpscale.present.text.words import Terms, in_order, listed, ok, plural, state
from dpscale.schemas.settings import JsonValues
from dpscale.strategies.known import BASELINE
from dpscale.tables.column import PERCENT
from dpscale.tables.row import grouped, in_groups
from dpscale.tables.study import AbsencesRow, MissingRow
from dpscale.tables.tables import Tables
from dpscale.tables.timing import TimesRow
from dpscale.vocabulary.states import STATES


def render(
    study: JsonValues,
    tables: Tables,
    audit_page: str = "",
    charts: Mapping[str, Chart] | None = None,
    per_gpu_hour: float | None = None,
    recorded_page: str = "",
) -> str:
    """The page of a study as HTML.

    `study` is the complete study mapping; `tables` holds all tables, as read from their CSV files; `audit_page` is the
    file name of the page of other people's figures, if there is one; `charts` are drawn unless given; an hour of a
    device costs `per_gpu_hour`, if that is known; `recorded_page` is the file name of a study on GPUs that a study on a
    CPU leads to. Pure, but for reading its own template.
    """
    terms = Terms.of(study, tables)
    answer = answer_of(tables, per_gpu_hour)
    described = set_up(study, tables.records, tables.environments, tables.times, tables.runs, tables.bandwidth, terms)
    rows = AssignmentRows.of(tables)
    return fill(
        "page.html.j2",
        study=study,
        terms=terms,
        states=STATES.values(),
        set_up=described,
        answer=first_screen(answer, terms),
        worth=measured(study["answer"]["worth_from"], PERCENT, digits=2),
        target=measured(study["training"]["target_accuracy"], PERCENT, digits=2),
        by_chance=by_chance(tables.counts),
        first_cautions=first_cautions(tables, terms),
        cautions=other_cautions(tables, terms),
        findings=findings(tables, terms),
        missing_cells=missing_cells(tables.missing, terms),
        absences=absences(rows.times, tables.absences, terms),
        witnesses=witnesses(tables.communication, tables.answer, terms),
        public_best=beside_the_public_best(tables.variants, terms),
        views=views(tables, terms),
        audit_page=audit_page,
        recorded_page=recorded_page,
        sheets=sheets(rows, terms),
        **(charts or charts_of(study, tables, terms)),
    )


def charts_of(study: JsonValues, tables: Tables, terms: Terms) -> dict[str, Chart]:
    """Return the charts of the page, by their names in its template. Each is given its rows, in the order in which
    people read them."""
    baseline, target = study["training"]["baseline"], study["training"]["target_accuracy"]
    gains = in_order(row for row in ok(tables.speedup) if row.scaling == "weak")
    on_one = in_order(row for row in ok(tables.variants) if row.strategy == BASELINE)
    return {
        "speedup": timing.speedup(tables.answer, gains, tables.blocks, terms),
        "efficiency": timing.efficiency(tables.answer, gains, tables.blocks, study["answer"]["worth_from"], terms),
        "ladders": communication.ladders(in_order(tables.ladder), terms),
        "bus_bandwidth": communication.bus_bandwidth(tables.collectives, terms),
        "variants_on_one": timing.variants_on_one(on_one, terms),
        "test_accuracy": training.test_accuracy(tables.training_curves, baseline, target, terms),
    }


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

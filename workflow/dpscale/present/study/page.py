"""The page: everything a study says, in one HTML file that needs nothing else."""

from collections.abc import Mapping
from typing import Any

from dpscale.analyse.answer.answer import answer_of
from dpscale.present.charts.charts import charts_of
from dpscale.present.charts.picture import Chart
from dpscale.present.findings.answer import first_screen
from dpscale.present.findings.cautions import by_chance, first_cautions, other_cautions
from dpscale.present.findings.findings import beside_the_public_best, findings, witnesses
from dpscale.present.findings.set_up import set_up
from dpscale.present.handin.assignment import sheets
from dpscale.present.handin.rows import AssignmentRows
from dpscale.present.study import not_run
from dpscale.present.study.views import views
from dpscale.present.text.html import fill
from dpscale.present.text.numbers import measured
from dpscale.present.text.words import Terms
from dpscale.tables.column import PERCENT
from dpscale.tables.tables import Tables
from dpscale.vocabulary.states import STATES


def render(
    study: Mapping[str, Any],
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
        missing_cells=not_run.missing_cells(tables.missing, terms),
        absences=not_run.absences(rows.times, tables.absences, terms),
        witnesses=witnesses(tables.communication, tables.answer, terms),
        public_best=beside_the_public_best(tables.variants, terms),
        views=views(tables, terms),
        audit_page=audit_page,
        recorded_page=recorded_page,
        sheets=sheets(rows, terms),
        **(charts or charts_of(study, tables, terms)),
    )

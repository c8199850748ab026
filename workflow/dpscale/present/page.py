"""The page: everything a study says, in one HTML file that needs nothing else."""

from collections.abc import Mapping
from operator import attrgetter

from dpscale.analyse.answer.answer import answer_of
from dpscale.present.charts.charts import charts_of
from dpscale.present.charts.picture import Chart
from dpscale.present.findings.answer import first_screen
from dpscale.present.findings.cautions import by_chance, first_cautions, other_cautions
from dpscale.present.findings.findings import findings
from dpscale.present.findings.set_up import devices, environment_facts, network, study_facts
from dpscale.present.handin_assignment import AssignmentRows, sheets
from dpscale.present.shown_tables import views
from dpscale.present.text.html import fill
from dpscale.present.text.numbers import measured
from dpscale.present.text.words import Terms
from dpscale.schemas.settings import JsonValues
from dpscale.tables.column import PERCENT
from dpscale.tables.row import in_groups
from dpscale.tables.tables import Tables
from dpscale.vocabulary.states import STATES


def render(
    study: JsonValues,
    tables: Tables,
    audit_page: str = "",
    charts: Mapping[str, Chart] | None = None,
) -> str:
    """The page of a study as HTML.

    `study` is the complete study mapping; `tables` holds all tables, as read from their CSV files; `audit_page` is the
    file name of the page of other people's figures, if there is one; `charts` are drawn unless given.
    Pure, but for reading its own template.
    """
    terms = Terms.of(study, tables)
    answer = answer_of(tables)
    return fill(
        "page.html.j2",
        study=study,
        terms=terms,
        states=STATES.values(),
        network=network(study),
        devices=devices(study, tables.records, tables.environments, terms),
        study_facts=study_facts(study, tables.records, tables.bandwidth, terms),
        environment_facts=environment_facts(tables.environments, terms),
        answer=first_screen(answer, terms),
        worth=measured(study["answer"]["worth_from"], PERCENT, digits=2),
        target=measured(study["training"]["target_accuracy"], PERCENT, digits=2),
        by_chance=by_chance(tables.counts, terms),
        first_cautions=first_cautions(tables, terms),
        cautions=other_cautions(tables, terms),
        findings=findings(tables, terms),
        missing_cells=in_groups(tables.missing, attrgetter("status", "reason", "log")),
        views=views(tables, terms),
        audit_page=audit_page,
        sheets=sheets(AssignmentRows.of(tables), terms),
        **(charts or charts_of(study, tables, terms)),
    )

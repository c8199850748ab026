"""The page: everything a study says, in one HTML file that needs nothing else."""

from collections.abc import Iterable, Mapping
from typing import Any

from dpscale.analyse.answer.answer import answer_of
from dpscale.analyse.answer.counts import INTERVALS_USED, MISSED_OF_100
from dpscale.analyse.timing.times import WORTH
from dpscale.present.charts.chart import Chart
from dpscale.present.findings.answer import first_screen
from dpscale.present.findings.cautions import first_cautions, other_cautions
from dpscale.present.findings.findings import findings
from dpscale.present.findings.forecast import forecast_said
from dpscale.present.findings.scaling import profiler_left_out
from dpscale.present.findings.variants import beside_the_public_best
from dpscale.present.handin import assignment
from dpscale.present.handin.files import files
from dpscale.present.handin.report import report
from dpscale.present.study import environment_facts, not_run
from dpscale.present.study.charts import charts_of
from dpscale.present.study.views import views
from dpscale.present.text.downloads import zip_link
from dpscale.present.text.html import fill
from dpscale.present.text.numbers import measured
from dpscale.present.text.words import Terms, dates, plural
from dpscale.tables.answer import CountsRow
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
    return fill(
        "page.html.j2",
        study=study,
        terms=terms,
        states=STATES.values(),
        network=environment_facts.network(study),
        devices=environment_facts.devices(study, tables.records, tables.environments, terms),
        on_cpu=environment_facts.on_cpu(study, tables.environments),
        setup=environment_facts.setup(study, tables.times, tables.bandwidth, terms),
        measured=dates(tables.records),
        commit=environment_facts.commit(tables.records),
        answer=first_screen(answer_of(tables), terms, per_gpu_hour),
        worth=measured(WORTH, PERCENT, digits=2),
        target=measured(study["training"]["target_accuracy"], PERCENT, digits=2),
        cautions=other_cautions(tables, terms),
        first_cautions=first_cautions(tables, terms),
        environment_facts=environment_facts.environment_facts(tables.environments, terms),
        findings=findings(tables, terms),
        by_chance=_by_chance(tables.counts),
        absences=not_run.absences(tables.times, tables.absences, terms),
        missing_cells=not_run.missing_cells(tables.missing, terms),
        profiler_left_out=profiler_left_out(tables.communication),
        forecast=forecast_said(tables, terms),
        public_best=beside_the_public_best(tables.variants, terms),
        views=views(tables, terms),
        audit_page=audit_page,
        recorded_page=recorded_page,
        sheets=assignment.sheets(tables, terms),
        handin_link=_handin_link(study, tables, terms),
        **(charts or charts_of(study, tables, terms)),
    )


def _by_chance(counts: Iterable[CountsRow]) -> str:
    """How many intervals are looked at, and how many of so many miss; "" where there is none."""
    looked_at = next((row.number for row in counts if row.what == INTERVALS_USED), None)
    if not looked_at:
        return ""
    return (
        f"Findings are chosen from {plural(looked_at, 'interval')} of 95 %. Of 100 such intervals, {MISSED_OF_100} "
        "miss the true value by chance alone."
    )


def _handin_link(study: Mapping[str, Any], tables: Tables, terms: Terms) -> str:
    """The files to hand in, as a link that holds them; "" where there is no table."""
    made = report(study, tables, terms)
    return zip_link(files(made)) if made.sheets else ""

"""The page: everything a study says, in one HTML file that needs nothing else."""

from collections.abc import Iterable, Mapping
from typing import Any

from dpscale.analyse.answer.counts import INTERVALS_USED, MISSED_OF_100
from dpscale.analyse.timing.times import WORTH
from dpscale.present import advice
from dpscale.present.cautions import cautions, first_cautions
from dpscale.present.charts import communication as communication_charts
from dpscale.present.charts import forecast as forecast_charts
from dpscale.present.charts import timing as timing_charts
from dpscale.present.charts import training as training_charts
from dpscale.present.charts import variants as variant_charts
from dpscale.present.findings.communication import profiler_left_out
from dpscale.present.findings.findings import findings, key_findings
from dpscale.present.findings.variants import beside_the_public_best, communication_weighs_more
from dpscale.present.handin import assignment
from dpscale.present.study import coverage, environment_facts, variant_views, views
from dpscale.present.study.general import general
from dpscale.present.text.html import fill
from dpscale.present.text.numbers import measured
from dpscale.present.text.words import Terms, dates, plural
from dpscale.present.verdict import verdict
from dpscale.tables.answer import CountsRow
from dpscale.tables.column import PERCENT
from dpscale.tables.quantities import BANDWIDTH, COMMUNICATION, EFFICIENCY, MFU, SCOPE, SPEEDUP
from dpscale.tables.tables import Tables

# What shows beside a term, by the end of its anchor under Definitions.
_DEFINITIONS = {
    "speedup": SPEEDUP.definition,
    "efficiency": EFFICIENCY.definition,
    "communication-time": COMMUNICATION.definition,
    "bandwidth": BANDWIDTH.definition,
    "scopes": SCOPE.definition,
    "mfu": MFU.definition,
}


def render(study: Mapping[str, Any], given: Mapping[str, Any], audit_page: str = "") -> str:
    """The page of a study as HTML.

    `study` is the complete study mapping; `tables` holds all tables, as read from their CSV files; `audit_page` is the
    file name of the page of other people's figures, if there is one. Pure, but for reading its own template.
    """
    tables = Tables.of(given)
    terms = Terms.of(study, tables)
    answer = verdict(tables, terms)
    found = findings(tables, terms)
    baseline, target = study["training"]["baseline"], study["training"]["target_accuracy"]
    return fill(
        "page.html.j2",
        study=study,
        terms=terms,
        definitions={anchor: terms.worded(definition) for anchor, definition in _DEFINITIONS.items()},
        network=environment_facts.network(study),
        devices=environment_facts.devices(study, tables.records, tables.environments, terms),
        rehearsal=study["device"] == "cpu",
        setup=environment_facts.setup(study, tables.times, tables.bandwidth, terms),
        measured=dates(tables.records),
        commit=environment_facts.commit(tables.records),
        verdict=answer,
        tiles=advice.tiles(tables, answer.series, terms),
        why=advice.why(tables, answer.series, terms),
        advices=advice.advices(tables, answer.series, terms),
        causes=views.causes(tables.causes, terms),
        worth=measured(WORTH, PERCENT, digits=2),
        target=measured(target, PERCENT, digits=2),
        cautions=cautions(study, tables),
        first_cautions=first_cautions(study, tables),
        environment_facts=environment_facts.environment_facts(
            tables.environments, tables.collectives, tables.peer_copies, terms
        ),
        findings=found,
        key_findings=key_findings(found),
        by_chance=_by_chance(tables.counts),
        grid=coverage.coverage(tables.times, terms),
        absences=coverage.absences(tables.times, tables.absences, terms),
        missing_cells=coverage.missing_cells(tables.missing, terms),
        epoch_time=timing_charts.epoch_time(tables.times, terms),
        efficiency=timing_charts.efficiency(tables.speedup, terms),
        strong=views.strong(tables.speedup, terms),
        general=general(tables.times, tables.speedup, terms),
        times=views.times(tables.times, terms),
        speedup=views.speedup(tables.speedup, terms),
        scopes=views.scopes(tables.scopes, terms),
        communication=views.communication(tables.communication, terms),
        estimates=views.estimates(tables.communication, terms),
        ladder=views.ladder(tables.ladder, terms),
        ladders=communication_charts.ladders(tables.ladder, terms),
        steps_beside_one=communication_charts.steps_beside_one(tables.times, tables.communication, terms),
        steps=views.steps(tables.steps, terms),
        profiler_left_out=profiler_left_out(tables.communication),
        step_parts=communication_charts.steps(tables.steps, terms),
        estimators=communication_charts.estimates(tables.communication, terms),
        predicted=forecast_charts.held_out(tables.forecast, terms),
        expected=forecast_charts.forecast(tables.forecast, tables.speedup, study["dataset"]["images"], terms),
        phases=views.phases(tables.steps, terms),
        bandwidth=views.bandwidth(tables.bandwidth, terms),
        collectives=views.collectives(tables.collectives, terms),
        bus_bandwidth=communication_charts.bus_bandwidth(tables.collectives, tables.bandwidth, terms),
        bus_bandwidths=views.bus_bandwidth(tables.collectives, terms),
        laws=views.laws(tables.laws, terms),
        published_scaling=views.published_scaling(tables.published_scaling, terms),
        allreduce_models=views.allreduce_models(tables.allreduce_models, terms),
        held_out=views.held_out(tables.forecast, terms),
        scored=any(row.relative_error.is_known for row in tables.forecast),
        forecast=views.forecast(tables.forecast, terms),
        critical_batch=views.critical_batch(tables.critical_batch, terms),
        training_loss=training_charts.training_loss(tables.training_curves, baseline, terms),
        test_accuracy=training_charts.test_accuracy(tables.training_curves, tables.training, baseline, target, terms),
        training_summary=views.training_summary(tables.training_summary, terms),
        training=views.training(tables.training_curves, tables.training, terms),
        frontier=training_charts.frontier(tables.frontier, target, terms, ["training_s"]),
        frontier_of_costs=training_charts.frontier(tables.frontier, target, terms, ["gpu_s", "energy_j"]),
        arms_by_cost=views.frontier(tables.frontier, terms),
        twins=views.twins(tables.twins, terms),
        training_evidence=views.training_evidence(tables.training_evidence, terms),
        variants=variant_views.variants(tables.variants, terms),
        variant_steps=variant_charts.steps(tables.variants, terms),
        variant_limits=variant_views.limits(tables.variants, terms),
        variant_speedups=variant_charts.speedups(tables.variants, terms),
        kernels=variant_views.kernels(tables.kernels, terms),
        kernel_shares=variant_charts.kernels(tables.kernels, tables.variants, terms),
        variant_epochs=variant_charts.epochs(tables.variants, terms),
        variant_costs=variant_views.costs(tables.variants, terms),
        one_gpu=variant_views.one_gpu(tables.one_gpu, terms),
        public_best=beside_the_public_best(tables.variants, terms),
        weighs_more=communication_weighs_more(tables.variants, terms),
        environments=views.environments(tables.environments, terms),
        records=views.records(tables.origins, tables.records, terms),
        rejected=views.rejected(tables.rejected, terms),
        audit_page=audit_page,
        sheets=assignment.sheets(tables, terms),
    )


def _by_chance(counts: Iterable[CountsRow]) -> str:
    """How many intervals are looked at, and how many of so many miss; "" where there is none."""
    looked_at = next((row.number for row in counts if row.what == INTERVALS_USED), None)
    if not looked_at:
        return ""
    return (
        f"Findings and verdict are chosen from {plural(looked_at, 'interval')} of 95 %: of 100 such intervals, "
        f"{MISSED_OF_100} would miss the true value by chance alone."
    )

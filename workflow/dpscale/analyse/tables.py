"""The tables of a study, one row a configuration, from its plan and its records."""

from collections.abc import Sequence
from dataclasses import replace

from dpscale.analyse.answer.advice import advice_rows
from dpscale.analyse.answer.answer import Asked, answer_rows
from dpscale.analyse.answer.claims import counts_rows
from dpscale.analyse.causes_of_study import causes_rows
from dpscale.analyse.communication import bandwidth_row, collectives_rows, communication_row, ladders
from dpscale.analyse.memory import memory_rows
from dpscale.analyse.points import block_rows, points_of, speedup_row
from dpscale.analyse.records import (
    absences_rows,
    by_place,
    environment_rows,
    environments_of,
    missing_rows,
    placed,
    record_row,
)
from dpscale.analyse.times import (
    compared_points,
    run_rows,
    scopes_rows,
    servers_rows,
    strategy_pairs_rows,
    times_row,
)
from dpscale.analyse.training import curve_rows, results_of, summary_rows, training_rows
from dpscale.analyse.variants import (
    Variant,
    beside_base,
    network_rows,
    one_gpu_rows,
    roofline_rows,
    variant_rows,
    variants_of,
    with_further_points,
)
from dpscale.plan.cells import CollectivesCell, CommunicationCell, TimingCell, TrainingCell, VariantCell
from dpscale.plan.plan import plan
from dpscale.plan.study import BASE, Study
from dpscale.records.collect import Collected
from dpscale.records.facts import AuditRecord
from dpscale.records.kinds import CollectivesRecord, CommunicationRecord, TimingRecord, TrainingRecord
from dpscale.tables.study import AuditTables, RejectedRow
from dpscale.tables.tables import Tables

_ASKED = Asked()


def build_tables(study: Study, collected: Collected, audits: Sequence[AuditRecord] = ()) -> Tables:
    """Return all tables of a study, stage by stage, each of what those before it made; pure."""
    network = collected.network
    environments = environments_of(collected.records)
    records = placed(collected.records, environments)
    timed = by_place(records, TimingCell, TimingRecord, lambda cell: cell.configuration)
    varied = by_place(records, VariantCell, TimingRecord, lambda cell: (cell.variant, cell.configuration))
    steps = by_place(records, CommunicationCell, CommunicationRecord, lambda cell: cell.configuration)
    swept = by_place(records, CollectivesCell, CollectivesRecord, lambda cell: cell.gpus)
    trained = results_of(study, by_place(records, TrainingCell, TrainingRecord, lambda cell: cell.arm))

    planned = plan(study)
    missing = missing_rows(planned.all_cells, collected)
    own_points = points_of(study, planned, timed, [row for row in missing if row.kind == "timing" and not row.variant])
    points, with_other_settings = with_further_points(study, own_points, variants_of(study, varied, missing))
    networks = [item for item in with_other_settings if not study.settings.same_network(item.study.settings)]
    variants = beside_base(study, points, [item for item in with_other_settings if item not in networks])
    compared = list(compared_points(study, points))
    times = [times_row(study, point, network) for point in points.values()]

    collectives = list(collectives_rows(swept, network, study["strategies"]))
    every_point = [*points.values(), *(point for variant in with_other_settings for point in variant.points.values())]
    inferred = [point.weak for point in points.values() if point.scope == "compute" and point.configuration.gpus > 1]
    tables = Tables(
        environments=list(environment_rows(collected.records, environments)),
        records=[record_row(cell, record) for cell, record in records.items()],
        rejected=[RejectedRow(path=cell.path, reason=reason) for cell, reason in collected.rejected.items()],
        missing=missing,
        training=list(training_rows(trained)),
        training_summary=list(summary_rows(study, planned, missing, trained)),
        times=times,
        speedup=[speedup_row(series, comparison) for series, comparison in compared],
        runs=[
            *run_rows(points.values()),
            *(row for variant in with_other_settings for row in run_rows(variant.points.values(), variant.name)),
        ],
        blocks=list(block_rows(compared)),
        servers=list(servers_rows(every_point, records.values())),
        variants=list(variant_rows(variants, network)),
        one_gpu=list(one_gpu_rows(variants)),
        networks=list(network_rows(beside_base(study, points, networks))),
        memory=list(memory_rows(study.settings, records, network)),
        roofline=list(roofline_rows([Variant(BASE, study, points), *with_other_settings])),
        ladder=list(ladders(steps, points)),
        collectives=collectives,
        communication=[communication_row(comparison, steps, network, collectives) for comparison in inferred],
        bandwidth=[bandwidth_row(study, comparison, collectives) for comparison in inferred],
        **AuditTables.of(audits)._asdict(),
    )
    return complete(tables, Asked.of(study, collected.records))


def complete(tables: Tables, asked: Asked = _ASKED) -> Tables:
    """With what follows from these rows and from nothing else: more columns of them, and tables made of others.
    `asked` is what the study asks of its answer."""
    tables = replace(
        tables,
        scopes=list(scopes_rows(tables.times)),
        strategy_pairs=list(strategy_pairs_rows(tables.times)),
        training_curves=list(curve_rows(tables.training, tables.training_summary)),
        absences=absences_rows(tables.times),
    )
    tables = replace(tables, answer=list(answer_rows(tables, asked)))
    tables = replace(tables, causes=causes_rows(tables))
    tables = replace(tables, advice=advice_rows(tables, tables.answer))
    return replace(tables, counts=list(counts_rows(tables)))

"""The tables of a study, one row a configuration, from its plan and its records."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dpscale.analyse import environments
from dpscale.analyse.advice import advice_rows, answer_rows
from dpscale.analyse.answer.causes_of_study import causes_rows
from dpscale.analyse.answer.counts import counts_rows
from dpscale.analyse.communication_tables import (
    Measurements,
    bandwidth_row,
    collectives_rows,
    communication_row,
    estimates,
    ladders,
    steps_rows,
)
from dpscale.analyse.derived import (
    absences_rows,
    completed_communication,
    completed_speedup,
    completed_steps,
    completed_times,
    costs_rows,
    origins_rows,
    peer_copies_rows,
    scopes_rows,
    strategy_pairs_rows,
    with_headline,
)
from dpscale.analyse.forecast.basis import bases
from dpscale.analyse.forecast.published import published_scaling_rows
from dpscale.analyse.forecast.rows import critical_batch_rows, forecast_rows, laws_rows, model_rows
from dpscale.analyse.points import Row, compare, points_of, why_missing
from dpscale.analyse.runs import block_rows, component_rows, run_rows, servers_of
from dpscale.analyse.times import series, speedup_row, times_row
from dpscale.analyse.training.epochs import curve_rows, evidence_rows, order_rows, training_rows
from dpscale.analyse.training.frontier import frontier_rows
from dpscale.analyse.training.results import results_of
from dpscale.analyse.training.summary import summary_rows
from dpscale.analyse.training.twins import twin_rows
from dpscale.analyse.variants.kernels import kernel_rows
from dpscale.analyse.variants.measured import variants_of
from dpscale.analyse.variants.one_gpu import one_gpu_rows
from dpscale.analyse.variants.variants import variant_rows
from dpscale.audit import tables as published_audits
from dpscale.plan.cells import AnyCell
from dpscale.plan.plan import batches_per_gpu, plan
from dpscale.plan.study import Study
from dpscale.records.collect import Collected
from dpscale.records.cost import gpu_seconds
from dpscale.records.files import Record
from dpscale.tables.tables import TABLES, Tables


def build_tables(study: Study, collected: Collected, audits: Sequence[Record] = ()) -> Tables:
    """All tables of a study; pure."""
    letters = environments.environment_letters(collected.records)
    points = points_of(study, collected, letters)
    measured = Measurements.of(collected, letters)
    weak = list(series(points, set(batches_per_gpu(study["batch_per_gpu"], study.epoch_images)), weak=True))
    strong = list(series(points, set(study["strong_scaling_global_batch"]), weak=False))
    inferred = [
        compare(points, point, point.configuration.batch_per_gpu)
        for point in points.values()
        if point.scope == "compute" and point.configuration.gpus > 1
    ]
    estimated = [(compared, estimates(compared, measured)) for compared in inferred]
    grounds = list(bases(points, measured))
    trained = results_of(study, collected, letters)
    variants = variants_of(study, collected, letters, points)
    servers = servers_of(collected.records.values())
    rows: dict[str, Iterable[Any]] = {
        "times": [times_row(study, point, collected.network) for point in points.values()],
        "variants": variant_rows(variants, collected.network, servers),
        "one_gpu": one_gpu_rows(variants),
        "kernels": kernel_rows(variants),
        "speedup": [
            *(speedup_row("weak", compared) for compared in weak),
            *(speedup_row("strong", compared) for compared in strong),
        ],
        "communication": [communication_row(compared, found, measured) for compared, found in estimated],
        "bandwidth": [bandwidth_row(study, compared, found, measured) for compared, found in estimated],
        "ladder": ladders(measured, points),
        "steps": steps_rows(measured),
        "collectives": collectives_rows(measured, servers),
        "laws": laws_rows(compared for compared in weak if compared.blocks),
        "published_scaling": published_scaling_rows(audits),
        "allreduce_models": (row for basis in grounds for row in model_rows(basis)),
        "forecast": (row for basis in grounds for row in forecast_rows(study, basis)),
        "critical_batch": (row for basis in grounds for row in critical_batch_rows(basis, measured, estimated)),
        "training": training_rows(trained),
        "training_summary": summary_rows(study, collected, trained),
        "training_evidence": evidence_rows(trained),
        "frontier": frontier_rows(trained),
        "twins": twin_rows(study, trained),
        "runs": run_rows(points.values(), servers),
        "blocks": [*block_rows("weak", weak), *block_rows("strong", strong)],
        "variance_components": component_rows(points.values(), servers),
        "environments": environments.rows(collected.records, letters),
        "records": [_record_row(cell, record, letters) for cell, record in collected.records.items()],
        "rejected": [{"path": cell.path, "reason": reason} for cell, reason in collected.rejected.items()],
        "missing": [_missing_row(cell, collected) for cell in plan(study).all_cells if cell not in collected.records],
    }
    return complete(Tables.of_rows({**rows, **published_audits.rows(audits)._asdict()}))


def complete(tables: Tables) -> Tables:
    """With what follows from these rows and from nothing else: more columns of them, and tables made of others."""
    tables = replace(
        tables,
        times=[completed_times(row) for row in tables.times],
        speedup=[completed_speedup(row) for row in tables.speedup],
        communication=[completed_communication(row) for row in tables.communication],
        bandwidth=[with_headline(row) for row in tables.bandwidth],
        steps=[completed_steps(row) for row in tables.steps],
        variants=[with_headline(row) for row in tables.variants],
        one_gpu=[with_headline(row) for row in tables.one_gpu],
    )
    tables = replace(
        tables,
        scopes=list(scopes_rows(tables.times, tables.speedup, tables.runs)),
        strategy_pairs=list(strategy_pairs_rows(tables.times)),
        peer_copies=list(peer_copies_rows(tables.collectives)),
        training_curves=list(curve_rows(tables.training, tables.training_summary)),
        training_order=list(order_rows(tables.training_evidence)),
        costs=list(costs_rows(tables.records)),
        origins=list(origins_rows(tables.records)),
        absences=list(absences_rows(tables.times)),
    )
    # These take rows as mappings still.
    makers: Mapping[str, Callable[[Any], Iterable[Any]]] = {
        "answer": answer_rows,
        "causes": lambda rows: causes_rows(Tables(**rows)),
        "advice": advice_rows,
    }
    for name, make in makers.items():
        rows: dict[str, Any] = {table: getattr(tables, table) for table in TABLES}
        tables = Tables.of_rows({**rows, name: make(rows)})
    return replace(tables, counts=list(counts_rows(tables)))


def expected_cells(study: Study) -> tuple[AnyCell, ...]:
    """The cells whose records count: also those that this machine has too few GPUs for, measured elsewhere."""
    return plan(study.on_any_machine()).all_cells


def _missing_row(cell: AnyCell, collected: Collected) -> Row:
    status, reason = why_missing(cell, collected)
    return {
        "path": cell.path,
        "kind": cell.kind,
        **cell.labels,
        "status": status,
        "reason": reason,
        "log": collected.failures[cell].log if cell in collected.failures else None,
    }


def _record_row(cell: AnyCell, record: Record, letters: Mapping[AnyCell, str]) -> Row:
    readings = [*record["sensors"]["before"], *(record["sensors"]["after"] or [])]
    others = [len(reading["other_processes"]) for reading in readings if reading["other_processes"] is not None]
    epochs = list(_watched(record))
    others += [epoch["other_processes"] for epoch in epochs if epoch["other_processes"] is not None]
    slowed = _slowed(epochs)
    images = record.get("dataset", {})
    return {
        "path": cell.path,
        "kind": cell.kind,
        **cell.labels,
        "status": record["status"],
        "environment": letters[cell],
        "started_at": record["started_at"],
        "finished_at": record["finished_at"],
        "gpu_s": gpu_seconds(cell, record),
        "host": environments.joined(environments.hosts(record)),
        "git_commit": record["provenance"]["git_commit"],
        "git_dirty": record["provenance"]["git_dirty"],
        "job_id": record["provenance"]["job_id"],
        "gpu_uuids": environments.joined(
            gpu["uuid"] for node in record.get("nodes", [record]) for gpu in node["hardware"]["gpus"]
        ),
        "throttle_reasons": environments.joined(_throttle_reasons(readings, epochs)),
        "slowed_s": max(slowed.values(), default=None),
        "slowed_by": environments.joined(policy for (_, policy), seconds in slowed.items() if seconds > 0),
        "stolen_share": _stolen_share(record, epochs),
        "other_processes": max(others, default=None),
        "dataset_source": images.get("source"),
        "synthetic": images.get("synthetic"),
        "dataset_sha256": images.get("sha256"),
    }


def _watched(record: Record) -> Iterator[Mapping[str, Any]]:
    """What was seen during the record's timed epochs, those of its baseline too. Version 1 has none of it."""
    scopes = [*(record.get("scopes") or {}).values()]
    for alone in record.get("alone") or ():
        scopes += [end for ends in alone["scopes"].values() for end in ends.values()]
    for scope in scopes:
        yield from scope.get("watched") or ()


def _throttle_reasons(readings: Iterable[Mapping[str, Any]], epochs: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Why clocks were held down in the timed epochs. Readings before and after speak only for a record whose epochs
    nobody watched: after them a timing cell loads its GPU to the full, to see what the chip reaches."""
    inside = [gpu["clock_event_reasons"] for epoch in epochs for gpu in epoch["gpus"]]
    for reasons in inside or [reading["throttle_reasons"] for reading in readings]:
        yield from reasons or ()


def _slowed(epochs: Iterable[Mapping[str, Any]]) -> dict[tuple[int, str], float]:
    """For how long every GPU's clocks were kept down in these epochs, in s, by the policy that did."""
    slowed: dict[tuple[int, str], float] = defaultdict(float)
    for epoch in epochs:
        for number, gpu in enumerate(epoch["gpus"]):
            for policy, seconds in (gpu["slowed_s"] or {}).items():
                slowed[number, policy] += seconds
    return slowed


def _stolen_share(record: Record, epochs: Iterable[Mapping[str, Any]]) -> float | None:
    """The most that a hypervisor took away in an epoch, over the cores that the cell was given."""
    stolen = [epoch["host"]["stolen_cores"] for epoch in epochs if epoch["host"]]
    return max(stolen) / record["hardware"]["cpu_cores"] if stolen else None

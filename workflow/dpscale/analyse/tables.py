"""The tables of a study, one row a configuration, from its plan and its records."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np
import pandas as pd

from dpscale.analyse import environments
from dpscale.analyse.columns import COLUMNS, TEXT_COLUMNS
from dpscale.analyse.communication_tables import (
    Measurements,
    bandwidth_row,
    collectives_rows,
    communication_row,
    estimates,
    ladders,
    steps_rows,
)
from dpscale.analyse.derived import with_derived
from dpscale.analyse.forecast_tables import bases, critical_batch_rows, forecast_rows, laws_rows, model_rows
from dpscale.analyse.peaks import mfu, peak_flop_s, peak_source
from dpscale.analyse.points import Comparison, Point, Points, Row, compare, figures, points_of, why_missing
from dpscale.analyse.published_scaling import published_scaling_rows
from dpscale.analyse.runs import block_rows, component_rows, outlier_words, run_rows
from dpscale.analyse.training_tables import evidence_rows, results_of, summary_rows, training_rows
from dpscale.audit import tables as published_audits
from dpscale.formulas import scaling
from dpscale.formulas.statistics import Estimate, derive_in_blocks, repeatability
from dpscale.plan.cells import AnyCell
from dpscale.plan.plan import batches_per_gpu, plan
from dpscale.plan.study import Study
from dpscale.records.collect import Collected
from dpscale.records.cost import gpu_seconds
from dpscale.records.files import Record
from dpscale.vocabulary.strategies import strategy

# Characters that HTML and XML do not allow, or that turn the direction of text and its meaning with it.
_CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]"
)


def read_table(csv: Path | TextIO) -> pd.DataFrame:
    """A table from its CSV file, for people to read.

    Only an empty entry is a missing one: a host may be called `null`, or `007`. Control characters are named, such as
    `[U+202E]`.
    """
    table = pd.read_csv(csv, dtype=dict(TEXT_COLUMNS), keep_default_na=False, na_values=[""])
    for name in table.columns.intersection(list(TEXT_COLUMNS)):
        table[name] = table[name].map(with_names, na_action="ignore").astype(str)
    return table


def with_names(text: str) -> str:
    """`text` with a name for every control character in it that could not be seen, or would turn what follows."""
    return _CONTROLS.sub(lambda character: f"[U+{ord(character[0]):04X}]", text)


def build_tables(study: Study, collected: Collected, audits: Sequence[Record] = ()) -> dict[str, pd.DataFrame]:
    """All tables of a study by name, with the columns of `columns.COLUMNS`; pure."""
    letters = environments.environment_letters(collected.records)
    points = points_of(study, collected, letters)
    measured = Measurements.of(collected, letters)
    weak = list(_series(points, set(batches_per_gpu(study["batch_per_gpu"], study.epoch_images)), weak=True))
    strong = list(_series(points, set(study["strong_scaling_global_batch"]), weak=False))
    inferred = [
        compare(points, point, point.configuration.batch_per_gpu)
        for point in points.values()
        if point.scope == "compute" and point.configuration.gpus > 1
    ]
    estimated = [(compared, estimates(compared, measured)) for compared in inferred]
    grounds = list(bases(points, measured))
    trained = results_of(study, collected, letters)
    rows: dict[str, Iterable[Row]] = {
        "times": [_times_row(study, point, collected.network) for point in points.values()],
        "speedup": [
            *(_speedup_row("weak", compared) for compared in weak),
            *(_speedup_row("strong", compared) for compared in strong),
        ],
        "communication": [communication_row(compared, found, measured) for compared, found in estimated],
        "bandwidth": [bandwidth_row(study, compared, found, measured) for compared, found in estimated],
        "ladder": ladders(measured, points),
        "steps": steps_rows(measured),
        "collectives": collectives_rows(measured),
        "laws": laws_rows(compared for compared in weak if compared.blocks),
        "published_scaling": published_scaling_rows(audits),
        "allreduce_models": (row for basis in grounds for row in model_rows(basis)),
        "forecast": (row for basis in grounds for row in forecast_rows(study, basis)),
        "critical_batch": (row for basis in grounds for row in critical_batch_rows(basis, measured, estimated)),
        "training": training_rows(trained),
        "training_summary": summary_rows(study, collected, trained),
        "training_evidence": evidence_rows(trained),
        "runs": run_rows(points.values(), collected.records),
        "blocks": [*block_rows("weak", weak), *block_rows("strong", strong)],
        "variance_components": component_rows(points.values(), collected.records),
        "environments": environments.rows(collected.records, letters),
        "records": [_record_row(cell, record, letters) for cell, record in collected.records.items()],
        "rejected": [{"path": cell.path, "reason": reason} for cell, reason in collected.rejected.items()],
        "missing": [_missing_row(cell, collected) for cell in plan(study).all_cells if cell not in collected.records],
    }
    all_rows = {**with_derived(rows), **published_audits.rows(audits)}
    tables = {name: pd.DataFrame(all_rows[name], columns=COLUMNS[name]) for name in COLUMNS}
    # Whole numbers stay whole beside missing ones. Most tables of a small study are empty, and nothing changes in them.
    return {name: table if table.empty else table.convert_dtypes() for name, table in tables.items()}


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


def _times_row(study: Study, point: Point, network: Record | None) -> Row:
    row = {**point.keys, "status": point.status, "reason": point.reason, "runs": len(point.records), "n": point.n}
    if point.epoch is None or point.step is None:
        return row
    results = point.results
    images_per_s = derive_in_blocks(
        lambda epoch_s: scaling.throughput(study.epoch_images, epoch_s), point.epoch, scale="log"
    )
    work = _mfu(study, point, images_per_s, network)
    found = {"epoch_s": point.epoch, "step_s": point.step, "images_per_s": images_per_s, **work.figures}
    return {
        **row,
        **figures(found),
        "repeatability": repeatability([result["epoch_s"] for result in results]),
        "outliers": outlier_words(point.epoch),
        "first_timed_epoch_s": float(np.median([result["epoch_s"][0] for result in results])),
        "loader_processes": _loader_processes(point),
        "steps_per_epoch": results[0]["steps_per_epoch"],
        "full_steps_per_epoch": point.full_steps,
        "peak_memory_bytes": max(
            (peak for result in results for peak in result["peak_memory_bytes"] or []), default=None
        ),
        "energy_j": _median([energy for result in results for energy in result["energy_j"] or []]),
        **work.facts,
    }


def _loader_processes(point: Point) -> int:
    """DataLoader processes of all training processes together. Version 1 of the record does not say how many: every
    training process had as many as its setting."""
    recorded = point.results[0].get("loader_processes")
    if recorded is not None:
        return int(recorded)
    if point.scope == "compute":
        return 0
    configuration = point.configuration
    return strategy(configuration.strategy).processes(configuration.gpus) * int(
        point.measured[0]["settings"]["loader_workers"]
    )


class _Work(NamedTuple):
    """What MFU rests on, and MFU where the peak is known."""

    facts: Row
    figures: Mapping[str, Estimate]


def _mfu(study: Study, point: Point, images_per_s: Estimate, network: Record | None) -> _Work:
    """Work done over work that the GPUs could do at most; without a peak where the GPU's is not known."""
    if network is None:
        return _Work({}, {})
    flop = network["flop_per_image"]["forward_backward"]
    model = point.records[0]["hardware"]["device_model"]
    peak = peak_flop_s(model, study["precision"])
    if peak is None:
        return _Work({"flop_per_image": flop, "peak_source": "unknown"}, {})
    facts = {"flop_per_image": flop, "peak_flop_s": peak, "peak_source": peak_source(model)}
    gpus = point.configuration.gpus
    found = derive_in_blocks(lambda rate: mfu(flop, rate, gpus, peak), images_per_s, scale="log")
    return _Work(facts, {"mfu": found})


def _series(points: Points, batches: set[int], weak: bool) -> Iterator[Comparison]:
    """The points of the weak series of these batches per GPU, or of the strong series of these global batches."""
    for point in points.values():
        configuration = point.configuration
        batch = configuration.batch_per_gpu if weak else configuration.global_batch
        if configuration.gpus > 1 and batch in batches:
            yield compare(points, point, batch)


def _speedup_row(series: str, compared: Comparison) -> Row:
    row = {**compared.row, "scaling": series}
    if not compared.blocks:
        return row
    gpus, speedup = compared.point.configuration.gpus, compared.speedup
    found = {
        "speedup": speedup,
        "efficiency": derive_in_blocks(lambda value: scaling.efficiency(value, gpus), speedup, scale="log"),
    }
    if series == "weak":
        found["speedup_from_steps"] = compared.over_blocks(
            lambda block: scaling.speedup_from_steps(gpus, block.baseline.step_s, block.parallel.step_s),
            "speedup from steps",
            "log",
        )
    return {
        **row,
        "baseline_n": sum(block.baseline_n for block in compared.blocks),
        "epoch_s": compared.over_blocks(lambda block: block.parallel.epoch_s, "epoch", "log").value,
        "baseline_epoch_s": compared.over_blocks(lambda block: block.baseline.epoch_s, "baseline", "log").value,
        **figures(found),
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
        "host": record["hardware"]["host"],
        "git_commit": record["provenance"]["git_commit"],
        "git_dirty": record["provenance"]["git_dirty"],
        "job_id": record["provenance"]["job_id"],
        "gpu_uuids": environments.joined(gpu["uuid"] for gpu in record["hardware"]["gpus"]),
        "throttle_reasons": environments.joined(
            reason
            for reasons in (
                *(reading["throttle_reasons"] for reading in readings),
                *(gpu["clock_event_reasons"] for epoch in epochs for gpu in epoch["gpus"]),
            )
            for reason in reasons or []
        ),
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


def _median(values: Sequence[float]) -> float | None:
    return float(np.median(values)) if values else None

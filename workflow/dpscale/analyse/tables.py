"""The tables of a study, one row a configuration, from its plan and its records."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from dpscale.analyse import audits as published_audits
from dpscale.analyse import bandwidth, communication, scaling
from dpscale.analyse.statistics import Estimate, bootstrap_median, derive
from dpscale.record import Collected, Record
from dpscale.study import Cell, Configuration, NotRun, Study, batches_per_gpu, plan

KEYS = ["strategy", "gpus", "batch_per_gpu", "global_batch", "scope", "environment"]
COLUMNS: dict[str, list[str]] = {
    "times": [
        *KEYS, "status", "reason", "runs", "n", "epoch_s", "epoch_s_low", "epoch_s_high", "first_timed_epoch_s",
        "step_s", "step_s_low", "step_s_high", "images_per_s", "images_per_s_low", "images_per_s_high",
        "steps_per_epoch", "peak_memory_bytes", "energy_j",
    ],
    "speedup": [
        *KEYS, "scaling", "status", "reason", "n", "baseline_n", "epoch_s", "baseline_epoch_s",
        "speedup", "speedup_low", "speedup_high", "efficiency", "efficiency_low", "efficiency_high",
        "speedup_from_steps", "speedup_from_steps_low", "speedup_from_steps_high",
    ],
    "communication": [
        *KEYS, "status", "reason", "n", "epoch_s", "compute_s",
        "communication_s", "communication_s_low", "communication_s_high", "communication_share",
        "step_s", "baseline_step_s",
        "communication_step_s", "communication_step_s_low", "communication_step_s_high",
    ],
    "bandwidth": [
        *KEYS, "status", "reason", "n", "parameters", "allreduce_bytes_per_step", "steps_per_epoch",
        "allreduce_bytes_per_epoch", "communication_s", "communication_s_low", "communication_s_high",
        "bandwidth_gb_s", "bandwidth_gb_s_low", "bandwidth_gb_s_high",
    ],
    "environments": [
        "environment", "device_model", "cpu_model", "driver", "cuda", "cudnn", "nccl", "torch", "torchvision",
        "python", "dataset_sha256", "links", "hosts", "records",
    ],
    "records": [
        "path", "strategy", "gpus", "batch_per_gpu", "run", "status", "environment", "started_at", "finished_at",
        "host", "git_commit", "git_dirty", "job_id", "gpu_uuids", "throttle_reasons", "other_processes",
        "dataset_source", "synthetic", "dataset_sha256",
    ],
    "rejected": ["path", "reason"],
    "missing": ["path", "strategy", "gpus", "batch_per_gpu", "run", "status", "reason", "log"],
    **published_audits.COLUMNS,
}  # fmt: skip

# Columns to read back as text: version 12.10 is not 12.1, and a column without any entry is no column of numbers.
TEXT_COLUMNS = dict.fromkeys(
    (
        *("environment", "status", "reason", "driver", "cuda", "cudnn", "nccl", "torch", "torchvision", "python"),
        *("git_commit", "job_id", "dataset_sha256", "log"),
        *published_audits.TEXT_COLUMNS,
    ),
    str,
)

# What makes two records comparable: the same device model, the same images, and the same software that computes
# and communicates.
ENVIRONMENT_SOFTWARE = ("driver", "cuda", "cudnn", "nccl", "torch", "torchvision", "python")

# NVML numbers the versions of NVLink without gaps (nvml.h, NVML_NVLINK_VERSION_*).
NVLINK_VERSIONS = {1: "1.0", 2: "2.0", 3: "2.2", 4: "3.0", 5: "3.1", 6: "4.0", 7: "5.0", 8: "6.0"}

# Why a cell is missing that was never tried.
NO_RECORD = "no record yet"
# States of cells without a record; the first says most.
STATES_BY_WEIGHT = ("failed", "unfinished", "missing")

Row = dict[str, Any]


@dataclass(frozen=True)
class Point:
    """A configuration, in one scope and one environment, and what its records say.

    `results` are what the records hold of this scope; a record whose memory ran out first holds nothing of it.
    """

    configuration: Configuration
    scope: str
    environment: str | None
    status: str
    reason: str
    records: Sequence[Record] = ()
    results: Sequence[Mapping[str, Any]] = ()
    epoch: Estimate | None = None
    step: Estimate | None = None
    n: int = 0

    @property
    def keys(self) -> Row:
        at = self.configuration
        return {
            "strategy": at.strategy,
            "gpus": at.gpus,
            "batch_per_gpu": at.batch_per_gpu,
            "global_batch": at.global_batch,
            "scope": self.scope,
            "environment": self.environment,
        }


def build_tables(study: Study, collected: Collected, audits: Sequence[Record] = ()) -> dict[str, pd.DataFrame]:
    """All tables of a study by name, with the columns of COLUMNS; pure."""
    environments = _environments(collected.records)
    points = _points(study, collected, environments)
    inferred = [
        _compare(points, point, point.configuration.batch_per_gpu)
        for point in points.values()
        if point.scope == "compute" and point.configuration.gpus > 1
    ]
    rows: dict[str, Iterable[Row]] = {
        "times": [_times_row(study, point) for point in points.values()],
        "speedup": _speedup_rows(study, points),
        "communication": [_communication_row(compared) for compared in inferred],
        "bandwidth": [_bandwidth_row(study, compared) for compared in inferred],
        "environments": _environment_rows(collected.records, environments),
        "records": [_record_row(cell, record, environments) for cell, record in collected.records.items()],
        "rejected": [{"path": cell.path, "reason": reason} for cell, reason in collected.rejected.items()],
        "missing": [_missing_row(cell, collected) for cell in plan(study).cells if cell not in collected.records],
        **published_audits.rows(audits),
    }
    # Whole numbers stay whole beside missing ones.
    return {name: pd.DataFrame(list(rows[name]), columns=COLUMNS[name]).convert_dtypes() for name in COLUMNS}


def expected_cells(study: Study) -> tuple[Cell, ...]:
    """The cells whose records count: also those that this machine has too few GPUs for, measured elsewhere."""
    return plan(study.on_any_machine()).cells


PointKey = tuple[Configuration, str, str | None]
Points = Mapping[PointKey, Point]


def _points(study: Study, collected: Collected, environments: Mapping[Cell, str]) -> Points:
    records: dict[Configuration, dict[str, list[Record]]] = defaultdict(lambda: defaultdict(list))
    for cell, record in sorted(collected.records.items()):
        records[cell.configuration][environments[cell]].append(record)
    here = plan(study)
    not_run = {item.configuration: item for item in here.not_run}
    without_record: dict[Configuration, list[Cell]] = defaultdict(list)
    for cell in here.cells:
        if cell not in collected.records:
            without_record[cell.configuration].append(cell)
    points: dict[PointKey, Point] = {}
    for configuration in sorted({*here.configurations, *not_run}):
        states = [(cell, *_why_missing(cell, collected)) for cell in without_record[configuration]]
        for scope in study["scopes"]:
            measured = records.get(configuration)
            if measured:
                for environment, some in sorted(measured.items()):
                    point = _measured(configuration, scope, environment, some)
                    points[configuration, scope, environment] = _with_missing_runs(point, states)
            else:
                state, reason = _unmeasured(configuration, not_run, states)
                points[configuration, scope, None] = Point(configuration, scope, None, state, reason)
    return points


def _measured(configuration: Configuration, scope: str, environment: str, records: Sequence[Record]) -> Point:
    fitted = [record["scopes"][scope] for record in records if scope in record["scopes"]]
    too_large = [record["oom"] for record in records if scope not in record["scopes"]]
    if not fitted:
        reason = f"out of memory in {too_large[0]['phase']}"
        return Point(configuration, scope, environment, "oom", reason, records)
    label = f"{configuration} {scope} {environment}"
    return Point(
        configuration,
        scope,
        environment,
        "ok",
        f"out of memory in {len(too_large)} of {len(records)} runs" if too_large else "",
        records,
        fitted,
        epoch=bootstrap_median([result["epoch_s"] for result in fitted], f"epoch {label}"),
        step=bootstrap_median([result["step_s_median"] for result in fitted], f"step {label}"),
        n=sum(len(result["epoch_s"]) for result in fitted),
    )


CellState = tuple[Cell, str, str]  # a cell without a record, its status, and the reason


def _unmeasured(
    configuration: Configuration, not_run: Mapping[Configuration, NotRun], states: Sequence[CellState]
) -> tuple[str, str]:
    """Status and reason of a configuration without any record; a failure says more than a run never tried."""
    if configuration in not_run:
        item = not_run[configuration]
        return item.state, item.reason
    _, status, reason = min(states, key=lambda item: (STATES_BY_WEIGHT.index(item[1]), item[2] == NO_RECORD))
    return status, reason


def _with_missing_runs(point: Point, states: Sequence[CellState]) -> Point:
    """The point, and which of its runs have no record."""
    runs = [f"run {cell.run} {status}" for cell, status, _ in states]
    return replace(point, reason="; ".join(filter(None, [point.reason, *runs])))


def _why_missing(cell: Cell, collected: Collected) -> tuple[str, str]:
    """Status and reason of a cell without a record."""
    if cell in collected.failures:
        return collected.failures[cell].state, collected.failures[cell].reason
    if cell in collected.rejected:
        return "missing", f"record not used: {collected.rejected[cell]}"
    return "missing", NO_RECORD


def _missing_row(cell: Cell, collected: Collected) -> Row:
    at = cell.configuration
    status, reason = _why_missing(cell, collected)
    return {
        "path": cell.path,
        "strategy": at.strategy,
        "gpus": at.gpus,
        "batch_per_gpu": at.batch_per_gpu,
        "run": cell.run,
        "status": status,
        "reason": reason,
        "log": collected.failures[cell].log if cell in collected.failures else None,
    }


def _times_row(study: Study, point: Point) -> Row:
    row = {**point.keys, "status": point.status, "reason": point.reason, "runs": len(point.records), "n": point.n}
    if point.epoch is None or point.step is None:
        return row
    results = point.results
    images_per_s = derive(lambda epoch_s: scaling.throughput(study.epoch_images, epoch_s), point.epoch)
    return {
        **row,
        **_columns("epoch_s", point.epoch),
        "first_timed_epoch_s": float(np.median([result["epoch_s"][0] for result in results])),
        **_columns("step_s", point.step),
        **_columns("images_per_s", images_per_s),
        "steps_per_epoch": results[0]["steps_per_epoch"],
        "peak_memory_bytes": max(
            (peak for result in results for peak in result["peak_memory_bytes"] or []), default=None
        ),
        "energy_j": _median([energy for result in results for energy in result["energy_j"] or []]),
    }


@dataclass(frozen=True)
class Comparison:
    """A point beside the plain module on one GPU; `baseline` is None where the two cannot be compared."""

    point: Point
    baseline: Point | None
    status: str
    reason: str

    @property
    def row(self) -> Row:
        return {**self.point.keys, "status": self.status, "reason": self.reason, "n": self.point.n}

    @cached_property
    def communication(self) -> Estimate:
        """Communication time of an epoch by subtraction, in seconds. Only where there is a baseline."""
        assert self.baseline and self.baseline.epoch and self.point.epoch
        gpus = self.point.configuration.gpus
        return derive(lambda one, n: communication.communication_s(one, n, gpus), self.baseline.epoch, self.point.epoch)


def _compare(points: Points, point: Point, batch: int) -> Comparison:
    """Set a point against one GPU at `batch`, in its own scope and environment. No other baseline is borrowed."""
    single = Configuration("single", 1, batch)
    baseline = points.get((single, point.scope, point.environment)) or points.get((single, point.scope, None))
    if point.status != "ok":
        return Comparison(point, None, point.status, point.reason)
    if baseline is None:
        reason = f"one GPU at batch {batch} was not measured in environment {point.environment}"
        return Comparison(point, None, "no baseline", reason)
    if baseline.status != "ok":
        reason = f"one GPU at batch {batch}: {baseline.status} ({baseline.reason})"
        return Comparison(point, None, "no baseline", reason)
    return Comparison(point, baseline, "ok", point.reason)


def _speedup_rows(study: Study, points: Points) -> Iterator[Row]:
    weak_batches = set(batches_per_gpu(study["batch_per_gpu"], study.epoch_images))
    for point in points.values():
        at = point.configuration
        if at.gpus == 1:
            continue
        if at.batch_per_gpu in weak_batches:
            yield _speedup_row("weak", _compare(points, point, at.batch_per_gpu))
        if at.global_batch in study["strong_scaling_global_batch"]:
            yield _speedup_row("strong", _compare(points, point, at.global_batch))


def _speedup_row(series: str, compared: Comparison) -> Row:
    point, baseline = compared.point, compared.baseline
    row = {**compared.row, "scaling": series}
    if baseline is None:
        return row
    gpus = point.configuration.gpus
    assert point.epoch and point.step and baseline.epoch and baseline.step
    speedup = derive(scaling.speedup, baseline.epoch, point.epoch)
    row |= {
        "baseline_n": baseline.n,
        "epoch_s": point.epoch.value,
        "baseline_epoch_s": baseline.epoch.value,
        **_columns("speedup", speedup),
        **_columns("efficiency", derive(lambda one: scaling.efficiency(one, gpus), speedup)),
    }
    if series == "weak":
        from_steps = derive(lambda one, n: scaling.speedup_from_steps(gpus, one, n), baseline.step, point.step)
        row |= _columns("speedup_from_steps", from_steps)
    return row


def _communication_row(compared: Comparison) -> Row:
    point, baseline = compared.point, compared.baseline
    if baseline is None:
        return compared.row
    assert point.epoch and point.step and baseline.epoch and baseline.step
    return {
        **compared.row,
        "epoch_s": point.epoch.value,
        "compute_s": communication.compute_s(baseline.epoch.value, point.configuration.gpus),
        **_columns("communication_s", compared.communication),
        "communication_share": compared.communication.value / point.epoch.value,
        "step_s": point.step.value,
        "baseline_step_s": baseline.step.value,
        **_columns("communication_step_s", derive(communication.communication_step_s, baseline.step, point.step)),
    }


def _bandwidth_row(study: Study, compared: Comparison) -> Row:
    if compared.baseline is None:
        return compared.row
    at, inferred = compared.point.configuration, compared.communication
    network = next(record["network"] for record in compared.point.records if record["network"])
    bytes_per_step = bandwidth.ring_allreduce_bytes(at.gpus, network["gradient_bytes"])
    steps = scaling.steps_per_epoch(study.epoch_images, at.gpus, at.batch_per_gpu)
    row = {
        **compared.row,
        "parameters": network["parameters"],
        "allreduce_bytes_per_step": bytes_per_step,
        "steps_per_epoch": steps,
        "allreduce_bytes_per_epoch": bytes_per_step * steps,
        **_columns("communication_s", inferred),
    }
    if not bandwidth.resolvable(inferred):
        return {**row, "status": "not resolvable", "reason": _why_not_resolvable(inferred)}
    low, high = inferred.interval
    # The longest time is the lowest bandwidth. Draws near or below zero seconds must not be divided by.
    for column, seconds in (("", inferred.value), ("_low", high), ("_high", low)):
        row[f"bandwidth_gb_s{column}"] = bandwidth.bandwidth_gb_s(bytes_per_step, steps, seconds)
    return row


def _why_not_resolvable(inferred: Estimate) -> str:
    if inferred.draws is None:
        return "the communication time has no interval: a single timing"
    low, high = inferred.interval
    return f"communication time {inferred.value:.3g} s [{low:.3g}, {high:.3g}] is not above zero for certain"


def _environments(records: Mapping[Cell, Record]) -> dict[Cell, str]:
    """The letter of every record's environment; A is the one that was measured first."""
    letters: dict[tuple[str, ...], str] = {}
    chosen: dict[Cell, str] = {}
    for cell, record in sorted(records.items(), key=lambda item: (item[1]["started_at"], item[0])):
        description = tuple(str(value) for value in _environment(record).values())
        chosen[cell] = letters.setdefault(description, _letter(len(letters)))
    return chosen


def _environment(record: Record) -> Row:
    software = record["software"]
    return {
        "device_model": record["hardware"]["device_model"],
        "dataset_sha256": record["dataset"]["sha256"],
        **{name: software[name] for name in ENVIRONMENT_SOFTWARE},
    }


def _letter(number: int) -> str:
    """A ... Z, AA, AB ... for 0, 1, 2 ..."""
    letters = ""
    number += 1
    while number:
        number, rest = divmod(number - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return letters


def _environment_rows(records: Mapping[Cell, Record], environments: Mapping[Cell, str]) -> list[Row]:
    members: dict[str, list[Record]] = defaultdict(list)
    for cell, letter in environments.items():
        members[letter].append(records[cell])
    return [
        {
            "environment": letter,
            **_environment(some[0]),
            "cpu_model": _joined(record["hardware"]["cpu_model"] for record in some),
            "links": _joined(_describe_link(link) for record in some for link in record["hardware"]["links"]),
            "hosts": _joined(record["hardware"]["host"] for record in some),
            "records": len(some),
        }
        for letter, some in members.items()
    ]


def _describe_link(link: Mapping[str, Any]) -> str:
    if link["kind"] != "NVLink":
        return " ".join(str(part) for part in (link["kind"] or "link unknown", link["topology"]) if part)
    if link["nvlink_version"] is None:
        return "NVLink (details hidden)"
    through = " through a switch" if link["via_switch"] else ""
    return f"{link['nvlink_links']} links of NVLink {NVLINK_VERSIONS.get(link['nvlink_version'], '?')}{through}"


def _joined(texts: Iterable[str | None]) -> str | None:
    return "; ".join(sorted({text for text in texts if text})) or None


def _record_row(cell: Cell, record: Record, environments: Mapping[Cell, str]) -> Row:
    readings = [*record["sensors"]["before"], *(record["sensors"]["after"] or [])]
    others = [reading["other_processes"] for reading in readings if reading["other_processes"] is not None]
    return {
        "path": cell.path,
        **record["cell"],
        "status": record["status"],
        "environment": environments[cell],
        "started_at": record["started_at"],
        "finished_at": record["finished_at"],
        "host": record["hardware"]["host"],
        "git_commit": record["provenance"]["git_commit"],
        "git_dirty": record["provenance"]["git_dirty"],
        "job_id": record["provenance"]["job_id"],
        "gpu_uuids": _joined(gpu["uuid"] for gpu in record["hardware"]["gpus"]),
        "throttle_reasons": _joined(reason for reading in readings for reason in reading["throttle_reasons"] or []),
        "other_processes": max((len(other) for other in others), default=None),
        "dataset_source": record["dataset"]["source"],
        "synthetic": record["dataset"]["synthetic"],
        "dataset_sha256": record["dataset"]["sha256"],
    }


def _columns(name: str, estimate: Estimate) -> Row:
    low, high = estimate.interval
    return {name: estimate.value, f"{name}_low": low, f"{name}_high": high}


def _median(values: Sequence[float]) -> float | None:
    return float(np.median(values)) if values else None

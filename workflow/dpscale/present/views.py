"""Tables for reading: which columns of a table are shown, under which heading, with which unit."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pandas as pd

from dpscale.present import words
from dpscale.present.words import Row, Words

ROWS_SHOWN = 200
_INLINE_CSV_CHARACTERS = 30_000
_MS = 1e3
_MB = 1e-6
_GB = 1e-9


@dataclass(frozen=True)
class Column:
    """A heading with its unit, and what stands under it for a row of the table."""

    heading: str
    cell: Callable[[Row], str]
    is_number: bool = True


@dataclass(frozen=True)
class View:
    """A table as the page shows it: text only. `csv_link` is a data URL, None for a large table."""

    name: str
    caption: str
    columns: Sequence[Column]
    cells: Sequence[Sequence[str]]
    rows_left_out: int
    csv_link: str | None


def times(table: pd.DataFrame, say: Words) -> View:
    return _view("times", "Times of every configuration", table, [
        *_keys(table, say),
        _whole("Runs", "runs"),
        _whole("Timed epochs", "n"),
        _estimate("Epoch time, s", "epoch_s"),
        _figure("First timed epoch, s", "first_timed_epoch_s"),
        _estimate("Step time, ms", "step_s", _MS),
        _estimate("Throughput, images/s", "images_per_s"),
        _whole("Steps per epoch", "steps_per_epoch"),
        _figure("Peak memory, GB", "peak_memory_bytes", _GB),
        _figure("Energy, J per epoch", "energy_j"),
    ])  # fmt: skip


def speedup(table: pd.DataFrame, say: Words) -> View:
    return _view("speedup", f"Speedup over 1 {say.device}", table, [
        _text("Scaling", "scaling"),
        *_keys(table, say),
        _figure("Epoch time, s", "epoch_s"),
        _figure(f"Epoch time of 1 {say.device}, s", "baseline_epoch_s"),
        _estimate("Speedup, ×", "speedup"),
        _estimate("Efficiency, %", "efficiency", 100),
        _estimate("Speedup from steps, ×", "speedup_from_steps"),
    ])  # fmt: skip


def communication(table: pd.DataFrame, say: Words) -> View:
    return _view("communication", "Communication time, inferred by subtraction (E1)", table, [
        *_keys(table, say),
        _figure("Epoch time, s", "epoch_s"),
        _figure("Compute time, s", "compute_s"),
        _estimate("Communication time, s", "communication_s"),
        _figure("Share of the epoch, %", "communication_share", 100),
        _estimate("Communication time of a step, ms", "communication_step_s", _MS),
    ])  # fmt: skip


def bandwidth(table: pd.DataFrame, say: Words) -> View:
    return _view("bandwidth", "Bandwidth, inferred from the communication time", table, [
        *_keys(table, say),
        _figure("Allreduce per step, MB", "allreduce_bytes_per_step", _MB),
        _whole("Steps per epoch", "steps_per_epoch"),
        _figure("Allreduce per epoch, GB", "allreduce_bytes_per_epoch", _GB),
        _estimate("Communication time, s", "communication_s"),
        _estimate("Bandwidth, GB/s", "bandwidth_gb_s"),
    ])  # fmt: skip


def environments(table: pd.DataFrame) -> View:
    return _view("environments", "Environments: a letter is a combination of hardware, software and images", table, [
        _text("Environment", "environment"),
        _text("Device", "device_model"),
        _text("CPU", "cpu_model"),
        _text("Links", "links"),
        _text("Driver", "driver"),
        _text("CUDA", "cuda"),
        _text("cuDNN", "cudnn"),
        _text("NCCL", "nccl"),
        _text("torch", "torch"),
        _text("torchvision", "torchvision"),
        _text("Python", "python"),
        Column("Images, SHA-256", lambda row: words.text(row["dataset_sha256"])[:12], is_number=False),
        _text("Hosts", "hosts"),
        _whole("Records", "records"),
    ])  # fmt: skip


def records(table: pd.DataFrame, say: Words) -> View:
    return _view("records", "Records used", table, [
        _text("Record", "path"),
        _status(),
        _text("Environment", "environment"),
        _text("Started, UTC", "started_at"),
        _text("Host", "host"),
        Column("Commit", _commit, is_number=False),
        _text("Job", "job_id"),
        _text("Throttling", "throttle_reasons"),
        _whole(f"Other processes on the {say.devices}", "other_processes"),
        _text("Images", "dataset_source"),
    ])  # fmt: skip


def rejected(table: pd.DataFrame) -> View:
    columns = [_text("File", "path"), _text("Reason", "reason")]
    return _view("rejected", "Records found and not used", table, columns)


def _view(name: str, caption: str, table: pd.DataFrame, columns: Sequence[Column]) -> View:
    ordered = words.in_order(table) if "strategy" in table else table
    shown = ordered.head(ROWS_SHOWN)
    cells = [[column.cell(row) for column in columns] for row in words.rows(shown)]
    return View(name, caption, columns, cells, len(table) - len(shown), csv_link(table))


def csv_link(table: pd.DataFrame) -> str | None:
    """The whole table as a data URL, with 7 significant digits, where that is small enough for a page."""
    if len(table) > ROWS_SHOWN:
        return None
    csv = table.convert_dtypes().to_csv(index=False, float_format="%.7g")
    return f"data:text/csv;charset=utf-8,{quote(csv, safe=',/:()=')}" if len(csv) <= _INLINE_CSV_CHARACTERS else None


def _keys(table: pd.DataFrame, say: Words) -> list[Column]:
    several_scopes = table["scope"].nunique() > 1
    return [
        *([_text("Scope", "scope")] if several_scopes else []),
        *([_text("Environment", "environment")] if say.several_environments else []),
        _text("Strategy", "strategy"),
        _whole(say.heading, "gpus"),
        _whole(f"Batch per {say.device}, images", "batch_per_gpu"),
        _status(),
    ]


def _status() -> Column:
    return Column("Status", _status_with_reason, is_number=False)


def _status_with_reason(row: Row) -> str:
    """The state's word, with its reason where the table has one: an `ok` can have one too."""
    word, reason = words.state(row["status"]), row.get("reason")
    return f"{word}: {reason}" if words.is_known(reason) else word


def _commit(row: Row) -> str:
    commit = words.text(row["git_commit"])[:12]
    return f"{commit} (dirty)" if words.is_true([row["git_dirty"]]) == [True] else commit


def _text(heading: str, name: str) -> Column:
    return Column(heading, lambda row: words.text(row[name]), is_number=False)


def _whole(heading: str, name: str) -> Column:
    return Column(heading, lambda row: words.whole(row[name]))


def _figure(heading: str, name: str, scale: float = 1.0) -> Column:
    return Column(heading, lambda row: words.figure(_scaled(row[name], scale)))


def _estimate(heading: str, name: str, scale: float = 1.0) -> Column:
    return Column(heading, lambda row: words.estimate(row, name, scale))


def _scaled(value: Any, scale: float) -> Any:
    return value * scale if words.is_known(value) else value

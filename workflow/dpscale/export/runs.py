"""Records and tables as plain runs, which every tracker can hold. Pure: nothing is written, no tracker is loaded."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import accumulate, chain, repeat
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import asdict

from dpscale.errors import ExportError
from dpscale.plan.cells import AnyCell, TimingCell, TrainingCell, VariantCell
from dpscale.plan.study import Study
from dpscale.records.collect import Collected
from dpscale.records.kinds import Record, TimingRecord, TrainingRecord
from dpscale.tables.answer import AnswerRow
from dpscale.tables.row import Row
from dpscale.tables.study import RecordsRow
from dpscale.tables.tables import Tables

Scalar = str | int | float | bool | None

# The tables whose figures belong to a cell, by its class. A row is the cell's where it has the same labels.
_TABLES_OF: Mapping[type[AnyCell], Sequence[str]] = {
    TimingCell: ("records", "runs", "times", "speedup", "communication", "bandwidth"),
    VariantCell: ("records", "runs", "variants"),
    TrainingCell: ("records", "training_summary"),
}
# Columns that tell rows of one configuration apart: they become part of a figure's name.
_NAMING = ("scope", "scaling")
# Figures of every epoch in a timing record, beside its time, and their names in the tables.
_OF_TIMED_EPOCHS = {"step_s_median": "step_s", "energy_j": "energy_j"}
_OF_TRAINED_EPOCHS = (
    "training_loss", "training_accuracy", "test_loss", "test_accuracy", "validation_loss", "validation_accuracy",
    "learning_rate", "epoch_s", "images_per_s", "gpu_s", "energy_j",
)  # fmt: skip


class HistoryPoint(NamedTuple):
    """A value after a step or an epoch, by its number from 1, and the clock then, in seconds since 1970."""

    number: int
    clock_s: float
    value: float


@dataclass(frozen=True)
class Curve:
    """A figure over the steps or the epochs of a run: `axis` is `step` or `epoch`."""

    name: str
    axis: str
    points: tuple[HistoryPoint, ...]


@dataclass(frozen=True)
class TrackedRun:
    """One run in a tracker: a cell, or the whole study.

    `key` is the place of its record without the ending, or `study`. `config` has settings, hardware and software,
    `figures` the numbers of the tables, each named `<table>/<scope>/<column>`; `files` are to be kept with it.
    """

    study: str
    key: str
    kind: str
    started_s: float
    finished_s: float
    config: Mapping[str, Scalar]
    curves: tuple[Curve, ...] = ()
    figures: Mapping[str, float] = field(default_factory=dict)
    files: tuple[Path, ...] = ()

    @property
    def id(self) -> str:
        """The run's id: the same in every export of a record, and a new one where the cell was measured again."""
        words = f"{self.study}/{self.key}" if self.kind == "study" else f"{self.study}/{self.key}@{self.started_s}"
        return hashlib.sha256(words.encode()).hexdigest()[:16]


def runs_of(study: Study, collected: Collected, tables: Tables, files: Sequence[Path]) -> Iterator[TrackedRun]:
    """Return a run per timing cell, per cell of a variant and per training that has a record; then one of the study,
    which has the figures of the answer and the `files`: its tables and its page.

    Raises ExportError where the tables were made from other records.
    """
    _refuse_other_tables(collected, tables.records)
    environments = {row.path: row.environment for row in tables.records}
    cells = [cell for cell in collected.records if isinstance(cell, TimingCell | VariantCell | TrainingCell)]
    for cell in cells:
        record, batch = collected.records[cell], cell.configuration.global_batch
        labels = {
            **cell.labels, "global_batch": batch, "path": cell.path, "environment": environments.get(cell.path),
        }  # fmt: skip
        yield TrackedRun(
            study=study.name,
            key=cell.path.removesuffix(".json"),
            kind="variant" if isinstance(cell, VariantCell) else cell.kind,
            started_s=_seconds(record.started_at),
            finished_s=_seconds(record.finished_at),
            config=_config(cell, record, labels),
            curves=tuple(_curves(record)),
            figures={
                path: value
                for name in _TABLES_OF[type(cell)]
                for path, value in _figures(name, getattr(tables, name), {"variant": "", **labels})
            },
        )
    if cells:
        yield _run_of_study(study, [collected.records[cell] for cell in cells], tables.answer, files)


def _refuse_other_tables(collected: Collected, table: Iterable[RecordsRow]) -> None:
    """Raise ExportError if the tables lack a record. Another start is another measurement of its cell."""
    tabled = {(row.path, row.started_at) for row in table}
    for cell, record in collected.records.items():
        if (cell.path, record.started_at) not in tabled:
            raise ExportError(
                f"the tables are not of these records: {cell.path} differs. Make them again with: dpscale tables"
            )


def _run_of_study(
    study: Study, records: Sequence[Record], answer: Sequence[AnswerRow], files: Sequence[Path]
) -> TrackedRun:
    """Return the run of the whole study, with the figures of the answer by number of GPUs: `answer/4/speedup`."""
    return TrackedRun(
        study=study.name,
        key="study",
        kind="study",
        started_s=min(_seconds(record.started_at) for record in records),
        finished_s=max(_seconds(record.finished_at) for record in records),
        config=_flat(study.values),
        figures={
            f"answer/{row.gpus}/{name}": value
            for row in answer
            if row.scope == answer[0].scope
            for name, value in _numbers(row).items()
            if isinstance(value, float)
        },
        files=tuple(files),
    )


def _config(cell: AnyCell, record: Record, labels: Mapping[str, object]) -> dict[str, Scalar]:
    """Return the cell's labels, settings, hardware and software. No host, no user, no path of this machine."""
    return {
        **_flat(record.settings.to_json()),
        **{name: value for name, value in labels.items() if name != "path"},
        "kind": record.kind,
        "status": record.status,
        "measurement_version": record.measurement_version,
        "started_at": record.started_at,
        "git_commit": record.provenance.git_commit,
        **{name: getattr(record.hardware, name) for name in ("device_model", "cpu_model")},
        **{name: value for name, value in asdict(record.software).items() if value is not None},
        **{f"dataset_{name}": getattr(record.dataset, name) for name in ("source", "synthetic", "sha256")},
    }


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Scalar]:
    """Return nested values under names such as `dataset.source`; a list is one line of JSON."""
    flat: dict[str, Scalar] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = json.dumps(value) if isinstance(value, list) else value
    return flat


def _curves(record: Record) -> Iterator[Curve]:
    if isinstance(record, TimingRecord):
        yield from _timing_curves(record)
    elif isinstance(record, TrainingRecord):
        yield from _training_curves(record)


def _timing_curves(record: TimingRecord) -> Iterator[Curve]:
    """Return the times and other figures of every epoch, by scope."""
    for scope, timed in record.scopes.items():
        seconds = timed.slowest_rank_epoch_s
        clock_s = [_seconds(record.started_at) + elapsed_s for elapsed_s in accumulate(seconds)]
        yield from _curve(f"{scope}/epoch_s", "epoch", clock_s, seconds)
        for name, column in _OF_TIMED_EPOCHS.items():
            yield from _curve(f"{scope}/{column}", "epoch", clock_s, getattr(timed, name) or ())


def _training_curves(record: TrainingRecord) -> Iterator[Curve]:
    """Return the loss of every step, and the figures of every epoch. A step has the clock of the end of its epoch: no
    more is known."""
    epochs, started_s = record.epochs, _seconds(record.started_at)
    ends_s = [started_s + elapsed_s for elapsed_s in accumulate(epoch.epoch_s for epoch in epochs)]
    steps_s = (end_s for end_s, epoch in zip(ends_s, epochs, strict=True) for _ in range(epoch.steps))
    later_s = repeat(max([started_s, *ends_s]))
    yield from _curve("training/step_loss", "step", chain(steps_s, later_s), record.step_loss)
    for name in _OF_TRAINED_EPOCHS:
        yield from _curve(f"training/{name}", "epoch", ends_s, [getattr(epoch, name) for epoch in epochs])


def _curve(name: str, axis: str, clock_s: Iterable[float], values: Iterable[float | None]) -> Iterator[Curve]:
    """Return the curve, without values that are not finite; none where no value is left."""
    points = tuple(
        HistoryPoint(number, at_s, value)
        for number, (at_s, value) in enumerate(zip(clock_s, values, strict=False), 1)
        if value is not None
    )
    if points:
        yield Curve(name, axis, points)


def _figures(name: str, table: Sequence[Row], labels: Mapping[str, object]) -> Iterator[tuple[str, float]]:
    """Return every number that a table has of the cell, by a path such as `speedup/compute/weak/efficiency`."""
    for row in table:
        columns = row.columns()
        if any(getattr(row, label) != value for label, value in labels.items() if label in columns):
            continue
        place = [name, *(getattr(row, label) for label in _NAMING if label in columns)]
        for column, value in _numbers(row).items():
            if column not in labels:
                yield "/".join([*place, column]), float(value)


def _numbers(row: Row) -> dict[str, int | float]:
    """Return the numbers of a row's file. Values of two servers or runs are left out: a tracker would show them as the
    ends of an interval."""
    of_two = [
        column for name, column in row.columns().items() if column.kind == "figure" and getattr(row, name).is_of_two
    ]
    values = {end for column in of_two for end in column.names[1:]}
    return {
        name: number
        for name, number in row.flat().items()
        if isinstance(number, int | float) and not isinstance(number, bool) and name not in values
    }


def _seconds(time: str) -> float:
    """Return a time of day in seconds since 1970."""
    return datetime.fromisoformat(time).timestamp()

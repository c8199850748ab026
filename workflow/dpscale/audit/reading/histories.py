"""Run histories as experiment trackers export them: CSV with a time stamp per step or epoch. Epoch times follow from
them. Free of torch and pandas."""

import csv
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from itertools import groupby
from pathlib import Path
from statistics import fmean, median
from typing import Literal, NamedTuple

import numpy as np

from dpscale.audit.reading.published import Spot
from dpscale.errors import PublishedError
from dpscale.formulas.rounded import exponent_of

# What the numbers on a history's axis count.
Axis = Literal["step", "epoch"]
# Beyond this no digit of a time stamp tells anything of an epoch.
_MOST_DECIMALS = 3

_FORMATS = (
    "the CSV of a TensorBoard chart (Wall time, Step, Value), of an MLflow chart (Run ID, step, timestamp, value), the "
    "history of a W&B run (_step, _timestamp), or a W&B chart of _timestamp or _runtime (Step, <run> - _timestamp)"
)


class History(NamedTuple):
    """When a run reached the numbers on its axis: `clock_s` in seconds, known to `decimals` decimals."""

    name: str
    clock_s: Mapping[float, float]
    decimals: int


class Imported(NamedTuple):
    """A run of a history as somebody's measurement: its place in the table, its epoch times in seconds, and their
    decimals."""

    place: Spot
    epoch_s: tuple[float, ...]
    decimals: int


def read_histories(path: Path, axis: Axis) -> list[History]:
    """The runs of a CSV file, which is told by its columns. Raises PublishedError where it is no history."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as lines:
            rows = list(csv.DictReader(lines))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise PublishedError(f"{path}: cannot be read: {error}") from error
    if not rows:
        raise PublishedError(f"{path}: has no rows")
    found: dict[str, list[tuple[Decimal, Decimal]]] = {}
    for run, number, stamp in _stamps(path, rows, axis):
        found.setdefault(run, []).append((number, stamp))
    if not found:
        raise PublishedError(f"{path}: has no time stamps")
    return [_history(run, reached) for run, reached in found.items()]


def named(file: Path, axis: Axis) -> History:
    """The history in a file, or that of the run NAME where the path ends with ::NAME. Raises PublishedError."""
    path, _, name = str(file).partition("::")
    histories = {history.name: history for history in read_histories(Path(path), axis)}
    if name and name not in histories:
        raise PublishedError(f"{path}: has no run {name}, but {', '.join(histories)}")
    if not name and len(histories) > 1:
        raise PublishedError(f"{path}: has several runs. Name one: {', '.join(f'{path}::{run}' for run in histories)}")
    return histories[name] if name else next(iter(histories.values()))


def _history(run: str, reached: Sequence[tuple[Decimal, Decimal]]) -> History:
    """The last time stamp of every number: an epoch's number stands on all of its rows."""
    clock_s = {float(number): float(stamp) for number, stamp in sorted(reached)}
    return History(run, clock_s, max(-exponent_of(stamp) for _, stamp in reached))


def epoch_times(history: History, place: Spot, images: int, axis: Axis) -> Imported:
    """The times from one epoch's end to the next; everything between them counts, evaluation and checkpoints too.

    Where the axis counts steps, an epoch has ceil(D / (N b)) of them. The clock at an epoch's end is interpolated
    between the nearest numbers of the history. An epoch whose start or end lies outside of it has no time. Raises
    PublishedError where no epoch has one.
    """
    numbers, clock_s = list(history.clock_s), list(history.clock_s.values())
    per_epoch = -(-images // place.global_batch) if axis == "step" else 1
    first, last = math.ceil(numbers[0] / per_epoch), math.floor(numbers[-1] / per_epoch)
    ends_s = np.interp([epoch * per_epoch for epoch in range(first, last + 1)], numbers, clock_s)
    times = tuple(np.diff(ends_s).tolist())
    # Each stamp is off by up to half its last digit, a difference by twice that.
    decimals = min(_MOST_DECIMALS, max(0, history.decimals - 1))
    if not times:
        raise PublishedError(
            f"{history.name}: no epoch has both its start and its end in the history, {numbers[0]:g} to "
            f"{numbers[-1]:g}, with {per_epoch:,} per epoch"
        )
    if round(median(times), decimals) <= 0:
        raise PublishedError(f"{history.name}: its time stamps are too rough to tell an epoch: {median(times):g} s")
    return Imported(place, times, decimals)


def published_file(study: str, title: str, images: int, parameters: int | None, runs: Sequence[Imported]) -> str:
    """A file for `dpscale audit`. Of several runs at one place the epoch time is the mean of their medians."""
    return "\n".join(_lines(study, title, images, parameters, runs)) + "\n"


def _lines(study: str, title: str, images: int, parameters: int | None, runs: Sequence[Imported]) -> Iterator[str]:
    yield "# Epoch times from time stamps of run histories: the median time from one epoch's end to the next, with all"
    yield "# that lies between. What the authors derived from them can be added under `published`."
    # JSON's text is YAML's too.
    yield f"id: {study}"
    yield f"title: {json.dumps(title, ensure_ascii=False)}"
    yield f"dataset_images: {images}"
    if parameters is not None:
        yield f"networks_mentioned: {{parameters_trained: {parameters}}}"
    yield "epoch_s:                  # batch size per GPU -> number of GPUs -> seconds"
    places = sorted({run.place for run in runs})
    for batch, row in groupby(places, key=lambda place: place.batch_per_gpu):
        times = (f"{place.gpus}: {_printed([run for run in runs if run.place == place])}" for place in row)
        yield f"  {batch}: {{{', '.join(times)}}}"
    yield "published:"
    yield "  training:"
    for place in places:
        yield f"    - {{batch_per_gpu: {place.batch_per_gpu}, gpus: {place.gpus}}}"


def _printed(runs: Sequence[Imported]) -> str:
    """The epoch time with the digits that are known."""
    return f"{fmean(median(run.epoch_s) for run in runs):.{min(run.decimals for run in runs)}f}"


def _stamps(path: Path, rows: Sequence[Mapping[str, str]], axis: Axis) -> Iterator[tuple[str, Decimal, Decimal]]:
    """Run, number on the axis and time stamp in seconds; rows without one of them are left out."""
    for run, number, clock, power in _columns(path, list(filter(None, rows[0])), axis):
        for row in rows:
            if row[number] and row[clock]:
                name = row[run] if run else clock.rpartition(" - ")[0] or path.stem
                yield name, _decimal(path, row[number]), _decimal(path, f"{row[clock]}{power}")


class _Columns(NamedTuple):
    """Columns of the run, of the number on the axis and of the clock, and what a second is of the clock's unit."""

    run: str | None
    number: str
    clock: str
    power: str = ""


def _columns(path: Path, columns: Sequence[str], axis: Axis) -> list[_Columns]:
    """Where a file has its time stamps: once, or once per run. Raises PublishedError where it has none."""
    if {"Wall time", "Step"} <= set(columns):  # TensorBoard
        return [_Columns(None, "Step", "Wall time")]
    if {"step", "timestamp"} <= set(columns):  # MLflow, in milliseconds
        run = next((name for name in ("Run ID", "run_id") if name in columns), None)
        return [_Columns(run, "step", "timestamp", "e-3")]
    clocks = [name for name in ("_timestamp", "_runtime") if name in columns]
    number = "epoch" if axis == "epoch" and "epoch" in columns else "_step"
    if clocks and number in columns:  # W&B, the history of a run
        return [_Columns(None, number, clocks[0])]
    of_runs = [name for name in columns[1:] if name.endswith((" - _timestamp", " - _runtime"))]
    if of_runs:  # W&B, a chart
        return [_Columns(None, columns[0], name) for name in of_runs]
    raise PublishedError(f"{path}: its columns are {', '.join(columns)}. A history is {_FORMATS}")


def _decimal(path: Path, text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation as error:
        raise PublishedError(f"{path}: {text} is no number") from error

"""What measuring cells costs: how long jobs took, and how long those to come will take. Free of torch, and quick.

A job takes as long as those of its kind that are done took on average: whatever its strategy, GPUs and batch. A
cluster's queue, and making the dataset, are in no estimate.
"""

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from statistics import fmean

from dpscale.plan.cells import AnyCell
from dpscale.records.collect import DONE, CellState
from dpscale.records.kinds import Record


def seconds_of(record: Record) -> float:
    """Return the time of a job from its start to its end."""
    return (datetime.fromisoformat(record.finished_at) - datetime.fromisoformat(record.started_at)).total_seconds()


def gpu_seconds(cell: AnyCell, record: Record) -> float:
    """Return the time of a job from its start to its end, times the GPUs (workers) that it held."""
    return seconds_of(record) * cell.gpus


def mean_seconds(states: Iterable[CellState]) -> dict[str, float]:
    """Return how long jobs of a kind took on average, by kind. A kind of which no cell is done is not in it."""
    seconds = defaultdict(list)
    for state in states:
        if state.state == DONE and state.record is not None:
            seconds[state.cell.kind].append(seconds_of(state.record))
    return {kind: fmean(times) for kind, times in seconds.items()}


def duration(seconds: float) -> str:
    """Return `48 s`, `12 min` or `3 h 05 min`."""
    minutes = round(seconds / 60)
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02} min"

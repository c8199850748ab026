"""A small study that times and does nothing else, with known epochs, its records on disk, and its tables."""

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from dpscale.analyse.tables import build_tables
from dpscale.plan.cells import TimingCell
from dpscale.plan.plan import expected_cells, plan
from dpscale.plan.study import Study
from dpscale.records.collect import collect
from dpscale.tables.tables import Tables
from record_factory import timing_record, write

VALUES = {
    "study": "s",
    "gpus": [1, 2],
    "batch_per_gpu": [32, 128],
    "strong_scaling_global_batch": [128],
    "scopes": ["compute"],
    "runs": 2,
    "communication": {"runs": 0},
}
THREE_RUNS = {**VALUES, "runs": 3}
# Epoch seconds of the first epoch, by configuration; the second epoch takes 1 % more, every further run 2 % more.
EPOCH_S = {
    ("single", 1, 32): 8.0,
    ("single", 1, 128): 4.0,
    ("dp", 2, 32): 20.0,
    ("dp", 2, 64): 8.0,
    ("dp", 2, 128): 4.1,
    ("ddp", 2, 32): 5.0,
    ("ddp", 2, 64): 2.5,
    ("ddp", 2, 128): 2.0,
}
DDP = {"strategy": "ddp", "batch_per_gpu": 32}
Change = Callable[[TimingCell, dict[str, Any]], dict[str, Any]]


def place_of(cell: TimingCell) -> tuple[str, int, int]:
    return cell.configuration.strategy, cell.gpus, cell.configuration.batch_per_gpu


def tables_of(results: Path, values: Mapping[str, Any] = VALUES) -> Tables:
    study = Study(values)
    return build_tables(study, collect(results, expected_cells(study), study.settings))


def measured(
    results: Path,
    values: Mapping[str, Any] = VALUES,
    skip: Collection[tuple[str, int, int]] = (),
    oom: Collection[tuple[str, int, int]] = (),
    change: Change = lambda _, record: record,
) -> Tables:
    """The tables of a study, but for the records of `skip`; memory ran out in those of `oom`."""
    study = Study(values)
    for cell in plan(study.on_any_machine()).timing:
        place = place_of(cell)
        if place not in skip:
            first = EPOCH_S[place] * (1 + 0.02 * (cell.run - 1))
            record = timing_record(cell, study.settings, None if place in oom else [first, 1.01 * first])
            write(results, cell, change(cell, record))
    return tables_of(results, values)

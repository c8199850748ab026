"""Studies that are made up: a record for every cell of a plan, and the real tables of them.

Unless a test says otherwise, a study is of 4 H200 with communication that is known exactly. `change` is called with
every cell and its record: it changes the record, or returns another one.
"""

import math
from collections.abc import Callable, Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from cases import cases
from dpscale.analyse.tables import build_tables
from dpscale.compare.comparison import ComparedStudies, ComparedStudy
from dpscale.plan.cells import AnyCell, CommunicationCell, TimingCell, TrainingCell, VariantCell
from dpscale.plan.plan import expected_cells, plan
from dpscale.plan.study import Study
from dpscale.records.collect import Collected, collect
from dpscale.records.files import JsonRecord
from dpscale.tables.tables import Tables
from record_factory import any_record, collected_of, network_facts, write

Change = Callable[[Any, JsonRecord], JsonRecord | None]
# Strategy, GPUs and batch per GPU.
Place = tuple[str, int, int]
# Compute epoch seconds of the first run.
EPOCH_S: Mapping[Place, float] = {
    (strategy, gpus, batch): seconds for strategy, gpus, batch, seconds in cases(__file__, "epoch_s")
}
# What communication takes of every step, and what of it shows.
COMMUNICATION_S = {"dp": 0.8e-3, "ddp": 0.25e-3}
EXPOSED_S = {"dp": 0.8e-3, "ddp": 0.1e-3}
H200: Mapping[str, Any] = cases(__file__, "h200")
TIMED: Mapping[str, Any] = cases(__file__, "timed")
THREE_RUNS = {**TIMED, "runs": 3}
DDP = {"strategy": "ddp", "batch_per_gpu": 32}


def study(**changes: Any) -> Study:
    return Study({**H200, **changes})


def place_of(cell: TimingCell | CommunicationCell | VariantCell) -> Place:
    configuration = cell.configuration
    return configuration.strategy, configuration.gpus, configuration.batch_per_gpu


def step_s(strategy: str, gpus: int, batch: int) -> float:
    """Return an equal share of the epoch, as timing records have it."""
    return EPOCH_S[strategy, gpus, batch] * gpus * batch / 50_000


def run_factor(cell: AnyCell) -> float:
    """Return what everything in one of three runs takes longer by; the mean of its logarithms is zero. One GPU's
    baseline is not off by the same, so ratios have a spread too."""
    run = 1 if isinstance(cell, TrainingCell) else cell.run
    return math.exp(1e-4 * (run % 3 - 1 if cell.gpus > 1 else run - 2))


def epochs_that_differ_little(cell: TimingCell) -> list[float]:
    return [EPOCH_S[place_of(cell)] * run_factor(cell) * factor for factor in (0.998, 1.0, 1.002)]


def epochs_that_slow_down(cell: TimingCell) -> list[float]:
    """The second epoch takes 1 % more, and every further run 2 % more, on one GPU as on several."""
    first_s = EPOCH_S[place_of(cell)] * (1 + 0.02 * (cell.run - 1))
    return [first_s, 1.01 * first_s]


def records_of(
    study: Study,
    change: Change | None = None,
    epoch_s: Callable[[Any], list[float] | None] = epochs_that_differ_little,
) -> dict[AnyCell, JsonRecord]:
    """Return a record for every cell of the plan. Memory ran out where `epoch_s` is None."""
    settings, records = study.settings, {}
    for cell in plan(study.on_any_machine()).all_cells:
        seconds, parts_s = None, (1.0, 0.2, 0.1)
        if isinstance(cell, TimingCell | VariantCell):
            seconds = epoch_s(cell)
        elif isinstance(cell, CommunicationCell):
            place = place_of(cell)
            parts_s = (step_s(*place), COMMUNICATION_S[place[0]], EXPOSED_S[place[0]])
        record = any_record(cell, settings, seconds, parts_s, run_factor(cell))
        records[cell] = (change and change(cell, record)) or record
    return records


def collected(study: Study, change: Change | None = None) -> Collected:
    """Return the study with all records, as if they were read from its folder."""
    return collected_of(records_of(study, change), network_facts(study.settings))


@cache
def h200_tables() -> Tables:
    """Tables of `study()`. Built once in a process: nobody may change them."""
    return build_tables(study(), collected(study()))


def tables_of(results: Path, values: Mapping[str, Any] = TIMED) -> Tables:
    """Return the tables of the records in a folder."""
    study = Study(values)
    return build_tables(study, collect(results, expected_cells(study), study.settings))


def measured(
    results: Path,
    values: Mapping[str, Any] = TIMED,
    skip: Collection[Place] = (),
    oom: Collection[Place] = (),
    change: Change | None = None,
) -> Tables:
    """Write the records of a study that only times, but for those of `skip`; memory ran out in those of `oom`. Return
    its tables."""

    def epoch_s(cell: TimingCell) -> list[float] | None:
        return None if place_of(cell) in oom or place_of(cell) not in EPOCH_S else epochs_that_slow_down(cell)

    for cell, record in records_of(Study(values), change, epoch_s).items():
        assert isinstance(cell, TimingCell)
        if place_of(cell) not in skip:
            write(results, cell, record)
    return tables_of(results, values)


def side(name: str = "one", change: Change | None = None, changed: Study | None = None) -> ComparedStudy:
    """One of the studies that are compared."""
    compared_study = changed or study()
    return ComparedStudy(name, compared_study, build_tables(compared_study, collected(compared_study, change)))


def compared(change: Change | None = None, changed: Study | None = None) -> ComparedStudies:
    """Compare the study with the same after `change`, which may be `changed`."""
    return ComparedStudies([side("before"), side("after", change, changed)])


def slower(factor: float, *strategies: str) -> Change:
    """Epochs and steps take so many times longer; of these strategies, or of all."""

    def change(cell: AnyCell, record: JsonRecord) -> None:
        if type(cell) is TimingCell and (not strategies or cell.configuration.strategy in strategies):
            for scope in record["scopes"].values():
                for name in ("epoch_s", "step_s_median"):
                    scope[name] = [seconds * factor for seconds in scope[name]]
                scope["rank_epoch_s"] = [[seconds * factor for seconds in ranks] for ranks in scope["rank_epoch_s"]]

    return change

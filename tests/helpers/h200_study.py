"""A study on 4 H200, with times measured there, every kind of record, and communication that is known exactly."""

import math
from functools import cache
from typing import Any

from dpscale.analyse.tables import build_tables
from dpscale.plan.cells import AnyCell, CollectivesCell, CommunicationCell, TimingCell
from dpscale.plan.plan import plan
from dpscale.plan.study import Study
from dpscale.records.collect import Collected
from dpscale.tables.tables import Tables
from record_factory import collected_of, collectives_record, communication_record, network_facts, timing_record

IMAGES = 50_000
# Compute epoch seconds by (strategy, GPUs, batch per GPU).
EPOCH_S = {
    ("single", 1, 32): 7.74,
    ("single", 1, 128): 2.87,
    ("single", 1, 512): 2.30,
    ("dp", 2, 32): 20.9,
    ("dp", 2, 128): 4.93,
    ("dp", 2, 512): 1.23,
    ("dp", 4, 32): 13.3,
    ("dp", 4, 128): 3.14,
    ("dp", 4, 512): 0.756,
    ("ddp", 2, 32): 5.04,
    ("ddp", 2, 128): 1.53,
    ("ddp", 2, 512): 1.18,
    ("ddp", 4, 32): 2.52,
    ("ddp", 4, 128): 0.770,
    ("ddp", 4, 512): 0.591,
}
# What communication takes of every step, and what of it shows.
COMMUNICATION_S = {"dp": 0.8e-3, "ddp": 0.25e-3}
EXPOSED_S = {"dp": 0.8e-3, "ddp": 0.1e-3}
VALUES: dict[str, Any] = {
    "study": "h200", "batch_per_gpu": [32, 128, 512], "scopes": ["compute"], "runs": 3,
    "communication": {"runs": 3},
}  # fmt: skip


def study(**changes: Any) -> Study:
    return Study({**VALUES, **changes})


def step_s(strategy: str, gpus: int, batch: int) -> float:
    """As the factory's timing records have it: an equal share of the epoch."""
    return EPOCH_S[strategy, gpus, batch] * gpus * batch / IMAGES


def run_factor(run: int, is_parallel: bool) -> float:
    """What everything in one of three runs takes longer by; the mean of its logarithms is zero. One GPU's baseline is
    not off by the same, so ratios have a spread too."""
    return math.exp(1e-4 * (run % 3 - 1 if is_parallel else run - 2))


def collected(wanted: Study, latency_s: float = 1e-5, gb_s: float = 250.0) -> Collected:
    """The study with all records of `written`."""
    return collected_of(written(wanted, latency_s, gb_s), network_facts(wanted.settings))


def written(wanted: Study, latency_s: float = 1e-5, gb_s: float = 250.0) -> dict[AnyCell, dict[str, Any]]:
    """All records of the study; collectives take as long as `latency_s` and `gb_s` say."""
    records: dict[AnyCell, dict[str, Any]] = {}
    for cell in plan(wanted).all_cells:
        assert isinstance(cell, CommunicationCell | CollectivesCell | TimingCell), cell
        factor = run_factor(cell.run, cell.gpus > 1)
        if isinstance(cell, CollectivesCell):
            records[cell] = collectives_record(cell, wanted.settings, latency_s * factor, gb_s / factor)
            continue
        configuration = cell.configuration
        place = configuration.strategy, configuration.gpus, configuration.batch_per_gpu
        if isinstance(cell, CommunicationCell):
            whole_s = step_s(*place)
            idle_s = max(0.0, whole_s - step_s("single", 1, configuration.batch_per_gpu)) * 0.9
            parts = COMMUNICATION_S[configuration.strategy], EXPOSED_S[configuration.strategy], idle_s
            records[cell] = communication_record(
                cell, wanted.settings, *(seconds * factor for seconds in (whole_s, *parts))
            )
        else:
            epochs = [EPOCH_S[place] * factor * inside for inside in (0.998, 1.0, 1.002)]
            records[cell] = timing_record(cell, wanted.settings, epochs)
    return records


@cache
def h200_tables() -> Tables:
    """Built once in a process: nobody may change them."""
    return build_tables(study(), collected(study()))

"""What jobs took that are on record: workflow/dpscale/plan/costs.yaml, of which a plan expects what others take.

`python docs/made.py` writes it anew.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from statistics import median
from typing import Any

import yaml

from bench_numbers import ROOT
from dpscale.plan.cells import Configuration, StepCell, TimingCell, TrainingCell
from dpscale.plan.study import NETWORK_FACTS
from dpscale.records.collect import CellState
from dpscale.records.facts import NetworkRecord
from dpscale.records.files import read_record
from dpscale.records.kinds import Scope, TimingRecord, TrainingRecord
from dpscale.records.progress import seconds_of
from dpscale.strategies.known import BASELINE
from dpscale.vocabulary.chips import chip_named
from recorded_numbers import ALL_STRATEGIES, FOUR_H200, TWO_H100, jobs_of

COSTS = ROOT / "workflow/dpscale/plan/costs.yaml"
HEADING = f"""\
# What jobs took that are on record, with the fields of dpscale.plan.expected: medians over results/{TWO_H100}, over
# results/{ALL_STRATEGIES} for further strategies, and over results/{FOUR_H200} for trainings. docs/made.py makes it
# of the records.
"""


def medians(values: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Return the median of the values of a name, with three digits."""
    by_name = defaultdict(list)
    for name, value in values:
        by_name[name].append(value)
    return {name: rounded(median(by_name[name])) for name in sorted(by_name)}


def rounded(value: float) -> float:
    return float(f"{value:.3g}")


def measured_scopes(record: TimingRecord) -> Iterator[Scope]:
    """Yield all that a job timed: its own epochs, and those of its baselines before and after."""
    yield from record.scopes.values()
    for alone in record.alone or ():
        for halves in alone.scopes.values():
            yield from halves.measured


def beside_epochs_s(record: TimingRecord) -> float:
    """Return what a job took beside epochs: each scope has those that warm up, a baseline's once."""
    own = sum(median(scope.epoch_s) for scope in record.scopes.values())
    alone = [halves.before for one in record.alone or () for halves in one.scopes.values()]
    warming_s = record.settings.warmup_epochs * own + sum(median(scope.epoch_s) for scope in alone)
    return seconds_of(record) - warming_s - sum(sum(scope.epoch_s) for scope in measured_scopes(record))


def timed_cells(jobs: Iterable[CellState]) -> list[tuple[StepCell, TimingRecord]]:
    """Return the jobs that timed epochs."""
    return [
        (state.cell, state.record)
        for state in jobs
        if isinstance(state.cell, StepCell) and isinstance(state.record, TimingRecord)
    ]


def plain_steps(timed: Iterable[tuple[StepCell, TimingRecord]]) -> list[tuple[Configuration, TimingRecord]]:
    """Return those under a study's own settings, with their configurations."""
    return [(cell.configuration, record) for cell, record in timed if isinstance(cell, TimingCell)]


def costs() -> dict[str, Any]:
    """Return the contents of the file."""
    jobs = jobs_of(TWO_H100)
    timed = timed_cells(jobs)
    plain = plain_steps(timed)
    known = {point.strategy for point, _ in plain}
    elsewhere = plain_steps(timed_cells(jobs_of(ALL_STRATEGIES)))
    of_all_strategies = [*plain, *(job for job in elsewhere if job[0].strategy not in known)]
    smallest = min(point.batch_per_gpu for point, _ in plain)
    trained = [
        (state.cell.configuration.strategy, seconds_of(state.record) - sum(e.epoch_s for e in state.record.epochs))
        for state in jobs_of(FOUR_H200)
        if isinstance(state.cell, TrainingCell) and isinstance(state.record, TrainingRecord)
    ]
    loaded = [
        record.settings.epoch_images / median(scope.epoch_s) / (scope.loader_processes or 1)
        for cell, record in timed
        for name, scope in record.scopes.items()
        if name == "end_to_end" and cell.configuration.strategy == BASELINE
    ]
    whole = [state for state in jobs if not isinstance(state.record, TimingRecord)]
    facts = read_record(NetworkRecord, ROOT / "results" / TWO_H100 / NETWORK_FACTS)
    chip = chip_named(str(plain[0][1].hardware.device_model).split(" and ")[0])
    assert chip and facts.flop_per_image
    flop = facts.flop_per_image.forward_backward
    largest = max(point.batch_per_gpu for point, _ in plain)
    image_s = median(
        median(record.scopes["compute"].step_s_median) / largest
        for point, record in plain
        if (point.strategy, point.batch_per_gpu) == (BASELINE, largest)
    )
    # What arithmetic at the peak does not take is taken to be memory traffic at the data sheet's bandwidth.
    traffic = (image_s - flop / chip.most(plain[0][1].settings.precision).flop_s) * chip.memory_gb_s * 1e9
    return {
        "chip": chip.name,
        "whole_job_s": medians((state.cell.kind, seconds_of(state.record)) for state in whole if state.record),
        "beside_steps_s": {
            "timing": medians((point.strategy, beside_epochs_s(record)) for point, record in of_all_strategies),
            "training": medians(trained),
        },
        "host_step_s": medians(
            (point.strategy, median(scope.step_s_median))
            for point, record in of_all_strategies
            for scope in record.scopes.values()
            if point.batch_per_gpu == smallest
        ),
        "loader_images_per_s": rounded(median(loaded)),
        "flop_per_image": flop,
        "bytes_per_image": round(traffic, -5),
    }


def costs_file() -> str:
    """Return the text of the file."""
    return HEADING + yaml.safe_dump(costs(), sort_keys=False)

"""frontier.csv: accuracy against cost, from records whose accuracies and times are known."""

from functools import cache
from typing import Any

import pytest

from dpscale.analyse.tables import build_tables
from dpscale.plan.cells import AnyCell
from dpscale.plan.plan import plan
from dpscale.plan.study import Study
from dpscale.records.collect import Collected
from dpscale.tables.training import FrontierRow
from record_factory import training_record

ARMS = {
    name: {"strategy": "ddp" if gpus > 1 else "single", "gpus": gpus, "batch_per_gpu": batch}
    for name, gpus, batch in (
        ("slow", 1, 128), ("fast", 4, 512), ("worse", 4, 256), ("near", 4, 128), ("wild", 4, 1024), ("late", 4, 64),
    )
}  # fmt: skip
# Test accuracy after the last epoch by seed, and seconds of an epoch.
LAST = {
    "slow": ([0.70, 0.71, 0.72], 4.0),
    "fast": ([0.60, 0.61, 0.62], 1.0),
    "worse": ([0.49, 0.50, 0.51], 2.0),
    "near": ([0.59, 0.605, 0.62], 1.2),
    "wild": ([0.80, 0.81, 0.82], 1.0),
    "late": ([0.69, 0.70, 0.71], 5.0),
}


def study(seeds: int = 3) -> Study:
    return Study({"study": "s", "training": {"arms": ARMS, "seeds": seeds}})


@cache
def frontier(seeds: int = 3, elsewhere: str = "", **changes: Any) -> dict[str, FrontierRow]:
    """Rows by arm; `wild` diverged with one seed. `changes` are made to every epoch; one arm may be `elsewhere`."""
    records: dict[AnyCell, Any] = {}
    for cell in plan(study(seeds)).training:
        accuracies, epoch_s = LAST[cell.arm]
        last, diverged = accuracies[cell.seed - 1], cell.arm == "wild" and cell.seed == seeds
        record = training_record(cell, [last - 0.1, last], epoch_s * (1 + 0.01 * cell.seed), diverged)
        record["epochs"] = [{**epoch, **changes} for epoch in record["epochs"]]
        if cell.arm == elsewhere:
            record["software"] = {**record["software"], "driver": "999"}
        records[cell] = record
    return {row.arm: row for row in build_tables(study(seeds), Collected(records, {}, {})).frontier}


def test_costs_are_sums_over_all_epochs_and_means_over_seeds() -> None:
    row = frontier()["fast"]
    for figure, value in (
        (row.training_s, 2 * 1.02),
        (row.gpu_s, 4 * 2 * 1.02),
        (row.energy_j, 500 * 4 * 2 * 1.02),
        (row.test_accuracy, 0.61),
    ):
        assert figure.value == pytest.approx(value) and figure.low < value < figure.high
    assert row.seeds == 3


def test_arms_are_best_beaten_or_undecided() -> None:
    """By its other seeds, an arm of which a seed diverged would beat all: it has no row."""
    found = frontier()
    assert {arm: row.by_time for arm, row in found.items()} == {
        "slow": "best", "fast": "best", "worse": "beaten", "near": "undecided", "late": "undecided",
    }  # fmt: skip
    # One GPU for 8 s, or four for 2 s: 8 GPU-seconds both.
    assert [found[arm].by_gpu_s for arm in ("slow", "fast", "worse")] == ["best", "undecided", "beaten"]


def test_arms_of_different_environments_are_not_compared() -> None:
    assert frontier(elsewhere="worse")["worse"].by_time == "best"
    found = frontier(elsewhere="fast")
    assert [found[arm].by_time for arm in ("near", "worse")] == ["best", "beaten"], "by near, which fast beats no more"

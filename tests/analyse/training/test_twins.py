"""twins.csv: trainings beside those that differ in settings of speed alone."""

from typing import Any

import pytest

from dpscale.analyse.tables import build_tables
from dpscale.plan.cells import AnyCell
from dpscale.plan.plan import plan
from dpscale.plan.study import Study
from dpscale.records.collect import Collected
from dpscale.tables.training import TwinsRow
from record_factory import training_record

PLACE = {"strategy": "single", "gpus": 1, "batch_per_gpu": 128}
ARMS = {
    "slow": PLACE,
    "fast": {**PLACE, "precision": "bfloat16", "memory_format": "channels_last"},
    "also-fast": {**PLACE, "fused_optimiser": True},
    "smoothed": {**PLACE, "precision": "bfloat16", "label_smoothing": 0.1},
    "larger": {**PLACE, "batch_per_gpu": 512},
}
# Test accuracy after the last epoch by seed.
LAST = {
    "slow": [0.70, 0.71, 0.72],
    "fast": [0.71, 0.71, 0.73],
    "also-fast": [0.70, 0.71, 0.72],
    "smoothed": [0.75, 0.75, 0.75],
    "larger": [0.60, 0.60, 0.60],
}


def twins(diverged: str = "", without: str = "") -> dict[str, TwinsRow]:
    """Rows by arm."""
    arms = {name: arm for name, arm in ARMS.items() if name != without}
    study = Study({"study": "s", "training": {"arms": arms, "seeds": 3}})
    records: dict[AnyCell, Any] = {}
    for cell in plan(study).training:
        last, epoch_s = LAST[cell.arm][cell.seed - 1], 4.0 if cell.arm == "slow" else 1.0
        records[cell] = training_record(cell, [last - 0.1, last], epoch_s, diverged == cell.arm and cell.seed == 1)
    return {row.arm: row for row in build_tables(study, Collected(records, {}, {})).twins}


def test_twins_differ_in_speed_alone_and_are_compared_seed_by_seed() -> None:
    found = twins()
    assert {arm: row.twin for arm, row in found.items()} == {"fast": "slow", "also-fast": "slow"}
    fast = found["fast"]
    # 1, 0 and 1 points: mean 2/3, standard deviation 1/sqrt(3), and Student's t for two degrees of freedom.
    assert fast.pairs == 3
    assert fast.twin_accuracy_difference.value == pytest.approx(0.02 / 3)
    half = fast.twin_accuracy_difference.high - fast.twin_accuracy_difference.value
    assert half == pytest.approx(4.302653 * 0.01 / 3, rel=1e-6)
    assert fast.twin_time_ratio.value == pytest.approx(0.25)


def test_the_slow_twin_is_the_one_with_the_settings_of_the_study() -> None:
    """Two that are both fast, each in its way, are no twins of one another."""
    assert twins(without="slow") == {}


def test_an_arm_that_diverged_has_no_twin() -> None:
    assert [*twins(diverged="fast")] == ["also-fast"]
    assert twins(diverged="slow") == {}

"""frontier.csv: accuracy against cost, from records whose accuracies and times are known."""

from typing import Any

import pytest

from dpscale.analyse.tables import build_tables
from dpscale.plan.cells import AnyCell
from dpscale.plan.plan import plan
from dpscale.plan.study import Study
from dpscale.records.collect import Collected
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


def rows(seeds: int = 3, **changes: Any) -> dict[str, Any]:
    """The rows by arm; `wild` diverged with one seed. `changes` are made to every epoch."""
    records: dict[AnyCell, Any] = {}
    for cell in plan(study(seeds)).training:
        accuracies, epoch_s = LAST[cell.arm]
        last = accuracies[cell.seed - 1]
        diverged = cell.arm == "wild" and cell.seed == seeds
        record = training_record(cell, [last - 0.1, last], epoch_s * (1 + 0.01 * cell.seed), diverged)
        record["epochs"] = [{**epoch, **changes} for epoch in record["epochs"]]
        records[cell] = record
    table = build_tables(study(seeds), Collected(records, {}, {}))["frontier"]
    return {row["arm"]: row for row in table.astype(object).where(table.notna(), None).to_dict("records")}


def test_costs_are_sums_over_all_epochs_and_means_over_seeds() -> None:
    found = rows()["fast"]
    assert found["training_s"] == pytest.approx(2 * 1.02)
    assert found["gpu_s"] == pytest.approx(4 * 2 * 1.02)
    assert found["energy_j"] == pytest.approx(500 * 4 * 2 * 1.02)
    assert found["test_accuracy"] == pytest.approx(0.61)
    for name in ("training_s", "gpu_s", "energy_j", "test_accuracy"):
        assert found[f"{name}_low"] < found[name] < found[f"{name}_high"]
    assert found["seeds"] == 3


def test_arms_are_best_beaten_or_undecided() -> None:
    found = rows()
    assert {arm: row["by_time"] for arm, row in found.items()} == {
        "slow": "best", "fast": "best", "worse": "beaten", "near": "undecided", "late": "undecided",
    }  # fmt: skip
    # One GPU for 8 s, or four for 2 s: 8 GPU-seconds both.
    assert found["slow"]["by_gpu_s"] == "best"
    assert found["fast"]["by_gpu_s"] == "undecided"
    assert found["worse"]["by_gpu_s"] == "beaten"


def test_an_arm_of_which_a_seed_diverged_has_no_row() -> None:
    """By its other seeds it would beat all."""
    assert "wild" not in rows()


def test_one_seed_beats_nothing_for_sure() -> None:
    found = rows(seeds=1)
    assert {row["by_time"] for row in found.values()} == {"best", "undecided"}
    assert found["worse"]["by_time"] == "undecided"


def test_without_counters_nothing_is_said_of_energy() -> None:
    found = rows(energy_j=None)
    assert {row["by_energy"] for row in found.values()} == {None}
    assert {row["energy_j"] for row in found.values()} == {None}
    assert found["worse"]["by_time"] == "beaten"


def test_arms_of_different_environments_are_not_compared() -> None:
    records: dict[AnyCell, Any] = {}
    for cell in plan(study()).training:
        accuracies, epoch_s = LAST[cell.arm]
        record = training_record(cell, [accuracies[cell.seed - 1]], epoch_s)
        if cell.arm == "worse":
            record["software"] = {**record["software"], "driver": "999"}
        records[cell] = record
    table = build_tables(study(), Collected(records, {}, {}))["frontier"].set_index("arm")
    assert table.loc["worse", "by_time"] == "best"
    assert table.loc["near", "by_time"] == "beaten"


def test_a_study_without_arms_has_no_frontier() -> None:
    assert build_tables(Study({"study": "s"}), Collected({}, {}, {}))["frontier"].empty

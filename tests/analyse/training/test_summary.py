"""What arms come to, from records whose accuracies are known."""

import math
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from dpscale.analyse.tables import build_tables
from dpscale.plan.cells import AnyCell, TrainingCell
from dpscale.plan.plan import plan
from dpscale.plan.study import Study
from dpscale.records.collect import Collected, collect
from dpscale.records.files import write_record
from record_factory import training_record

ARMS = {
    "small": {"strategy": "single", "gpus": 1, "batch_per_gpu": 128},
    "large": {"strategy": "ddp", "gpus": 4, "batch_per_gpu": 512},
    "warm": {"strategy": "ddp", "gpus": 4, "batch_per_gpu": 512, "warmup_epochs": 1, "optimiser": "lars"},
    "same-order": {"strategy": "ddp", "gpus": 4, "batch_per_gpu": 512, "set_epoch": False},
    "wild": {"strategy": "ddp", "gpus": 4, "batch_per_gpu": 2048, "learning_rate": 6.4},
    "untried": {"strategy": "dp", "gpus": 8, "batch_per_gpu": 32},
}
# Test accuracy after the last epoch, seed by seed.
LAST = {
    "small": [0.70, 0.71, 0.72],
    "large": [0.48, 0.50, 0.52],
    "warm": [0.69, 0.70, 0.71],
    "same-order": [0.49, 0.50, 0.515],
}


def study(**changes: Any) -> Study:
    training = {"arms": ARMS, "baseline": "small", "target_accuracy": 0.69, **changes}
    return Study({"study": "s", "gpus_available": 4, "training": training})


def records(wanted: Study) -> dict[TrainingCell, dict[str, Any]]:
    found = {}
    for cell in plan(wanted).training:
        if cell.arm == "wild":
            found[cell] = training_record(cell, [0.3] if cell.seed < 3 else [0.2, 0.25], diverged=cell.seed < 3)
        else:
            last = LAST[cell.arm][cell.seed - 1]
            found[cell] = training_record(cell, [last - 0.3, last - 0.2, last - 0.1, last - 0.005, last])
    return found


def collected(found: dict[TrainingCell, dict[str, Any]]) -> Collected:
    every: dict[AnyCell, dict[str, Any]] = dict(found.items())
    return Collected(every, {}, {})


@pytest.fixture(scope="module")
def tables() -> Mapping[str, pd.DataFrame]:
    return build_tables(study(), collected(records(study())))


def arm(tables: Mapping[str, pd.DataFrame], name: str) -> dict[Hashable, Any]:
    (row,) = tables["training_summary"][tables["training_summary"]["arm"] == name].to_dict("records")
    return row


def test_every_epoch_of_every_seed_has_a_row(tables: Mapping[str, pd.DataFrame]) -> None:
    rows = tables["training"]
    assert len(rows) == 4 * 3 * 5 + 2 * 2 + 2
    assert list(rows[(rows["arm"] == "small") & (rows["seed"] == 1)]["elapsed_s"]) == [2, 4, 6, 8, 10]
    diverged = rows[rows["status"] == "diverged"]
    assert set(diverged["arm"]) == {"wild"}
    assert diverged["training_loss"].isna().all()


def test_means_and_spreads_are_over_seeds_after_the_last_epoch(tables: Mapping[str, pd.DataFrame]) -> None:
    row = arm(tables, "large")
    assert row["test_accuracy"] == pytest.approx(0.50)
    assert row["test_accuracy_spread"] == pytest.approx(0.02)
    # Student's t for 2 degrees of freedom is 4.303.
    assert row["test_accuracy_high"] - row["test_accuracy"] == pytest.approx(4.3027 * 0.02 / math.sqrt(3), rel=1e-4)
    assert (row["status"], row["seeds"], row["diverged"], row["remedies"]) == ("ok", 3, 0, None)
    assert row["gpu_s"] == pytest.approx(4 * 5 * 2.0)
    assert row["energy_j"] == pytest.approx(500 * 4 * 5 * 2.0)


def test_arms_are_compared_with_the_baseline_by_welchs_interval(tables: Mapping[str, pd.DataFrame]) -> None:
    row = arm(tables, "large")
    assert row["test_accuracy_difference"] == pytest.approx(-0.21)
    # Variances 0.0001 and 0.0004 over 3 seeds each: 2.94 degrees of freedom, t = 3.2132 (tables of t).
    half = 3.2132 * math.sqrt((0.0001 + 0.0004) / 3)
    assert row["test_accuracy_difference_high"] == pytest.approx(-0.21 + half, abs=2e-4)
    assert bool(arm(tables, "small")["is_baseline"])
    assert pd.isna(arm(tables, "small")["test_accuracy_difference"])


def test_arms_of_one_place_are_compared_seed_by_seed(tables: Mapping[str, pd.DataFrame]) -> None:
    row = arm(tables, "warm")
    assert (row["gain_pairs"], row["difference_pairs"]) == (3, 0)
    # Differences 0.21, 0.20 and 0.19; Student's t for 2 degrees of freedom is 4.303.
    assert row["test_accuracy_gain_high"] - row["test_accuracy_gain"] == pytest.approx(
        4.3027 * 0.01 / math.sqrt(3), rel=1e-4
    )


def with_seeds(**seeds: int) -> dict[str, Any]:
    """What `large` and `warm` come to with these numbers of seeds: pairs differ by 0.1, and little around that."""
    arms = {name: {**ARMS[name], "seeds": number} for name, number in seeds.items()}
    wanted = Study({"study": "s", "training": {"arms": arms}})
    found = {}
    for cell in plan(wanted).training:
        last = 0.4 + 0.05 * (cell.seed % 4) + (cell.arm == "warm") * (0.1 + 0.001 * (cell.seed % 3))
        found[cell] = training_record(cell, [last])
    (row,) = [row for row in build_tables(wanted, collected(found))["training_summary"].to_dict("records")
              if row["arm"] == "warm"]  # fmt: skip
    return {str(key): value for key, value in row.items()}


def test_most_seeds_must_be_there_for_pairs() -> None:
    """6 of 8 seeds make 6 pairs. 3 of 8 make none: five seeds left out would cost more than pairs gain."""
    six, three = with_seeds(large=8, warm=6), with_seeds(large=8, warm=3)
    assert six["gain_pairs"] == 6
    assert six["test_accuracy_gain"] == pytest.approx(0.101)
    assert six["test_accuracy_gain_high"] - six["test_accuracy_gain_low"] < 0.003
    assert three["gain_pairs"] == 0
    assert three["test_accuracy_gain_high"] - three["test_accuracy_gain_low"] > 0.1


def test_a_remedy_is_compared_with_the_same_arm_without_it(tables: Mapping[str, pd.DataFrame]) -> None:
    row = arm(tables, "warm")
    assert row["remedies"] == "optimiser lars, warmup_epochs 1"
    assert row["without_remedies"] == "large"
    assert row["test_accuracy_gain"] == pytest.approx(0.20)
    assert row["test_accuracy_gain_low"] > 0
    assert row["recovered"] == pytest.approx(0.20 / 0.21)
    assert row["recovered_low"] < 0.20 / 0.21 < row["recovered_high"]
    assert row["recovered_status"] == "ok"
    change = row["training_loss"] - arm(tables, "large")["training_loss"]
    assert row["training_loss_change"] == pytest.approx(change)
    assert row["training_loss_change_low"] < change < row["training_loss_change_high"]
    difference = row["training_loss"] - arm(tables, "small")["training_loss"]
    assert row["training_loss_difference"] == pytest.approx(difference)
    none = arm(tables, "same-order")
    assert none["test_accuracy_gain_low"] < 0 < none["test_accuracy_gain_high"]
    assert none["remedies"] == "set_epoch off"
    assert pd.isna(arm(tables, "large")["without_remedies"])


def test_a_share_of_a_loss_that_may_be_none_is_not_resolvable() -> None:
    found = records(study())
    for cell, record in found.items():
        if cell.arm == "small":
            record["epochs"][-1]["test_accuracy"] = [0.45, 0.55, 0.53][cell.seed - 1]
    row = arm(build_tables(study(), collected(found)), "warm")
    assert row["recovered_status"] == "not resolvable"
    assert pd.isna(row["recovered"]) and pd.isna(row["recovered_low"]) and pd.isna(row["recovered_high"])
    assert row["test_accuracy_gain"] == pytest.approx(0.20)


def test_a_remedy_of_the_baselines_own_place_recovers_nothing_that_a_batch_lost() -> None:
    arms = {"small": ARMS["small"], "tuned": {**ARMS["small"], "optimiser": "nesterov"}}
    wanted = Study({"study": "s", "training": {"arms": arms, "baseline": "small"}})
    found = {cell: training_record(cell, [0.7 + 0.01 * cell.seed + 0.05 * (cell.arm == "tuned")])
             for cell in plan(wanted).training}  # fmt: skip
    row = arm(build_tables(wanted, collected(found)), "tuned")
    assert (row["without_remedies"], row["gain_pairs"], row["difference_pairs"]) == ("small", 3, 3)
    assert row["test_accuracy_gain"] == pytest.approx(row["test_accuracy_difference"])
    assert pd.isna(row["recovered"]) and pd.isna(row["recovered_status"])


def test_a_tuned_arm_is_compared_with_the_baseline_that_was_tuned() -> None:
    """Of most trials, where two were; all others, the tuned baselines too, with the study's own baseline."""
    tuned = {"learning_rate": 0.2, "tuned": {"trials": 40, "chosen_on": "validation"}}
    less = {"learning_rate": 0.3, "tuned": {"trials": 8, "chosen_on": "validation"}}
    arms = {
        "small": ARMS["small"], "small-less": {**ARMS["small"], **less}, "small-tuned": {**ARMS["small"], **tuned},
        "large": ARMS["large"], "warm": ARMS["warm"], "large-tuned": {**ARMS["large"], **tuned},
    }  # fmt: skip
    last = {"small": 0.71, "small-less": 0.9, "small-tuned": 0.85, "large": 0.50, "warm": 0.70, "large-tuned": 0.78}
    wanted = study(arms=arms)
    found = {cell: training_record(cell, [last[cell.arm] + 0.01 * cell.seed]) for cell in plan(wanted).training}
    tables = build_tables(wanted, collected(found))
    against = {name: arm(tables, name)["compared_with"] for name in arms if name != "small"}
    assert against == {
        "small-less": "small", "small-tuned": "small", "large": "small", "warm": "small", "large-tuned": "small-tuned",
    }  # fmt: skip
    assert pd.isna(arm(tables, "small")["compared_with"])
    assert arm(tables, "large-tuned")["test_accuracy_difference"] == pytest.approx(0.78 - 0.85)
    assert arm(tables, "large-tuned")["recovered"] == pytest.approx(0.28 / 0.35)
    assert arm(tables, "warm")["recovered"] == pytest.approx(0.20 / 0.21)
    for cell in found:
        if cell.arm == "small-tuned":
            found[cell] = training_record(cell, [0.3], diverged=True)
    row = arm(build_tables(wanted, collected(found)), "large-tuned")
    assert pd.isna(row["compared_with"]) and pd.isna(row["test_accuracy_difference"]) and pd.isna(row["recovered"])


def test_a_search_is_said_and_changes_no_number_nor_any_record() -> None:
    tuned = {**ARMS["warm"], "tuned": {"trials": 80, "chosen_on": "test"}}
    searched = study(arms={**ARMS, "warm": tuned})
    before, after = (build_tables(wanted, collected(records(wanted))) for wanted in (study(), searched))
    assert searched.arms == study().arms
    row = arm(after, "warm")
    assert (row["tuned_trials"], row["tuned_on"]) == (80, "test accuracy")
    assert row["remedies"] == arm(before, "warm")["remedies"]
    assert pd.isna(arm(after, "large")["tuned_trials"])
    left, right = (table["training_summary"].drop(columns=["tuned_trials", "tuned_on"]) for table in (before, after))
    pd.testing.assert_frame_equal(left, right)


def test_time_to_a_target_counts_the_epochs_until_every_seed_is_there(tables: Mapping[str, pd.DataFrame]) -> None:
    small, warm = arm(tables, "small"), arm(tables, "warm")
    # After four epochs the baseline's seeds are at 0.695, 0.705 and 0.715, the remedy's at 0.685, 0.695 and 0.705.
    assert small["seeds_at_target"] == 3
    assert small["time_to_target_s"] == pytest.approx(2.0 * 4)
    assert small["gpu_s_to_target"] == pytest.approx(2.0 * 4)
    assert warm["gpu_s_to_target"] == pytest.approx(4 * 2.0 * (5 + 4 + 4) / 3)
    large = arm(tables, "large")
    assert large["seeds_at_target"] == 0
    assert pd.isna(large["time_to_target_s"])


def test_an_arm_that_diverged_has_no_mean_over_the_seeds_that_were_lucky(tables: Mapping[str, pd.DataFrame]) -> None:
    row = arm(tables, "wild")
    assert (row["status"], row["reason"]) == ("diverged", "2 of 3 seeds diverged")
    assert pd.isna(row["test_accuracy"])
    assert pd.isna(row["test_accuracy_difference"])


def test_arms_that_were_not_trained_say_why(tables: Mapping[str, pd.DataFrame]) -> None:
    row = arm(tables, "untried")
    assert (row["status"], row["reason"], row["seeds"]) == ("not run", "needs 8 GPUs, 4 here", 0)
    wanted = study()
    none = build_tables(wanted, Collected({}, {}, {}))
    assert set(none["training_summary"]["status"]) == {"missing", "not run"}
    assert len(none["missing"][none["missing"]["kind"] == "training"]) == 15
    partly = {cell: record for cell, record in records(wanted).items() if (cell.arm, cell.seed) != ("large", 2)}
    row = arm(build_tables(wanted, collected(partly)), "large")
    assert (row["status"], row["reason"], row["seeds"]) == ("ok", "seed 2 missing", 2)


def test_evidence_has_a_row_for_every_worker(tables: Mapping[str, pd.DataFrame]) -> None:
    rows = tables["training_evidence"]
    large = rows[(rows["arm"] == "large") & (rows["seed"] == 1) & (rows["epoch"] == 2)]
    assert list(large["worker"]) == [0, 1, 2, 3]
    assert list(large["statistics_kept"]) == [True, False, False, False]
    assert set(large["seen_before"]) == {0.5}
    assert set(rows[(rows["arm"] == "same-order") & (rows["epoch"] > 1)]["same_place"]) == {1.0}
    assert rows[rows["arm"] == "small"]["statistics_kept"].isna().all()


def test_other_environments_are_never_compared(tables: Mapping[str, pd.DataFrame]) -> None:
    found = records(study())
    for cell, record in found.items():
        if cell.arm == "small":
            record["software"] = {**record["software"], "torch": "2.8.0"}
    apart = build_tables(study(), collected(found))
    assert arm(apart, "small")["environment"] != arm(apart, "large")["environment"]
    assert pd.isna(arm(apart, "large")["test_accuracy_difference"])
    assert arm(apart, "warm")["test_accuracy_gain"] == pytest.approx(0.20)


def version_1(record: dict[str, Any]) -> dict[str, Any]:
    """The record as version 1 of the measurement wrote it."""
    since = ("warm_up_s", "seeds", "validation_checksum", "validation_loss", "validation_accuracy")
    epochs = [{key: value for key, value in epoch.items() if key not in since} for epoch in record["epochs"]]
    kept = {key: value for key, value in record.items() if key not in since}
    settings = {key: value for key, value in record["settings"].items() if key != "validation_images"}
    return {**kept, "measurement_version": 1, "settings": settings, "epochs": epochs}


def test_records_of_version_1_are_shown_and_never_compared_with_newer_ones(tmp_path: Path) -> None:
    wanted = study()
    for cell, record in records(wanted).items():
        write_record("training", tmp_path / cell.path, version_1(record) if cell.arm != "warm" else record)
    collected = collect(tmp_path, plan(wanted).all_cells, wanted.settings)
    assert not collected.rejected
    tables = build_tables(wanted, collected)
    versions = tables["environments"].set_index("measurement_versions")["older_measurements"]
    assert versions.fillna("").to_dict() == {"training 1": "training 1", "training 2": ""}
    assert arm(tables, "large")["test_accuracy_difference"] == pytest.approx(-0.21), "of one version"
    warm = arm(tables, "warm")
    assert warm["environment"] != arm(tables, "large")["environment"]
    assert pd.isna(warm["test_accuracy_difference"]) and pd.isna(warm["test_accuracy_gain"])
    assert pd.isna(warm["recovered"]) and pd.isna(warm["recovered_status"])


def test_records_that_the_schema_allows_are_found_again(tmp_path: Path) -> None:
    wanted = study()
    found = records(wanted)
    for cell, record in found.items():
        write_record("training", tmp_path / cell.path, record)
    collected = collect(tmp_path, plan(wanted).all_cells, wanted.settings)
    assert collected.records == found
    rows = build_tables(wanted, collected)["records"]
    assert set(rows["kind"]) == {"training"}
    assert set(rows[rows["arm"] == "large"]["gpus"]) == {4}

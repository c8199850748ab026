"""What arms come to, from records whose accuracies are known."""

import math
from typing import Any

import pytest

from cases import cases
from dpscale.analyse.answer.claims import REMEDY_LEVEL
from dpscale.analyse.tables import build_tables
from dpscale.plan.plan import plan
from dpscale.plan.study import Study
from dpscale.tables.tables import Tables
from dpscale.tables.training import TrainingSummaryRow
from record_factory import collected_of, training_record
from rows import one

Records = dict[Any, dict[str, Any]]  # by cell

STUDY = Study(cases(__file__, "study"))
LAST = cases(__file__, "test_accuracy")


def records() -> Records:
    written = {}
    for cell in plan(STUDY).training:
        if cell.arm == "wild":
            written[cell] = training_record(cell, [0.3, None] if cell.seed < 3 else [0.2, 0.25])
        else:
            last = LAST[cell.arm][cell.seed - 1]
            written[cell] = training_record(cell, [last - 0.3, last - 0.2, last - 0.1, last - 0.005, last])
    return written


def tables_of(written: Records) -> Tables:
    return build_tables(STUDY, collected_of(written))


@pytest.fixture(scope="module")
def tables() -> Tables:
    return tables_of(records())


def arm(tables: Tables, name: str) -> TrainingSummaryRow:
    return one(tables.training_summary, arm=name)


def test_means_and_spreads_are_over_seeds_after_the_last_epoch(tables: Tables) -> None:
    row = arm(tables, "large")
    assert row.test_accuracy.value == pytest.approx(0.50)
    # Student's t for 2 degrees of freedom is 4.303.
    half = row.test_accuracy.high - row.test_accuracy.value
    assert half == pytest.approx(4.3027 * 0.02 / math.sqrt(3), rel=1e-4)
    assert (row.status, row.seeds, row.diverged, row.remedies) == ("ok", 3, 0, "")
    assert row.gpu_s == pytest.approx(4 * 5 * 2.0)


def test_a_loss_of_tests_that_was_not_finite_has_no_mean() -> None:
    written = records()
    next(record for cell, record in written.items() if cell.arm == "large")["epochs"][-1]["test_loss"] = None
    row = arm(tables_of(written), "large")
    assert not row.test_loss.is_known
    assert row.test_accuracy.value == pytest.approx(0.50)


def test_arms_are_compared_with_the_baseline_by_welchs_interval(tables: Tables) -> None:
    difference = arm(tables, "large").test_accuracy_difference
    # Variances 0.0001 and 0.0004 over 3 seeds each: 2.94 degrees of freedom, t = 3.2132 (tables of t).
    assert difference.high == pytest.approx(-0.21 + 3.2132 * math.sqrt((0.0001 + 0.0004) / 3), abs=2e-4)
    assert difference.value == pytest.approx(-0.21)
    small = arm(tables, "small")
    assert small.is_baseline and not small.test_accuracy_difference.is_known


def test_arms_of_one_place_are_compared_seed_by_seed(tables: Tables) -> None:
    row = arm(tables, "warm")
    # Differences 0.21, 0.20 and 0.19; Student's t for 2 degrees of freedom is 4.303.
    half = row.test_accuracy_gain.high - row.test_accuracy_gain.value
    assert half == pytest.approx(4.3027 * 0.01 / math.sqrt(3), rel=1e-4)


def test_a_remedy_is_compared_with_the_same_arm_without_it(tables: Tables) -> None:
    row, large = arm(tables, "warm"), arm(tables, "large")
    assert (row.remedies, row.without_remedies) == ("optimiser lars, warmup_epochs 1", "large")
    assert row.test_accuracy_gain.value == pytest.approx(0.20) and row.test_accuracy_gain.is_above(0)
    none = arm(tables, "same-order")
    assert none.test_accuracy_gain.holds(0)
    assert (none.remedies, none.lacks, none.without_remedies) == ("", "set_epoch off", "large")
    assert (large.lacks, large.without_remedies) == ("", "")
    asked = {row.arm for row in REMEDY_LEVEL.of(tables.training_summary).asked}
    assert asked == {"warm"}, "what an arm lacks is no remedy"


def test_time_to_a_target_counts_the_epochs_until_every_seed_is_there(tables: Tables) -> None:
    small, warm, large = (arm(tables, name) for name in ("small", "warm", "large"))
    # After four epochs the baseline's seeds are at 0.695, 0.705 and 0.715, the remedy's at 0.685, 0.695 and 0.705.
    assert small.time_to_target_s == pytest.approx(2.0 * 4)
    assert warm.time_to_target_s == pytest.approx(2.0 * (5 + 4 + 4) / 3)
    assert math.isnan(large.time_to_target_s)


def test_an_arm_that_diverged_has_no_mean_over_the_seeds_that_were_lucky(tables: Tables) -> None:
    row = arm(tables, "wild")
    assert (row.status, row.reason) == ("diverged", "2 of 3 seeds diverged")
    assert not (row.test_accuracy.is_known or row.test_accuracy_difference.is_known)


def test_arms_that_were_not_trained_say_why(tables: Tables) -> None:
    untried = arm(tables, "untried")
    assert (untried.status, untried.reason, untried.seeds) == ("not run", "needs 8 GPUs, 4 here", 0)
    assert {row.status for row in tables_of({}).training_summary} == {"missing", "not run"}
    partly = {cell: record for cell, record in records().items() if (cell.arm, cell.seed) != ("large", 2)}
    large = arm(tables_of(partly), "large")
    assert (large.status, large.reason, large.seeds) == ("ok", "seed 2 missing", 2)

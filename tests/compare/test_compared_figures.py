"""Figures side by side: nothing is told of the same, what differs by how much, and what one study alone has."""

import math
from typing import Any

import pytest

from dpscale.compare.figures import NO_INTERVAL, NOT_APART, SUBJECTS
from dpscale.formulas.statistics import welch_difference
from dpscale.plan.cells import AnyCell
from two_studies import ACCURACIES, compared, of, out_of_memory, slower, study

# Whole studies, again and again.
pytestmark = pytest.mark.slow


def outcomes(rows: Any) -> set[str]:
    return {row.outcome for row in rows}


def test_nothing_is_told_of_a_study_and_itself() -> None:
    tables = compared(slower(1)).tables
    for name, subject in SUBJECTS.items():
        rows = getattr(tables, name)
        assert {row.effect.value for row in rows} == {1.0 if subject.is_ratio else 0.0}
        assert outcomes(rows) == {NOT_APART}
    counted = of(tables.outcomes, table="compared_times", quantity="epoch_s", scope="all")
    assert [(row.number, row.not_apart, row.with_interval, row.ratio_median) for row in counted] == [(15, 15, 15, 1)]
    assert counted[0].by_chance == pytest.approx(0.05 * 15)


@pytest.mark.parametrize("factor", [0.2, 0.94, 1.06, math.pi])
def test_a_study_that_is_k_times_slower_is_one_over_k_times_as_fast(factor: float) -> None:
    tables = compared(slower(factor)).tables
    for row in tables.times:
        assert (row.ratio.value, row.change.value) == pytest.approx((1 / factor, factor - 1))
        assert row.ratio.holds(row.ratio.value)
        assert row.change.low <= row.change.value <= row.change.high
    assert outcomes(tables.times) == {"slower" if factor > 1 else "faster"}
    assert [row.ratio.value for row in tables.speedup] == pytest.approx([1] * len(tables.speedup))
    assert outcomes(tables.speedup) == {NOT_APART}


def test_the_second_study_is_the_one_that_changed() -> None:
    tables = compared(slower(1.2, "ddp")).tables
    place: dict[str, Any] = {"strategy": "ddp", "gpus": 2, "batch_per_gpu": 512}
    (ddp,) = of(tables.times, quantity="epoch_s", **place)
    assert (ddp.study, ddp.outcome) == ("after", "slower")
    assert (ddp.first.value, ddp.second.value) == pytest.approx((1.18, 1.2 * 1.18))
    (speedup,) = of(tables.speedup, **place)
    assert speedup.ratio.value == pytest.approx(1 / 1.2)
    assert speedup.outcome == "lower"
    assert outcomes(row for row in tables.times if row.strategy != "ddp") == {NOT_APART}


def test_communication_is_compared_by_differences() -> None:
    rows = compared(slower(1.2, "ddp")).tables.communication
    (e1,) = of(rows, strategy="ddp", gpus=4, batch_per_gpu=512, quantity="communication_step_s")
    assert e1.difference.value == pytest.approx(0.2 * 0.591 * 4 * 512 / 50_000, rel=1e-6)
    assert e1.outcome == "longer"
    assert {row.strategy for row in of(rows, quantity="ablation_step_s")} == {"ddp"}, "dp has no hook to leave out"
    assert outcomes(of(rows, quantity="isolated_step_s")) == {NOT_APART}


def test_faster_links_have_more_bandwidth() -> None:
    def change(cell: AnyCell, record: dict[str, Any]) -> None:
        for result in record.get("collectives", []):
            result["seconds"] = [seconds / 1.5 for seconds in result["seconds"]]

    rows = compared(change).tables.collectives
    copies = of(rows, operation="peer_copy")
    assert outcomes(copies) == {NOT_APART}
    assert None not in {row.source for row in copies} | {row.target for row in copies}
    assert {(round(row.ratio.value, 9), row.outcome) for row in rows if row not in copies} == {(1.5, "higher")}


def test_arms_are_compared_over_seeds() -> None:
    def change(cell: AnyCell, record: dict[str, Any]) -> None:
        if cell.coordinates.get("arm") == "large":
            for epoch in record["epochs"]:
                epoch["test_accuracy"] += 0.15

    large, small = of(compared(change).tables.training, quantity="test_accuracy")
    welch = welch_difference([accuracy + 0.15 for accuracy in ACCURACIES["large"]], ACCURACIES["large"])
    assert (large.difference.value, *large.difference.interval) == pytest.approx((welch.value, *welch.interval))
    assert (large.arm, large.outcome) == ("large", "higher")
    assert (small.arm, small.outcome) == ("small", NOT_APART)


def test_an_arm_whose_seeds_did_not_all_end_well_is_not_compared() -> None:
    def change(cell: AnyCell, record: dict[str, Any]) -> None:
        if cell.coordinates.get("arm") == "large" and cell.coordinates["seed"] == 2:
            record["diverged"] = True

    (row,) = of(compared(change).tables.training, arm="large", quantity="test_accuracy")
    assert (row.second_status, row.difference.is_known, row.outcome) == ("diverged", False, "")
    assert "1 of 3 seeds diverged" in row.second_reason


def test_what_one_study_alone_has_is_listed_with_its_state() -> None:
    tables = compared(
        out_of_memory(lambda at: (at.strategy, at.batch_per_gpu) == ("dp", 32)), study(batch_per_gpu=[32, 128])
    ).tables
    times = of(tables.times, quantity="epoch_s")
    alone = of(times, outcome="")
    assert {row.second_status for row in of(alone, batch_per_gpu=512)} == {"not planned"}
    assert {(row.second_status, row.second_reason) for row in of(alone, batch_per_gpu=32)} == {
        ("oom", "out of memory in warm-up")
    }
    assert (len(alone), len(times)) == (5 + 2, 15)


def test_a_single_timing_is_not_called_faster() -> None:
    def once(cell: AnyCell, record: dict[str, Any]) -> None:
        for scope in record.get("scopes", {}).values():
            scope |= {"epoch_s": [0.001], "step_s_median": [0.001]}

    rows = compared(once, study(runs=1)).tables.times
    assert outcomes(rows) == {NO_INTERVAL}
    assert all(row.ratio.is_known for row in rows)


def test_two_runs_have_a_range_and_so_no_interval_to_compare() -> None:
    rows = compared(slower(3), study(runs=2)).tables.speedup
    assert outcomes(rows) == {NO_INTERVAL}
    assert not any(row.second.is_range or math.isfinite(row.second.low) for row in rows)

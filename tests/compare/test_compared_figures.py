"""Figures side by side: nothing is told of the same, what differs by how much, and what one study alone has."""

import math
from collections.abc import Iterable
from typing import Any

import pytest

from dpscale.compare.figures import NO_DIFFERENCE, SUBJECTS
from dpscale.compare.rows import ComparedFiguresRow
from dpscale.plan.cells import AnyCell
from rows import picked
from two_studies import paired, slower

# Whole studies, again and again.
pytestmark = pytest.mark.slow


def outcomes(rows: Iterable[ComparedFiguresRow]) -> set[str]:
    return {row.outcome for row in rows}


def test_nothing_is_told_of_a_study_and_itself() -> None:
    pair = paired(slower(1))
    for subject in SUBJECTS:
        rows = picked(pair.figures, table=subject.table)
        assert {(row.change if subject.is_change else row.difference).value for row in rows} == {0.0}
        assert {row.change.is_known for row in rows} == {subject.is_change}
        assert outcomes(rows) == {NO_DIFFERENCE}


@pytest.mark.parametrize("factor", [0.94, math.pi])
def test_a_study_that_is_k_times_slower_changes_by_k_less_one(factor: float) -> None:
    pair = paired(slower(factor))
    times, speedups = picked(pair.figures, table="times"), picked(pair.figures, table="speedup")
    assert [row.change.value for row in times] == pytest.approx([factor - 1] * len(times))
    assert all(row.change.holds(row.change.value) for row in times)
    assert all(row.second.value / row.first.value - 1 == pytest.approx(row.change.value) for row in times)
    assert outcomes(times) == {"slower" if factor > 1 else "faster"}
    assert [row.change.value for row in speedups] == pytest.approx([0] * len(speedups), abs=1e-9)
    assert outcomes(speedups) == {NO_DIFFERENCE}


def test_communication_is_compared_by_differences() -> None:
    rows = picked(paired(slower(1.2, "ddp")).figures, table="communication")
    (e1,) = picked(rows, strategy="ddp", gpus=4, batch_per_gpu=512, quantity="communication_step_s")
    assert e1.difference.value == pytest.approx(0.2 * 0.591 * 4 * 512 / 50_000, rel=1e-6)
    assert e1.outcome == "longer"
    ablations = picked(rows, quantity="ablation_step_s")
    assert picked(ablations, strategy="ddp") == ablations, "dp has no hook to leave out"
    assert outcomes(picked(rows, quantity="isolated_step_s")) == {NO_DIFFERENCE}


def test_faster_links_have_more_bandwidth() -> None:
    def change(cell: AnyCell, record: dict[str, Any]) -> None:
        for result in record.get("collectives", []):
            result["seconds"] = [seconds / 1.5 for seconds in result["seconds"]]

    rows = picked(paired(change).figures, table="collectives")
    copies = picked(rows, operation="peer_copy")
    assert copies and not picked(copies, source=None) and not picked(copies, target=None)
    assert outcomes(copies) == {NO_DIFFERENCE}
    assert {(round(row.change.value, 9), row.outcome) for row in rows if row not in copies} == {(0.5, "higher")}


def test_arms_are_compared_over_seeds() -> None:
    def change(cell: AnyCell, record: dict[str, Any]) -> None:
        if cell.coordinates.get("arm") == "large":
            for epoch in record["epochs"]:
                epoch["test_accuracy"] += 0.15

    large, small = picked(paired(change).figures, table="training_summary", quantity="test_accuracy")
    assert large.difference.value == pytest.approx(0.15)
    reach = (large.first.high - large.first.low) / math.sqrt(2)  # of two arms that spread alike
    assert large.difference.interval == pytest.approx((0.15 - reach, 0.15 + reach))
    assert (large.outcome, small.outcome) == ("higher", NO_DIFFERENCE)

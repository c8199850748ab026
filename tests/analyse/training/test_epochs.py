"""Curves over seeds, and orders of samples that repeat."""

from dataclasses import replace
from math import nan

import pytest

from dpscale.analyse.training.epochs import curve_rows, order_rows
from dpscale.tables.training import TrainingEvidenceRow, TrainingRow, TrainingSummaryRow


def epoch(seed: int, accuracy: float) -> TrainingRow:
    status = "ok" if accuracy == accuracy else "diverged"
    return TrainingRow(
        arm="a",
        environment="A",
        epoch=1,
        status=status,
        training_loss=accuracy,
        test_accuracy=accuracy,
        epoch_s=2.0 * seed,
    )


def test_curves_are_means_between_the_least_and_the_most_seed() -> None:
    summary = [TrainingSummaryRow(arm="a", environment=letter, compared_with=f"of {letter}") for letter in "AB"]
    (row,) = curve_rows([epoch(1, 0.2), epoch(2, 0.4), epoch(3, nan)], summary)
    assert (row.seeds, row.diverged, row.compared_with) == (3, 1, "of A")
    shown = row.test_accuracy
    assert (shown.low, shown.value, shown.high) == pytest.approx((0.2, 0.3, 0.4))
    assert row.epoch_s == pytest.approx(4)


def test_orders_that_repeat_are_counted_with_and_without_set_epoch() -> None:
    order = TrainingEvidenceRow(strategy="ddp", seen_before=0.5, same_place=0.1, set_epoch=True)
    without = replace(order, set_epoch=False, same_place=1.0)
    first = replace(without, same_place=nan)
    found = list(order_rows([order, replace(order, same_place=0.3), without, first]))
    assert [(row.set_epoch, row.orders, row.repeated) for row in found] == [(True, 2, 0), (False, 1, 1)]
    assert found[0].same_place == pytest.approx(0.2)

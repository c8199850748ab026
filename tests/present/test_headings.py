"""Headings of charts: the figures that they name follow the data."""

from typing import Any

import pandas as pd
from page_tables import (
    arm_row,
    epoch_row,
    tables,
)

from dpscale.present import headings
from dpscale.vocabulary.quantities import TEST_ACCURACY, TRAINING_LOSS


def curves(*rows: dict[str, Any]) -> pd.DataFrame:
    return tables(training=list(rows))["training_curves"]


def test_training_names_the_best_arm_and_the_baseline() -> None:
    first = [epoch_row("base", 1, epoch, 0.7) for epoch in (1, 2)]
    arms = [epoch_row("good", 1, 1, 0.2), epoch_row("good", 1, 2, 0.6), epoch_row("bad", 1, 1, 0.9)]
    arms.append(epoch_row("bad", 1, 2, 0.1))
    expected = "Test accuracy: good ends best, at 60.0 %; the baseline base at 70.0 %"
    assert headings.training(curves(*first, *arms), "base", TEST_ACCURACY) == expected
    assert headings.training(curves(*arms), "base", TEST_ACCURACY) == "Test accuracy: good ends best, at 60.0 %"
    alone = "Test accuracy: good ends at 60.0 %; the baseline base at 70.0 %"
    assert headings.training(curves(*first, *arms[:2]), "base", TEST_ACCURACY) == alone
    assert headings.training(curves(*first), "base", TEST_ACCURACY) == "Test accuracy: the baseline base at 70.0 %"
    assert headings.training(curves(*arms), None, TRAINING_LOSS) == "Training loss: good ends best, at 1.40"


def test_training_names_the_baseline_of_the_best_arm() -> None:
    """A tuned arm's is the tuned baseline, which does not end best itself."""
    found = [
        epoch_row(name, 1, 1, end) for name, end in (("base", 0.7), ("base-tuned", 0.8), ("plain", 0.4), ("tuned", 0.6))
    ]
    against = {"plain": "base", "tuned": "base-tuned"}
    part = tables(
        training=found, training_summary=[arm_row(name, 0.5, compared_with=of) for name, of in against.items()]
    )
    expected = "Test accuracy: tuned ends best, at 60.0 %; the baseline base-tuned at 80.0 %"
    assert headings.training(part["training_curves"], "base", TEST_ACCURACY) == expected


def test_arms_that_diverged_end_nowhere() -> None:
    wild = [epoch_row("wild", 1, 1, 0.9), epoch_row("wild", 1, 2, None), epoch_row("wild", 2, 2, 0.9)]
    expected = "Test accuracy: a seed of every arm diverged"
    assert headings.training(curves(*wild), None, TEST_ACCURACY) == expected
    tame = epoch_row("tame", 1, 2, 0.3)
    expected = "Test accuracy: tame ends best, at 30.0 %"
    assert headings.training(curves(*wild, tame), None, TEST_ACCURACY) == expected

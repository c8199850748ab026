"""The figures of training: loss and accuracy after every epoch, on linear axes. Colour says the arm."""

from itertools import cycle

import pandas as pd

from dpscale.present import headings, words
from dpscale.present.figure import Figure, figure, points
from dpscale.present.panel import Panel, Series
from dpscale.present.words import Terms
from dpscale.vocabulary.quantities import EPOCH_NUMBER, TEST_ACCURACY, TRAINING_LOSS, Quantity

_ARM_COLOURS = ("var(--single)", "var(--dp)", "var(--ddp)", "var(--caution)", "currentColor")
_BASELINE_COLOUR = "var(--quiet)"


def training_loss(curves: pd.DataFrame, baseline: str | None, terms: Terms) -> Figure:
    """Training loss after every epoch: a panel for every global batch that arms start with, and environment."""
    return _curves("training-loss", TRAINING_LOSS, curves, baseline, terms)


def test_accuracy(curves: pd.DataFrame, baseline: str | None, terms: Terms) -> Figure:
    """Test accuracy in % after every epoch: a panel for every global batch that arms start with, and environment."""
    return _curves("test-accuracy", TEST_ACCURACY, curves, baseline, terms)


def _curves(name: str, drawn: Quantity, curves: pd.DataFrame, baseline: str | None, terms: Terms) -> Figure:
    """Means over seeds against epochs, between the least and the most of all seeds. The baseline is in every panel."""
    unit = drawn.unit.shown
    is_baseline = curves["arm"] == baseline
    panels = []
    others = curves[~is_baseline] if len(curves[~is_baseline]) else curves
    places = ["global_batch", "environment"]
    for key in words.rows(others[places].drop_duplicates().sort_values(places)):
        same_place = curves["environment"] == key["environment"]
        part = curves[same_place & ((curves["global_batch"] == key["global_batch"]) | is_baseline)]
        panels.append(
            Panel(
                heading=headings.training(part, baseline, drawn),
                place=f"Global batch {key['global_batch']:,}{terms.environment(key)}",
                quantity=f"{drawn.label}{f' in {unit}' if unit else ''} against epoch; one line for each arm",
                x_title=EPOCH_NUMBER.label,
                y_title=drawn.heading,
                unit=unit,
                series=_arm_series(part, baseline, drawn),
                linear_x=True,
                linear_y=True,
            )
        )
    return figure(name, panels)


def _arm_series(part: pd.DataFrame, baseline: str | None, drawn: Quantity) -> list[Series]:
    series = []
    arms = part.groupby("arm", sort=False)
    for style, ((arm, rows), own_colour) in enumerate(zip(arms, cycle(_ARM_COLOURS), strict=False)):
        diverged = rows[rows["diverged"] > 0]["epoch"]
        # A mean over the seeds that are left when others diverged would look too good.
        whole = rows if diverged.empty else rows[rows["epoch"] < diverged.min()]
        means = points(whole, "epoch", drawn.column, drawn.unit)
        end = None if diverged.empty else (float(diverged.min()), "diverged")
        colour = _BASELINE_COLOUR if arm == baseline else own_colour
        if means:
            series.append(Series(str(arm), colour, style, means, end))
    return series

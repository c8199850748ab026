"""The figures of training: loss and accuracy after every epoch, and accuracy against cost. Colour says the arm."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import cycle

import pandas as pd

from dpscale.present import headings, words
from dpscale.present.charts.chart import Chart, chart_of_lines, joined
from dpscale.present.charts.frames import parts, point, points
from dpscale.present.charts.panel import Guide, Panel, Series, level
from dpscale.present.words import Terms
from dpscale.vocabulary.quantities import EPOCH_NUMBER, TEST_ACCURACY, TRAINING_LOSS, Quantity, quantity
from dpscale.vocabulary.states import BEST

_ARM_COLOURS = ("var(--single)", "var(--dp)", "var(--ddp)", "var(--caution)", "currentColor")
_BASELINE_COLOUR = "var(--quiet)"
# What an arm costs, and the column that says how it stands by that.
_COSTS = {"training_s": "by_time", "gpu_s": "by_gpu_s", "energy_j": "by_energy"}


def training_loss(curves: pd.DataFrame, baseline: str | None, terms: Terms) -> Chart:
    """Training loss after every epoch: a panel for every global batch that arms start with, and environment."""
    return chart_of_lines("training-loss", [panel for _, panel in _curves(TRAINING_LOSS, curves, baseline, terms)])


def test_accuracy(
    curves: pd.DataFrame, epochs: pd.DataFrame, baseline: str | None, target: float, terms: Terms
) -> Chart:
    """The same of test accuracy in %, with the target and, where lines end, a dot per seed: `epochs` are of seeds."""
    panels = [
        replace(
            panel,
            quantity=f"{panel.quantity}, a dot for each seed after the last epoch",
            guides=(_target(target, curves["epoch"]),),
            dots=[dot for line in panel.series for dot in _seeds(line, epochs[epochs["environment"] == environment])],
        )
        for environment, panel in _curves(TEST_ACCURACY, curves, baseline, terms)
    ]
    return chart_of_lines("test-accuracy", panels)


def _curves(drawn: Quantity, curves: pd.DataFrame, baseline: str | None, terms: Terms) -> Iterator[tuple[str, Panel]]:
    """Environments, with means over seeds against epochs, between the least and the most of all seeds. The baseline is
    in every panel, and so is what else its arms are compared with."""
    unit = drawn.unit.shown
    is_baseline = curves["arm"] == baseline
    others = curves[~is_baseline] if len(curves[~is_baseline]) else curves
    places = ["global_batch", "environment"]
    for key in words.rows(others[places].drop_duplicates().sort_values(places)):
        here = curves["environment"] == key["environment"]
        own = curves["global_batch"] == key["global_batch"]
        against = curves["arm"].isin(curves[here & own]["compared_with"].dropna())
        part = curves[here & (own | is_baseline | against)]
        panel = Panel(
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
        yield key["environment"], panel


def _target(target: float, along: pd.Series) -> Guide:
    return level("target", TEST_ACCURACY.unit.of(target), along)


def _seeds(line: Series, epochs: pd.DataFrame) -> list[tuple[float, float, str]]:
    """Place and colour of every seed's dot where an arm's line ends."""
    last = epochs[(epochs["arm"] == line.label) & (epochs["epoch"] == line.markers[-1].x)]
    ends = points(last, "epoch", TEST_ACCURACY.column, TEST_ACCURACY.unit)
    return [(end.x, end.y, line.colour) for end in ends]


def frontier(table: pd.DataFrame, target: float, terms: Terms, costs: Sequence[str] = tuple(_COSTS)) -> Chart:
    """Test accuracy in % after the training against what it costs: seconds, GPU-seconds and joules, a panel for each
    of the `costs` and for every environment."""
    return joined([_frontier(table, cost, _COSTS[cost], target, terms) for cost in costs])


def _frontier(table: pd.DataFrame, cost: str, verdict: str, target: float, terms: Terms) -> Chart:
    """Costs have axes of their own: they are different quantities."""
    drawn = quantity(cost, "frontier")
    panels = []
    known = table.dropna(subset=[cost]).assign(status="ok")
    for key, part in parts(known, ["environment"]):
        panels.append(
            Panel(
                heading=headings.frontier(part, drawn, verdict, terms),
                place=f"All arms{terms.environment(key)}",
                quantity=(
                    f"{TEST_ACCURACY.label} in {TEST_ACCURACY.unit.shown} after the training against "
                    f"{terms.heading_of(drawn)} (logarithmic); names are those of the Pareto-best, bars are 95 % "
                    "intervals"
                ),
                x_title=terms.heading_of(drawn),
                y_title=TEST_ACCURACY.heading,
                unit=TEST_ACCURACY.unit.shown,
                series=_frontier_series(part, cost, verdict),
                guides=(_target(target, part[cost]),),
                linear_y=True,
                anywhere=True,
            )
        )
    return chart_of_lines(f"frontier-{verdict.removeprefix('by_').replace('_', '-')}", panels)


def _frontier_series(part: pd.DataFrame, cost: str, verdict: str) -> list[Series]:
    """A point for every Pareto-best arm with its name, and one for every other arm."""
    is_best = part[verdict] == BEST
    others = points(part[~is_best], cost, TEST_ACCURACY.column, TEST_ACCURACY.unit)
    series = [Series("other arms", _BASELINE_COLOUR, len(part), others, joined=False)] if others else []
    for style, row in enumerate(words.rows(part[is_best].sort_values(cost))):
        best = [point(row, cost, TEST_ACCURACY.column, TEST_ACCURACY.unit)]
        series.append(Series(str(row["arm"]), "var(--ddp)", style, best, joined=False))
    return series


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

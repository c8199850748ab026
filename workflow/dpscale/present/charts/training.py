"""The chart of training: test accuracy after every epoch. Colour says the arm."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle

from dpscale.present.charts.lines import DrawnSeries, Panel, chart_of_lines, level, markers
from dpscale.present.charts.picture import Chart
from dpscale.present.text.numbers import measured
from dpscale.present.text.words import Terms
from dpscale.tables.column import EPOCH_NUMBER, PERCENT, TEST_ACCURACY
from dpscale.tables.row import grouped
from dpscale.tables.training import TrainingCurvesRow

_ARM_COLOURS = ("var(--single)", "var(--dp)", "var(--ddp)", "var(--caution)", "currentColor")
_BASELINE_COLOUR = "var(--quiet)"

Curves = Sequence[TrainingCurvesRow]
Arms = Mapping[str, Curves]


def test_accuracy(curves: Curves, baseline: str | None, target: float, terms: Terms) -> Chart:
    """Draw means over seeds against epochs, in %, between the least and the most of all seeds: a panel for every global
    batch that arms start with, and environment. The baseline is in every panel, and so is what else its arms are
    compared with."""
    return chart_of_lines("test-accuracy", list(_panels(curves, baseline, target, terms)))


def _panels(curves: Curves, baseline: str | None, target: float, terms: Terms) -> Iterator[Panel]:
    large = [row for row in curves if row.arm != baseline] or curves
    for batch, environment in sorted({(row.global_batch, row.environment) for row in large}):
        in_environment = [row for row in curves if row.environment == environment]
        bases = {baseline, *(row.compared_with for row in in_environment if row.global_batch == batch)}
        drawn = [row for row in in_environment if row.global_batch == batch or row.arm in bases]
        arms = grouped(drawn, lambda row: row.arm)
        yield Panel(
            heading=_best_end(arms, baseline),
            place=f"Global batch {batch:,}{terms.environment(drawn[0])}",
            quantity="One line for each arm",
            x_title=EPOCH_NUMBER.label,
            y_title=TEST_ACCURACY.heading,
            unit=TEST_ACCURACY.unit.shown,
            series=_lines(arms, baseline),
            guides=(level("target", PERCENT.of(target), (row.epoch for row in curves)),),
            linear_x=True,
            linear_y=True,
        )


def _lines(arms: Arms, baseline: str | None) -> list[DrawnSeries]:
    """Return a line for every arm, up to where the first of its seeds diverged: the mean of the rest would look too
    good."""
    series = []
    for style, ((arm, rows), arm_colour) in enumerate(zip(arms.items(), cycle(_ARM_COLOURS), strict=False)):
        diverged = min((row.epoch for row in rows if row.diverged), default=None)
        finite = [row for row in rows if diverged is None or row.epoch < diverged]
        means = markers(((row.epoch, row.test_accuracy) for row in finite), PERCENT)
        label = arm if diverged is None else f"{arm}, diverged"
        if means:
            colour = _BASELINE_COLOUR if arm == baseline else arm_colour
            series.append(DrawnSeries(label, colour, style, means))
    return series


def _best_end(arms: Arms, baseline: str | None) -> str:
    """`Test accuracy: b2048-lamb ends best, at 54.2 %; the baseline b128 at 71.3 %`: means over seeds.

    `arms` are the curves of arms and of what they are compared with: the study's `baseline`, or a tuned one. That of
    the best arm is named. Arms of which a seed diverged do not end.
    """
    ends = {arm: rows[-1].test_accuracy.value for arm, rows in arms.items() if not any(row.diverged for row in rows)}
    compared_with = {arm: rows[0].compared_with or baseline for arm, rows in arms.items()}
    large = [arm for arm in arms if arm not in (baseline, *compared_with.values())]
    best = max(filter(ends.__contains__, large), key=ends.__getitem__, default="")
    clauses = ["a seed of every arm diverged"] if large else []
    if best:
        clauses = [f"{best} ends{' best,' if len(large) > 1 else ''} at {measured(ends[best], PERCENT)}"]
    if (base := compared_with.get(best, baseline)) in ends:
        clauses.append(f"the baseline {base} at {measured(ends[base], PERCENT)}")
    return f"Test accuracy: {'; '.join(clauses) or 'a seed of every arm diverged'}"

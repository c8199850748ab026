"""Charts of training: test accuracy after every epoch, and against time. Colour says the arm."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import cycle

from dpscale.present.charts.chart import Chart, chart_of_lines
from dpscale.present.charts.panel import DrawnSeries, Guide, Panel, level, markers
from dpscale.present.text.numbers import measured
from dpscale.present.text.words import Terms
from dpscale.tables.column import PERCENT, SECONDS
from dpscale.tables.quantities import EPOCH_NUMBER, TEST_ACCURACY
from dpscale.tables.row import grouped
from dpscale.tables.training import FrontierRow, TrainingCurvesRow
from dpscale.vocabulary.states import BEST

_ARM_COLOURS = ("var(--single)", "var(--dp)", "var(--ddp)", "var(--caution)", "currentColor")
_BASELINE_COLOUR = "var(--quiet)"
_TIME = FrontierRow.column("training_s")

Curves = Sequence[TrainingCurvesRow]


def test_accuracy(curves: Curves, baseline: str | None, target: float, terms: Terms) -> Chart:
    """Means over seeds against epochs, in %, between the least and the most of all seeds: a panel for every global
    batch that arms start with, and environment. The baseline is
    in every panel, and so is what else its arms are compared with."""
    return chart_of_lines("test-accuracy", list(_panels(curves, baseline, target, terms)))


def _panels(curves: Curves, baseline: str | None, target: float, terms: Terms) -> Iterator[Panel]:
    others = [row for row in curves if row.arm != baseline] or curves
    for batch, environment in sorted({(row.global_batch, row.environment) for row in others}):
        here = [row for row in curves if row.environment == environment]
        against = {row.compared_with for row in here if row.global_batch == batch}
        part = [row for row in here if row.global_batch == batch or row.arm == baseline or row.arm in against]
        yield Panel(
            heading=_best_end(part, baseline),
            place=f"Global batch {batch:,}{terms.environment(part[0])}",
            quantity="One line for each arm",
            x_title=EPOCH_NUMBER.label,
            y_title=TEST_ACCURACY.heading,
            unit=TEST_ACCURACY.unit.shown,
            series=_lines(part, baseline),
            guides=(_target(target, (row.epoch for row in curves)),),
            linear_x=True,
            linear_y=True,
        )


def _lines(part: Curves, baseline: str | None) -> list[DrawnSeries]:
    """A line for every arm, up to where the first of its seeds diverged: the mean of the others would look too good."""
    series = []
    arms = grouped(part, lambda row: row.arm).items()
    for style, ((arm, rows), own_colour) in enumerate(zip(arms, cycle(_ARM_COLOURS), strict=False)):
        diverged = min((row.epoch for row in rows if row.diverged), default=None)
        whole = [row for row in rows if diverged is None or row.epoch < diverged]
        means = markers(((row.epoch, row.test_accuracy) for row in whole), PERCENT)
        label = arm if diverged is None else f"{arm}, diverged"
        if means:
            colour = _BASELINE_COLOUR if arm == baseline else own_colour
            series.append(DrawnSeries(label, colour, style, means))
    return series


def _best_end(part: Curves, baseline: str | None) -> str:
    """`Test accuracy: b2048-lamb ends best, at 54.2 %; the baseline b128 at 71.3 %`: means over seeds.

    `part` has the curves of arms and of what they are compared with: the study's `baseline`, or a tuned one. That of
    the best arm is named. Arms of which a seed diverged do not end.
    """
    curves = grouped(part, lambda row: row.arm)
    ends = {
        arm: max(rows, key=lambda row: row.epoch).test_accuracy.value
        for arm, rows in curves.items()
        if not any(row.diverged for row in rows)
    }
    against = {arm: rows[0].compared_with or baseline for arm, rows in curves.items()}
    own = [arm for arm in curves if arm not in (baseline, *against.values())]
    known = {arm: ends[arm] for arm in own if arm in ends}
    parts, named = [], baseline
    if known:
        best = max(known, key=lambda arm: known[arm])
        parts.append(f"{best} ends{' best,' if len(own) > 1 else ''} at {measured(known[best], PERCENT)}")
        named = against[best]
    elif own:
        parts.append("a seed of every arm diverged")
    if named in ends:
        parts.append(f"the baseline {named} at {measured(ends[named], PERCENT)}")
    return f"Test accuracy: {'; '.join(parts) or 'a seed of every arm diverged'}"


def _target(target: float, along: Iterable[float]) -> Guide:
    return level("target", PERCENT.of(target), along)


def frontier(arms: Sequence[FrontierRow], target: float, terms: Terms) -> Chart:
    """Test accuracy in % after the training against the seconds that it takes, a panel for every environment."""
    known = [row for row in arms if row.training_s.is_known]
    panels = [
        Panel(
            heading=_best_ends(part),
            place=f"All arms{terms.environment(part[0])}",
            quantity="Names are those of the Pareto-best. Bars are 95 % intervals; time is logarithmic",
            x_title=terms.heading_of(_TIME),
            y_title=TEST_ACCURACY.heading,
            unit=TEST_ACCURACY.unit.shown,
            series=_arms(part),
            guides=(_target(target, (row.training_s.value for row in part)),),
            linear_y=True,
            anywhere=True,
        )
        for _, part in sorted(grouped(known, lambda row: row.environment).items())
    ]
    return chart_of_lines("frontier-time", panels)


def _best(part: Sequence[FrontierRow]) -> list[FrontierRow]:
    """The Pareto-best arms, the quickest first."""
    return sorted((row for row in part if row.by_time == BEST), key=lambda row: row.training_s.value)


def _arms(part: Sequence[FrontierRow]) -> list[DrawnSeries]:
    """A point for every Pareto-best arm with its name, and one for every other arm."""

    def points(rows: Iterable[FrontierRow], label: str, colour: str, style: int) -> DrawnSeries:
        found = markers(((row.training_s.value, row.test_accuracy) for row in rows), PERCENT)
        return DrawnSeries(label, colour, style, found, joined=False)

    best = _best(part)
    others = [row for row in part if row not in best]
    series = [points(others, "other arms", _BASELINE_COLOUR, len(part))] if others else []
    return series + [points([row], row.arm, "var(--ddp)", style) for style, row in enumerate(best)]


def _best_ends(part: Sequence[FrontierRow]) -> str:
    """`Pareto-best: from b2048-lars, 54.2 % for 10.2 s, to b128, 71.3 % for 14.4 s`: the two ends, by means."""
    best = _best(part)
    ends = [
        f"{row.arm}, {measured(row.test_accuracy.value, PERCENT)} for {measured(row.training_s.value, SECONDS)}"
        for row in (best[0], best[-1])
    ]
    return f"Pareto-best: {ends[0]}" if len(best) == 1 else f"Pareto-best: from {ends[0]}, to {ends[1]}"

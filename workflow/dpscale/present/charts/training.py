"""Charts of training: loss and accuracy after every epoch, and accuracy against cost. Colour says the arm."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import cycle

from dpscale.formulas.figure import Figure
from dpscale.present.charts.chart import Chart, chart_of_lines, joined
from dpscale.present.charts.panel import DrawnSeries, Guide, Panel, level, markers
from dpscale.present.text.numbers import measured
from dpscale.present.text.words import Terms
from dpscale.tables.column import Column
from dpscale.tables.quantities import EPOCH_NUMBER, TEST_ACCURACY
from dpscale.tables.row import grouped
from dpscale.tables.training import FrontierRow, TrainingCurvesRow, TrainingRow
from dpscale.vocabulary.states import BEST

_ARM_COLOURS = ("var(--single)", "var(--dp)", "var(--ddp)", "var(--caution)", "currentColor")
_BASELINE_COLOUR = "var(--quiet)"
# What an arm costs, and the column that says how it stands by that.
_COSTS = {"training_s": "by_time", "gpu_s": "by_gpu_s", "energy_j": "by_energy"}

Curves = Sequence[TrainingCurvesRow]


def training_loss(curves: Curves, baseline: str | None, terms: Terms) -> Chart:
    """Training loss after every epoch: a panel for every global batch that arms start with, and environment."""
    drawn = TrainingCurvesRow.column("training_loss")
    return chart_of_lines("training-loss", [panel for _, panel in _panels(drawn, curves, baseline, terms)])


def test_accuracy(
    curves: Curves, epochs: Sequence[TrainingRow], baseline: str | None, target: float, terms: Terms
) -> Chart:
    """The same of test accuracy in %, with the target and, where lines end, a dot per seed: `epochs` are of seeds."""
    drawn = TrainingCurvesRow.column("test_accuracy")
    panels = [
        replace(
            panel,
            quantity=f"{panel.quantity}, a dot for each seed after the last epoch",
            guides=(_target(target, (row.epoch for row in curves)),),
            dots=[
                (row.epoch, drawn.unit.of(row.test_accuracy), line.colour)
                for line in panel.series
                for row in epochs
                if (row.arm, row.epoch, row.environment) == (line.label, line.markers[-1].x, environment)
            ],
        )
        for environment, panel in _panels(drawn, curves, baseline, terms)
    ]
    return chart_of_lines("test-accuracy", panels)


def _panels(drawn: Column, curves: Curves, baseline: str | None, terms: Terms) -> Iterator[tuple[str, Panel]]:
    """Environments, with means over seeds against epochs, between the least and the most of all seeds. The baseline is
    in every panel, and so is what else its arms are compared with."""
    unit = drawn.unit.shown
    others = [row for row in curves if row.arm != baseline] or curves
    for batch, environment in sorted({(row.global_batch, row.environment) for row in others}):
        here = [row for row in curves if row.environment == environment]
        against = {row.compared_with for row in here if row.global_batch == batch}
        part = [row for row in here if row.global_batch == batch or row.arm == baseline or row.arm in against]
        panel = Panel(
            heading=_best_end(part, baseline, drawn),
            place=f"Global batch {batch:,}{terms.environment(part[0])}",
            quantity=f"{drawn.label}{f' in {unit}' if unit else ''} against epoch; one line for each arm",
            x_title=EPOCH_NUMBER.label,
            y_title=drawn.heading,
            unit=unit,
            series=_lines(part, baseline, drawn),
            linear_x=True,
            linear_y=True,
        )
        yield environment, panel


def _of(row: TrainingCurvesRow | FrontierRow, drawn: Column) -> Figure:
    figure: Figure = getattr(row, drawn.name)
    return figure


def _lines(part: Curves, baseline: str | None, drawn: Column) -> list[DrawnSeries]:
    series = []
    arms = grouped(part, lambda row: row.arm).items()
    for style, ((arm, rows), own_colour) in enumerate(zip(arms, cycle(_ARM_COLOURS), strict=False)):
        # A mean over the seeds that are left when others diverged would look too good.
        diverged = min((row.epoch for row in rows if row.diverged), default=None)
        whole = [row for row in rows if diverged is None or row.epoch < diverged]
        means = markers(((row.epoch, _of(row, drawn)) for row in whole), drawn.unit)
        end = None if diverged is None else (float(diverged), "diverged")
        if means:
            series.append(DrawnSeries(arm, _BASELINE_COLOUR if arm == baseline else own_colour, style, means, end))
    return series


def _best_end(part: Curves, baseline: str | None, drawn: Column) -> str:
    """`Test accuracy: b2048-lamb ends best, at 54.2 %; the baseline b128 at 71.3 %`: means over seeds.

    `part` has the curves of arms and of what they are compared with: the study's `baseline`, or a tuned one. That of
    the best arm is named. Arms of which a seed diverged do not end.
    """
    curves = grouped(part, lambda row: row.arm)
    ends = {
        arm: _of(max(rows, key=lambda row: row.epoch), drawn).value
        for arm, rows in curves.items()
        if not any(row.diverged for row in rows)
    }
    against = {arm: rows[0].compared_with or baseline for arm, rows in curves.items()}
    own = [arm for arm in curves if arm not in (baseline, *against.values())]
    known = {arm: ends[arm] for arm in own if arm in ends}
    parts, named = [], baseline
    if known:
        best = (min if drawn.name == "training_loss" else max)(known, key=lambda arm: known[arm])
        parts.append(f"{best} ends{' best,' if len(own) > 1 else ''} at {measured(known[best], drawn.unit)}")
        named = against[best]
    elif own:
        parts.append("a seed of every arm diverged")
    if named in ends:
        parts.append(f"the baseline {named} at {measured(ends[named], drawn.unit)}")
    return f"{drawn.label}: {'; '.join(parts) or 'a seed of every arm diverged'}"


def _target(target: float, along: Iterable[float]) -> Guide:
    return level("target", TEST_ACCURACY.unit.of(target), along)


def frontier(arms: Sequence[FrontierRow], target: float, terms: Terms, costs: Sequence[str] = tuple(_COSTS)) -> Chart:
    """Test accuracy in % after the training against what it costs: seconds, GPU-seconds and joules, a panel for each
    of the `costs` and for every environment. Costs have axes of their own: they are different quantities."""
    return joined([_frontier(arms, FrontierRow.column(cost), target, terms) for cost in costs])


def _frontier(arms: Sequence[FrontierRow], drawn: Column, target: float, terms: Terms) -> Chart:
    known = [row for row in arms if _of(row, drawn).is_known]
    panels = [
        Panel(
            heading=_best_ends(part, drawn, terms),
            place=f"All arms{terms.environment(part[0])}",
            quantity=(
                f"{TEST_ACCURACY.label} in {TEST_ACCURACY.unit.shown} after the training against "
                f"{terms.heading_of(drawn)} (logarithmic); names are those of the Pareto-best, bars are 95 % intervals"
            ),
            x_title=terms.heading_of(drawn),
            y_title=TEST_ACCURACY.heading,
            unit=TEST_ACCURACY.unit.shown,
            series=_arms(part, drawn),
            guides=(_target(target, (_of(row, drawn).value for row in part)),),
            linear_y=True,
            anywhere=True,
        )
        for _, part in sorted(grouped(known, lambda row: row.environment).items())
    ]
    return chart_of_lines(f"frontier-{_COSTS[drawn.name].removeprefix('by_').replace('_', '-')}", panels)


def _best(part: Sequence[FrontierRow], drawn: Column) -> list[FrontierRow]:
    """The Pareto-best arms by this cost, the cheapest first."""
    best = [row for row in part if getattr(row, _COSTS[drawn.name]) == BEST]
    return sorted(best, key=lambda row: _of(row, drawn).value)


def _arms(part: Sequence[FrontierRow], drawn: Column) -> list[DrawnSeries]:
    """A point for every Pareto-best arm with its name, and one for every other arm."""

    def points(rows: Iterable[FrontierRow], label: str, colour: str, style: int) -> DrawnSeries:
        found = markers(((_of(row, drawn).value, row.test_accuracy) for row in rows), TEST_ACCURACY.unit)
        return DrawnSeries(label, colour, style, found, joined=False)

    best = _best(part, drawn)
    others = [row for row in part if row not in best]
    series = [points(others, "other arms", _BASELINE_COLOUR, len(part))] if others else []
    return series + [points([row], row.arm, "var(--ddp)", style) for style, row in enumerate(best)]


def _best_ends(part: Sequence[FrontierRow], drawn: Column, terms: Terms) -> str:
    """`Pareto-best: from b2048-lars, 54.2 % for 10.2 s, to b128, 71.3 % for 14.4 s`: the two ends, by means."""
    unit = "" if drawn.unit.shown else f" {terms.label(drawn)}"
    best = _best(part, drawn)
    ends = [
        f"{row.arm}, {measured(row.test_accuracy.value, TEST_ACCURACY.unit)} for "
        f"{measured(_of(row, drawn).value, drawn.unit)}{unit}"
        for row in (best[0], best[-1])
    ]
    return f"Pareto-best: {ends[0]}" if len(best) == 1 else f"Pareto-best: from {ends[0]}, to {ends[1]}"

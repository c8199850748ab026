"""Charts of what more devices gain: efficiency against batch, and speedup.

Colour says the strategy; marker shape and dashes say whether loading is in the clock; a label stands at the end of
every line. Colours are CSS variables of the page, so that dark mode and print follow. A heading
names figures and where they were measured. Whether a difference is more than noise is for `findings`.
"""

from collections.abc import Sequence
from operator import attrgetter

from dpscale.analyse.answer.series import of_configuration
from dpscale.analyse.timing.times import HEADLINE_STEPS, WORTH
from dpscale.formulas.figure import Figure
from dpscale.present.charts.chart import Chart, chart_of_lines
from dpscale.present.charts.panel import DrawnSeries, Guide, Panel, level, markers
from dpscale.present.findings.finding import largest
from dpscale.present.text.numbers import estimate
from dpscale.present.text.words import (
    AtBatch,
    Terms,
    capitalised,
    colour,
    headline,
    on_nodes,
)
from dpscale.tables.answer import AnswerRow
from dpscale.tables.column import PERCENT
from dpscale.tables.quantities import BATCH, EFFICIENCY, SPEEDUP
from dpscale.tables.row import grouped, in_groups
from dpscale.tables.timing import SpeedupRow

NO_HEADLINE = f"No epoch has {HEADLINE_STEPS} full steps"


def at_batch(row: AtBatch, terms: Terms) -> str:
    """`dp on 4 GPUs at batch 8,192`, as headings have it."""
    return f"{terms.group(row)} at batch {row.batch_per_gpu:,}"


def efficiency(gains: Sequence[SpeedupRow], terms: Terms) -> Chart:
    """Efficiency of a weak series in % against batch, with and without loading: a panel for every number of GPUs and
    environment, the most GPUs first."""
    panels = [
        Panel(
            heading=_best_efficiency(part, terms),
            place=f"{terms.count(part[0].gpus)}{on_nodes(row.nodes for row in part)}{terms.environment(part[0])}",
            quantity=f"Efficiency in % against {terms.batch}; one line for each strategy, without and with loading",
            x_title=terms.heading_of(BATCH),
            y_title=EFFICIENCY.heading,
            unit=EFFICIENCY.unit.shown,
            series=_lines_of_efficiency(part),
            guides=(level("100 %", EFFICIENCY.unit.of(1), (row.batch_per_gpu for row in part)),),
            linear_y=True,
            shaded_below=EFFICIENCY.unit.of(WORTH),
        )
        for part in reversed(in_groups(gains, attrgetter("gpus", "environment")))
    ]
    return chart_of_lines("efficiency", panels)


def speedup(answer: Sequence[AnswerRow], gains: Sequence[SpeedupRow], terms: Terms) -> Chart:
    """Speedup in a weak series against number of devices, of the answer's strategy, scope and environment: a line per
    batch."""
    known = [row for row in answer if row.speedup.is_known and row.gpus > 1]
    if not known:
        return chart_of_lines("speedup", [])
    most = known[-1]
    here = (most.strategy, most.scope, most.environment)
    part = [row for row in headline(gains) if (row.strategy, row.scope, row.environment) == here]
    panel = Panel(
        heading=f"Speedup of {most.strategy} on 1 to {terms.count(most.gpus)}",
        place=capitalised(terms.scope(most)),
        quantity=f"{SPEEDUP.label} in {SPEEDUP.unit.shown} against {terms.devices}; one line for each {terms.batch}",
        x_title=terms.heading,
        y_title=SPEEDUP.heading,
        unit=SPEEDUP.unit.shown,
        series=_lines_of_speedup(part, most.batch_per_gpu),
        guides=[Guide("ideal", (1, 1), (most.gpus, most.gpus))],
    )
    return chart_of_lines("speedup", [panel])


def _lines_of_speedup(part: Sequence[SpeedupRow], batch: int) -> list[DrawnSeries]:
    """That at the batch of the answer is the strategy's colour, the others are quiet."""
    return [
        DrawnSeries(
            f"batch {line[0].batch_per_gpu:,}",
            colour(line[0].strategy) if line[0].batch_per_gpu == batch else "var(--quiet)",
            style,
            markers([(1.0, Figure(1.0)), *((row.gpus, row.speedup) for row in line)], SPEEDUP.unit),
        )
        for style, line in enumerate(in_groups(part, attrgetter("batch_per_gpu")))
    ]


def _lines_of_efficiency(part: Sequence[SpeedupRow]) -> list[DrawnSeries]:
    """Solid lines without loading, dashes with it; colour says the strategy."""
    return [
        DrawnSeries(
            strategy if scope == "compute" else f"{strategy}, loading",
            colour(strategy),
            0 if scope == "compute" else 1,
            markers(((row.batch_per_gpu, row.efficiency) for row in line), EFFICIENCY.unit),
        )
        for (strategy, scope), line in grouped(part, lambda row: (row.strategy, row.scope)).items()
    ]


def _best_efficiency(part: Sequence[SpeedupRow], terms: Terms) -> str:
    """`ddp on 4 GPUs at batch 512: 96.6 % [94.6, 98.6], with loading 79 % [40, 155]`: the best without loading, and the
    same with it."""
    shown = headline(part)
    if not shown:
        return NO_HEADLINE
    first = min(row.scope for row in shown)
    best = largest((row for row in shown if row.scope == first), lambda row: row.efficiency.value)
    loaded = [row for row in of_configuration(shown, best) if row.scope != first]
    with_loading = f", with loading {_percent(loaded[0].efficiency)}" if loaded else ""
    return f"{at_batch(best, terms)}: {_percent(best.efficiency)}{with_loading}"


def _percent(figure: Figure) -> str:
    return estimate(figure, PERCENT, with_unit=True, digits=3)

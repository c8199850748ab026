"""Charts of forecasts: how good they are where they can be held against a measurement, and what they say."""

from collections.abc import Iterable, Sequence
from itertools import cycle

from dpscale.analyse.forecast.basis import FORECAST
from dpscale.formulas.figure import Figure
from dpscale.present.charts.axes import between
from dpscale.present.charts.chart import Chart, chart_of_lines
from dpscale.present.charts.panel import DrawnSeries, Guide, Marker, Panel, markers
from dpscale.present.findings.finding import largest
from dpscale.present.text.numbers import estimate, percent
from dpscale.present.text.words import Terms, colour, listed, ok, scope
from dpscale.tables.column import PERCENT
from dpscale.tables.forecast import ForecastRow
from dpscale.tables.quantities import BATCH, EFFICIENCY
from dpscale.tables.row import grouped
from dpscale.tables.timing import SpeedupRow
from dpscale.vocabulary.states import HELD_OUT, NOT_MEASURED, SCENARIO

_COLOURS = ("var(--single)", "var(--dp)", "var(--ddp)", "var(--caution)", "currentColor")
# One device has all of its own speed, by definition.
_ALONE = Marker(1, Figure(PERCENT.of(1)))


def held_out(table: Sequence[ForecastRow], terms: Terms) -> Chart:
    """Error in % of ddp's step as predicted from fewer GPUs, against batch: a panel for every environment and GPUs."""
    panels = []
    scored = _in_order(row for row in ok(table) if row.kind == HELD_OUT)
    for part in grouped(scored, lambda row: (row.environment, row.gpus)).values():
        first = part[0]
        predicted = markers(((row.batch_per_gpu, row.relative_error) for row in part), PERCENT)
        unchanged = markers(((row.batch_per_gpu, Figure(row.carried_over_relative_error)) for row in part), PERCENT)
        series = [DrawnSeries("predicted", colour(FORECAST), 0, predicted)]
        if unchanged:
            series.append(DrawnSeries("unchanged", "var(--dp)", 2, unchanged))
        panels.append(
            Panel(
                heading=_worst_error(part, terms),
                place=f"{FORECAST} on {terms.count(first.gpus)}{terms.environment(first)}",
                quantity=(
                    f"Error of the step in % against {terms.batch}: predicted, and the step on "
                    f"{terms.count(first.calibrated_on_gpus)} unchanged. Bars are 95 % intervals"
                ),
                x_title=terms.heading_of(BATCH),
                y_title="Error of the step, %",
                unit="%",
                series=series,
                linear_y=True,
            )
        )
    return chart_of_lines("held-out", panels)


def _worst_error(part: Sequence[ForecastRow], terms: Terms) -> str:
    """`Step on 4 GPUs predicted from 2: at most 0.88 % off, at batch 32`."""
    most = largest(part, lambda row: abs(row.relative_error.value))
    return (
        f"Step on {terms.count(most.gpus)} predicted from {most.calibrated_on_gpus}: "
        f"{'at most ' if len(part) > 1 else ''}{percent(most.relative_error.value, digits=2)} off, "
        f"at batch {most.batch_per_gpu:,}"
    )


def forecast(table: Sequence[ForecastRow], speedup: Sequence[SpeedupRow], epoch_images: int, terms: Terms) -> Chart:
    """ddp's efficiency in % against GPUs, measured and forecast: a panel for every environment.

    `epoch_images` are those of an epoch, or its samples.
    """
    panels = []
    predicted = _in_order(row for row in ok(table) if row.kind in NOT_MEASURED)
    for environment, expected in grouped(predicted, lambda row: row.environment).items():
        first = expected[0].gpus
        before = [row for row in speedup if _is_before(row, environment, first)]
        panels.append(
            Panel(
                heading=_furthest(expected, terms),
                place=f"{FORECAST}, {scope('compute')}{terms.environment(expected[0])}",
                quantity=(
                    f"Efficiency in % against number of {terms.devices}; one line for each batch per {terms.device} "
                    f"(b) in {terms.samples}. Markers are measured steps with 95 % intervals; dashes without markers "
                    f"are forecast, bands hold all algorithms and intervals{_from_where_a_scenario(expected, terms)}"
                    f"{_beyond_an_epoch(expected, epoch_images, terms)}"
                ),
                x_title=f"Number of {terms.devices}",
                y_title=EFFICIENCY.heading,
                unit=EFFICIENCY.unit.shown,
                series=_lines_ahead(before, expected),
                guides=_node_border(before),
                linear_y=True,
                forecast_from=between(max([1, *(row.gpus for row in before)]), first),
            )
        )
    return chart_of_lines("forecast", panels)


def _is_before(row: SpeedupRow, environment: str, first_gpus: int) -> bool:
    """Whether a row is measured on fewer GPUs than are forecast."""
    is_weak = row.status == "ok" and row.scaling == "weak" and row.scope == "compute"
    return is_weak and row.strategy == FORECAST and row.environment == environment and row.gpus < first_gpus


def _lines_ahead(before: Sequence[SpeedupRow], expected: Sequence[ForecastRow]) -> list[DrawnSeries]:
    """Lines through what was measured, on 1 GPU 100 % by definition, and on through what is forecast."""
    series = []
    # Solid lines would look measured: style 0 is left out.
    for style, (batch, line_colour) in enumerate(zip(_batches(expected), cycle(_COLOURS), strict=False), start=1):
        known = ((row.gpus, row.efficiency_from_steps) for row in before if row.batch_per_gpu == batch)
        ahead = ((row.gpus, row.efficiency) for row in expected if row.batch_per_gpu == batch)
        line = [_ALONE, *markers(known, PERCENT), *markers(ahead, PERCENT, measured=False)]
        series.append(DrawnSeries(f"b = {batch:,}", line_colour, style, line))
    return series


def _batches(expected: Sequence[ForecastRow]) -> list[int]:
    return sorted({row.batch_per_gpu for row in expected})


def _node_border(before: Sequence[SpeedupRow]) -> list[Guide]:
    """Where one node ends, if more were measured."""
    several = [row.gpus for row in before if (row.nodes or 1) > 1]
    if not several:
        return []
    border = between(max((row.gpus for row in before if row.nodes == 1), default=1), min(several))
    return [Guide("several nodes", (border, PERCENT.of(0)), (border, PERCENT.of(1)))]


def _from_where_a_scenario(expected: Sequence[ForecastRow], terms: Terms) -> str:
    scenarios = [row.gpus for row in expected if row.kind == SCENARIO]
    if not scenarios:
        return ""
    return f". From {terms.count(min(scenarios))} on a scenario: links between nodes were not measured"


def _beyond_an_epoch(expected: Sequence[ForecastRow], epoch_images: int, terms: Terms) -> str:
    """From where on a step would take more images than there are: what a forecast supposes there."""
    most = {row.batch_per_gpu: row.gpus_at_most for row in expected if row.gpus_at_most and row.gpus > row.gpus_at_most}
    if not most:
        return ""
    named = listed([f"{most[batch]:,} {terms.devices} at b = {batch:,}" for batch in sorted(most)])
    samples = f"{epoch_images:,} {terms.samples}"
    return f". The {samples} of an epoch make a step on at most {named}: more suppose a larger dataset"


def _furthest(expected: Sequence[ForecastRow], terms: Terms) -> str:
    """`Scenario for 1,024 GPUs: efficiency 79.0 % [12.6, 89.3] at batch 32, 99.0 % [96.1, 99.2] at 8,192`.

    It is called a forecast where links like those of so many devices were measured.
    """
    furthest = [row for row in expected if row.gpus == expected[-1].gpus]
    called = "Scenario" if furthest[0].kind == SCENARIO else "Forecast"
    ends = {row.batch_per_gpu: estimate(row.efficiency, PERCENT, with_unit=True) for row in furthest}
    least, most = min(ends), max(ends)
    heading = f"{called} for {terms.count(expected[-1].gpus)}: efficiency {ends[least]} at batch {least:,}"
    return heading if least == most else f"{heading}, {ends[most]} at {most:,}"


def _in_order(rows: Iterable[ForecastRow]) -> list[ForecastRow]:
    return sorted(rows, key=lambda row: (row.gpus, row.batch_per_gpu, row.environment))

"""The figures of steps: what they are made of, how communication is estimated, and what is forecast. As in `charts`."""

from collections.abc import Sequence
from itertools import cycle
from math import nan

import pandas as pd

from dpscale.analyse.forecast.basis import FORECAST
from dpscale.formulas.figure import Figure
from dpscale.present import headings, words
from dpscale.present.charts.axes import between
from dpscale.present.charts.bars import Bar, Bars, Share, Stage, Waterfall
from dpscale.present.charts.chart import (
    Chart,
    chart_of_bars,
    chart_of_lines,
    chart_of_waterfalls,
    joined,
    side_by_side,
)
from dpscale.present.charts.frames import parts, point, points
from dpscale.present.charts.panel import Guide, Marker, Panel, Series, level
from dpscale.present.finding import headline
from dpscale.present.words import Row, Terms
from dpscale.strategies.known import BASELINE
from dpscale.vocabulary import quantities
from dpscale.vocabulary.quantities import (
    E1,
    E2,
    E3,
    E3_EXPOSED,
    E3_LEAST,
    E4_EXPOSED,
    E5,
    EFFICIENCY,
    PERCENT,
    quantity,
)
from dpscale.vocabulary.states import DISTORTED, HELD_OUT, NOT_MEASURED, SCENARIO, WHOLE_STEP

# The shares of a step that are drawn, with the quantity that each is a share of.
_PARTS = {
    "compute_share": "compute_s",
    "communication_share": "communication_s",
    "copy_share": "copy_s",
    "idle_share": "idle_s",
}
_PART_COLOURS = {
    "compute_share": "var(--single)",
    "communication_share": "var(--dp)",
    "copy_share": "var(--caution)",
    "idle_share": None,
}
_COLOURS = ("var(--single)", "var(--dp)", "var(--ddp)", "var(--caution)", "currentColor")
# One of each of the five ways: what of the communication is exposed, where a way tells that.
_ESTIMATES = {
    E1: "currentColor",
    E2: "var(--dp)",
    E3_EXPOSED: "var(--single)",
    E4_EXPOSED: "var(--caution)",
    E5: "var(--ddp)",
}
# In the table there are more; the heading names those that are furthest apart.
_NAMED = (E1, E2, E3, E3_EXPOSED, E3_LEAST, E4_EXPOSED, E5)
# Estimates that are left out where the profiler changes the step that it looks at.
_OF_PROFILER = (E3, E3_EXPOSED, E3_LEAST)
_GROUP = ["strategy", "gpus", "environment"]


def ladders(table: pd.DataFrame, terms: Terms) -> Chart:
    """From the step of one device alone to the whole step, in ms of the timing cell's step: a panel a configuration.

    Without a timing cell there is no headline step, and no panel.
    """
    known = table.dropna(subset=["part_of_headline_s"]).assign(status="ok")
    panels = []
    for key, part in parts(known, [*_GROUP, "batch_per_gpu"]):
        rungs = words.rows(part.sort_values("order"))
        panels.append(
            Waterfall(
                heading=headings.ladder(rungs, terms),
                place=f"{_place(key, terms)}, batch {int(key['batch_per_gpu']):,}",
                quantity=(
                    "What each change adds to a step, in ms of the headline step and in % of it; steps without a "
                    "profiler, in turns in one job. An outline takes time away"
                ),
                x_title="Step, ms",
                stages=_stages(rungs, terms),
            )
        )
    return chart_of_waterfalls("ladder", panels)


def _stages(rungs: Sequence[Row], terms: Terms) -> list[Stage]:
    stages: list[Stage] = []
    for row in rungs:
        adds = row["adds"] if words.is_known(row["adds"]) else f"1 {terms.device} alone"
        figures = [words.measured(row["part_of_headline_s"], quantities.MILLISECONDS)]
        figures.append(words.measured(row["share"], PERCENT, digits=3))
        start = stages[-1].end if stages else 0.0
        end = quantities.MILLISECONDS.of(row["reached_of_headline_s"])
        colour = words.colour(str(row["strategy"]) if stages else BASELINE)
        stages.append(Stage(f"{adds}: {', '.join(figures)}", start, end, colour))
    return stages


def steps_beside_one(times: pd.DataFrame, communication: pd.DataFrame, terms: Terms) -> Chart:
    """The step of one device and of every strategy on more, in ms: a panel for every batch and environment.

    Where no ladder says what a step is made of, this says how much longer it is.
    """
    timed = headline(words.ok(times[times["scope"] == "compute"])).dropna(subset=["step_s"])
    several = timed[timed["gpus"] > 1]
    panels = []
    for key, part in parts(timed, ["batch_per_gpu", "environment"]):
        rows = words.rows(part)
        more = communication[communication["batch_per_gpu"] == key["batch_per_gpu"]]
        longer = {
            (row["strategy"], row["gpus"]): row for row in words.rows(more[more["environment"] == key["environment"]])
        }
        if rows[0]["strategy"] == BASELINE and len(rows) > 1 and rows[-1]["gpus"] == several["gpus"].max():
            panels.append(
                Waterfall(
                    heading=headings.step_beside_one(rows, terms),
                    place=f"Batch {int(key['batch_per_gpu']):,} per {terms.device}{terms.environment(key)}",
                    quantity=(
                        "A full step in ms, without loading; behind the sign what it is longer than on 1 "
                        f"{terms.device} (E1), with its 95 % interval, or in parentheses the range of two runs"
                    ),
                    x_title="Step, ms",
                    stages=[_step_stage(row, longer.get((row["strategy"], row["gpus"])), terms) for row in rows],
                )
            )
    return chart_of_waterfalls("step-beside-one", panels)


def _step_stage(row: Row, longer: Row | None, terms: Terms) -> Stage:
    text = f"{row['strategy']} on {terms.count(row['gpus'])}: {words.measured(row['step_s'], quantities.MILLISECONDS)}"
    if longer is not None and words.is_known(longer[E1.column]):
        sign = "+" if longer[E1.column] > 0 else ""
        text += f", {sign}{words.brief(longer, E1.column, E1.unit)}"
    return Stage(text, 0.0, quantities.MILLISECONDS.of(row["step_s"]), words.colour(str(row["strategy"])))


def steps(table: pd.DataFrame, terms: Terms) -> Chart:
    """Parts of a step of the first device, in % of it, by batch: a panel for every strategy, GPUs and environment."""
    whole = table[(table["phase"] == WHOLE_STEP) & (table["device"] == 0)].dropna(subset=list(_PARTS))
    panels = [
        Bars(
            heading=headings.step(part, _part_names(), terms),
            place=_place(key, terms),
            quantity=(
                f"Parts of a profiled step of {terms.device} 0 in %, by {terms.batch}; on the right the "
                "step in ms. Communication that compute hides is not in it"
            ),
            x_title="Share of the step, %",
            y_title=terms.heading_of(quantities.BATCH),
            bars=[_bar(row) for row in words.rows(part.sort_values("batch_per_gpu"))],
        )
        for key, part in parts(whole.assign(status="ok"), _GROUP)
    ]
    return chart_of_bars("steps", panels)


def _part_names() -> dict[str, str]:
    """What the parts of a step are called where there is little room, by the columns of their shares."""
    return {share: quantity(part, "steps").short for share, part in _PARTS.items()}


def _bar(row: Row) -> Bar:
    shares = [Share(name, _PART_COLOURS[column], PERCENT.of(row[column])) for column, name in _part_names().items()]
    step = words.measured(row["parts_s"], quantity("parts_s", "steps").unit)
    return Bar(f"{int(row['batch_per_gpu']):,}", shares, step)


def estimates(table: pd.DataFrame, terms: Terms) -> Chart:
    """Communication of a step in ms at every batch, by every estimate, as dots beside each other: a panel for every
    strategy, GPUs and environment. Zero is on the axis; it is that of the strategy, as strategies differ by much."""
    measured = table.dropna(subset=["training_step_s", "isolated_step_s"], how="all").assign(status="ok")
    of_profiler = [f"{estimate.column}{end}" for estimate in _OF_PROFILER for end in ("", "_low", "_high")]
    measured.loc[measured["profiler"] == DISTORTED, of_profiler] = nan
    charts = []
    for strategy in dict.fromkeys(words.in_order(measured)["strategy"]):
        panels = [
            _estimates_of(part, _place(key, terms), terms)
            for key, part in parts(measured[measured["strategy"] == strategy], _GROUP)
        ]
        charts.append(chart_of_lines(f"estimates-{strategy}", [panel for panel in panels if panel.series]))
    return joined(charts)


def _estimates_of(part: pd.DataFrame, place: str, terms: Terms) -> Panel:
    dots = [
        Series(drawn.short, colour, style, found, joined=False)
        for style, (drawn, colour) in enumerate(_ESTIMATES.items())
        if (found := points(part, "batch_per_gpu", drawn.column, drawn.unit))
    ]
    batches = part["batch_per_gpu"].astype(float)
    return Panel(
        heading=headings.estimates(part, _NAMED, terms),
        place=place,
        quantity=(
            f"Communication of a step in ms at each {terms.batch}, a dot for each estimate; bars are 95 % intervals"
        ),
        x_title=terms.heading_of(quantities.BATCH),
        y_title=f"Communication of a step, {E1.unit.shown}",
        unit=E1.unit.shown,
        series=side_by_side(dots),
        guides=(level("zero", 0, batches),),
        linear_y=True,
    )


def held_out(table: pd.DataFrame, terms: Terms) -> Chart:
    """Error in % of ddp's step as predicted from fewer GPUs, against batch: a panel for every environment and GPUs."""
    panels = []
    for key, part in parts(table[table["kind"] == HELD_OUT], ["environment", "gpus"]):
        scored = words.ok(part)
        fewer = terms.count(int(scored["calibrated_on_gpus"].iloc[0]))
        unchanged = points(scored, "batch_per_gpu", "carried_over_relative_error", PERCENT)
        predicted = points(scored, "batch_per_gpu", "relative_error", PERCENT)
        series = [Series("predicted", words.colour(FORECAST), 0, predicted)]
        if unchanged:
            series.append(Series("unchanged", "var(--dp)", 2, unchanged))
        panels.append(
            Panel(
                heading=headings.held_out(scored, terms),
                place=_place({"strategy": FORECAST, **key}, terms),
                quantity=(
                    f"Error of the step in % against {terms.batch}: predicted, and the step on "
                    f"{fewer} unchanged. Bars are 95 % intervals"
                ),
                x_title=terms.heading_of(quantities.BATCH),
                y_title="Error of the step, %",
                unit="%",
                series=series,
                linear_y=True,
            )
        )
    return chart_of_lines("held-out", panels)


def forecast(table: pd.DataFrame, speedup: pd.DataFrame, epoch_images: int, terms: Terms) -> Chart:
    """ddp's efficiency in % against GPUs, measured and forecast: a panel for every environment.

    `epoch_images` are those of an epoch, or its samples.
    """
    weak = words.ok(speedup)
    weak = weak[(weak["scaling"] == "weak") & (weak["scope"] == "compute") & (weak["strategy"] == FORECAST)]
    panels = []
    for key, part in parts(table[table["kind"].isin(NOT_MEASURED)], ["environment"]):
        expected = words.ok(part)
        measured = weak[weak["environment"] == key["environment"]]
        first = float(expected["gpus"].min())
        before = measured[measured["gpus"] < first]
        panels.append(
            Panel(
                heading=headings.forecast(expected, terms),
                place=f"{FORECAST}, {words.scope('compute')}{terms.environment(key)}",
                quantity=(
                    f"Efficiency in % against number of {terms.devices}; one line for each batch per {terms.device} "
                    f"(b) in {terms.samples}. Markers are measured steps with 95 % intervals; dashes without markers "
                    f"are forecast, bands hold all algorithms and intervals{_from_where_a_scenario(expected, terms)}"
                    f"{_beyond_an_epoch(expected, epoch_images, terms)}"
                ),
                x_title=f"Number of {terms.devices}",
                y_title=EFFICIENCY.heading,
                unit=EFFICIENCY.unit.shown,
                series=_efficiency_series(before, expected),
                guides=_node_border(before),
                linear_y=True,
                forecast_from=between(max([1.0, *before["gpus"].astype(float)]), first),
            )
        )
    return chart_of_lines("forecast", panels)


def _node_border(measured: pd.DataFrame) -> list[Guide]:
    """Where one node ends, if more were measured."""
    several = measured[measured["nodes"] > 1]
    if several.empty:
        return []
    most_on_one = measured[measured["nodes"] == 1]["gpus"].max()
    border = between(1.0 if pd.isna(most_on_one) else float(most_on_one), float(several["gpus"].min()))
    return [Guide("several nodes", (border, PERCENT.of(0)), (border, PERCENT.of(1)))]


def _from_where_a_scenario(expected: pd.DataFrame, terms: Terms) -> str:
    scenarios = expected[expected["kind"] == SCENARIO]
    if scenarios.empty:
        return ""
    fewest = terms.count(int(scenarios["gpus"].min()))
    return f". From {fewest} on a scenario: links between nodes were not measured"


def _beyond_an_epoch(expected: pd.DataFrame, epoch_images: int, terms: Terms) -> str:
    """From where on a step would take more images than there are: what a forecast supposes there."""
    beyond = expected[expected["gpus"] > expected["gpus_at_most"]]
    if beyond.empty:
        return ""
    of_batches = words.rows(beyond.sort_values("batch_per_gpu").drop_duplicates("batch_per_gpu"))
    most = words.listed([
        f"{int(row['gpus_at_most']):,} {terms.devices} at b = {int(row['batch_per_gpu']):,}" for row in of_batches
    ])  # fmt: skip
    samples = f"{epoch_images:,} {terms.samples}"
    return f". The {samples} of an epoch make a step on at most {most}: more suppose a larger dataset"


def _efficiency_series(measured: pd.DataFrame, expected: pd.DataFrame) -> list[Series]:
    """Lines through what was measured, on 1 GPU 100 % by definition, and on through what is forecast."""
    series = []
    colours = cycle(_COLOURS)
    # Solid lines would look measured: style 0 is left out.
    for style, batch in enumerate(sorted({int(batch) for batch in expected["batch_per_gpu"]}), start=1):
        known = points(measured[measured["batch_per_gpu"] == batch], "gpus", "efficiency_from_steps", PERCENT)
        ahead = [
            point(row, "gpus", "efficiency", PERCENT, marked=False)
            for row in words.rows(expected[expected["batch_per_gpu"] == batch].sort_values("gpus"))
        ]
        series.append(Series(f"b = {batch:,}", next(colours), style, [_ALONE, *known, *ahead]))
    return series


# One device has all of its own speed, by definition.
_ALONE = Marker(1, Figure(PERCENT.of(1)))


def _place(key: Row, terms: Terms) -> str:
    return f"{terms.group(key)}{terms.environment(key)}"

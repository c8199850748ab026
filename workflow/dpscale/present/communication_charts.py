"""The figures of steps: what they are made of, how communication is estimated, and what is forecast. As in `charts`."""

from math import nan, sqrt

import pandas as pd

from dpscale.analyse.columns import EXTRAPOLATED, HELD_OUT, WHOLE_STEP
from dpscale.present import headings, words
from dpscale.present.bars import Bar, Bars, Part
from dpscale.present.figure import PANELS_DRAWN, Figure, figure, figure_of_bars, parts, points
from dpscale.present.panel import Panel, Point, Series
from dpscale.present.words import Row, Words

_MS = 1e3
_PERCENT = 100
_PARTS = {"compute_s": "compute", "communication_s": "communication", "copy_s": "copies", "idle_s": "idle"}
_PART_COLOURS = {
    "compute_s": "var(--single)",
    "communication_s": "var(--dp)",
    "copy_s": "var(--caution)",
    "idle_s": None,
}
_ESTIMATES = {
    "communication_step_s": "E1 subtraction",
    "ablation_step_s": "E2 ablation",
    "profiler_step_s": "E3 all",
    "profiler_exposed_step_s": "E3 exposed",
    "profiler_least_step_s": "E3 least wait",
    "logger_exposed_step_s": "E4 logger",
    "isolated_step_s": "E5 alone",
}
_COLOURS = ("var(--single)", "var(--dp)", "var(--ddp)", "var(--caution)", "currentColor")
_ESTIMATE_COLOURS = {
    "communication_step_s": "currentColor",
    "ablation_step_s": "var(--dp)",
    "profiler_step_s": "var(--single)",
    "profiler_exposed_step_s": "var(--single)",
    "profiler_least_step_s": "var(--single)",
    "logger_exposed_step_s": "var(--caution)",
    "isolated_step_s": "var(--ddp)",
}
_ENDS = ("", "_low", "_high")
_GROUP = ["strategy", "gpus", "environment"]


def steps(table: pd.DataFrame, say: Words) -> Figure:
    """Parts of a step of the first device, in % of it, by batch: a panel for every strategy, GPUs and environment."""
    whole = table[(table["phase"] == WHOLE_STEP) & (table["device"] == 0)]
    panels = [
        Bars(
            heading=headings.step(part, _PARTS, say),
            place=_place(key, say),
            quantity=(
                f"Parts of a profiled step of {say.device} 0 in %, by batch per {say.device} in images; on the right "
                "the step in ms. Communication that compute hides is not in it"
            ),
            x_title="Share of the step, %",
            y_title=f"Batch per {say.device}, images",
            bars=[_bar(row) for row in words.rows(part.sort_values("batch_per_gpu"))],
        )
        for key, part in parts(whole.assign(status="ok"), _GROUP)
    ]
    return figure_of_bars("steps", panels)


def _bar(row: Row) -> Bar:
    shares = [
        Part(name, _PART_COLOURS[column], row[column] / row["parts_s"] * _PERCENT) for column, name in _PARTS.items()
    ]
    return Bar(f"{int(row['batch_per_gpu']):,}", shares, f"{words.figure(row['parts_s'] * _MS, 3)} ms")


def estimates(table: pd.DataFrame, say: Words) -> Figure:
    """Communication of a step in ms against batch, by every estimate: a panel for every strategy, GPUs, environment."""
    measured = table.dropna(subset=["training_step_s", "isolated_step_s"], how="all").assign(status="ok")
    drawn = [f"{name}{end}" for name in _ESTIMATES for end in _ENDS]
    measured = measured[[*_GROUP, "batch_per_gpu", "status", *drawn]]
    panels: list[Panel] = []
    not_drawn: list[str] = []
    for key, part in parts(measured, _GROUP):
        series = [
            Series(name, _ESTIMATE_COLOURS[column], style, above)
            for style, (column, name) in enumerate(_ESTIMATES.items())
            if (above := [point for point in points(part, "batch_per_gpu", column, _MS) if point.y > 0])
        ]
        if series:
            panels.append(
                Panel(
                    heading=headings.estimates(part, _ESTIMATES, say),
                    place=_place(key, say),
                    quantity=(
                        f"Communication of a step in ms against batch per {say.device} in images; one line for each "
                        "estimate"
                    ),
                    x_title=f"Batch per {say.device}, images",
                    y_title="Communication of a step, ms",
                    unit="ms",
                    series=series,
                )
            )
        if len(panels) <= PANELS_DRAWN:
            not_drawn += _below_zero(part, _place(key, say))
    return figure("estimates", panels, not_drawn)


def _below_zero(part: pd.DataFrame, place: str) -> list[str]:
    """What an axis without zero cannot show, in words."""
    values = []
    for column, name in _ESTIMATES.items():
        found = points(part, "batch_per_gpu", column, _MS)
        below = [f"{words.figure(point.y, 3)} ms at batch {point.x:,.0f}" for point in found if point.y <= 0]
        values += [f"{name} is {words.listed(below)}"] if below else []
    return [f"{place}: at or below zero and so not on a logarithmic axis: {'; '.join(values)}."] if values else []


def held_out(table: pd.DataFrame, say: Words) -> Figure:
    """Error in % of ddp's step as predicted from fewer GPUs, against batch: a panel for every environment and GPUs."""
    panels = []
    for key, part in parts(table[table["kind"] == HELD_OUT], ["environment", "gpus"]):
        scored = words.ok(part)
        fewer = say.count(int(scored["calibrated_on_gpus"].iloc[0]))
        unchanged = [
            Point(float(row["batch_per_gpu"]), row["carried_over_relative_error"] * _PERCENT, nan, nan)
            for row in words.rows(scored.dropna(subset=["carried_over_relative_error"]).sort_values("batch_per_gpu"))
        ]
        series = [Series("predicted", "var(--ddp)", 0, points(scored, "batch_per_gpu", "relative_error", _PERCENT))]
        if unchanged:
            series.append(Series("unchanged", "var(--dp)", 2, unchanged))
        panels.append(
            Panel(
                heading=headings.held_out(scored, say),
                place=_place({"strategy": "ddp", **key}, say),
                quantity=(
                    f"Error of the step in % against batch per {say.device} in images: predicted, and the step on "
                    f"{fewer} unchanged. Bars are 95 % intervals"
                ),
                x_title=f"Batch per {say.device}, images",
                y_title="Error of the step, %",
                unit="%",
                series=series,
                linear_y=True,
            )
        )
    return figure("held-out", panels)


def forecast(table: pd.DataFrame, speedup: pd.DataFrame, images: int, say: Words) -> Figure:
    """ddp's efficiency in % against GPUs, measured and forecast: a panel for every environment.

    `images` are those of an epoch.
    """
    weak = words.ok(speedup)
    weak = weak[(weak["scaling"] == "weak") & (weak["scope"] == "compute") & (weak["strategy"] == "ddp")]
    panels = []
    for key, part in parts(table[table["kind"] == EXTRAPOLATED], ["environment"]):
        expected = words.ok(part)
        measured = weak[weak["environment"] == key["environment"]]
        first = float(expected["gpus"].min())
        last = max([1.0, *measured[measured["gpus"] < first]["gpus"].astype(float)])
        panels.append(
            Panel(
                heading=headings.forecast(expected, say),
                place=f"ddp, {words.scope('compute')}{say.environment(key)}",
                quantity=(
                    f"Efficiency in % against number of {say.devices}; one line for each batch per {say.device} (b) in "
                    "images. Markers are measured steps with 95 % intervals; dashes without markers are forecast, "
                    f"bands hold all algorithms and intervals{_beyond_an_epoch(expected, images, say)}"
                ),
                x_title=f"Number of {say.devices}",
                y_title="Efficiency, %",
                unit="%",
                series=_efficiency_series(measured[measured["gpus"] < first], expected),
                linear_y=True,
                forecast_from=sqrt(last * first),
            )
        )
    return figure("forecast", panels)


def _beyond_an_epoch(expected: pd.DataFrame, images: int, say: Words) -> str:
    """From where on a step would take more images than there are: what a forecast supposes there."""
    beyond = expected[expected["gpus"] * expected["batch_per_gpu"] > images]
    batches = sorted({int(batch) for batch in beyond["batch_per_gpu"]})
    if not batches:
        return ""
    most = words.listed([f"{images // batch:,} {say.devices} at b = {batch:,}" for batch in batches])
    return f". The {images:,} images of an epoch make a step on at most {most}: more suppose a larger dataset"


def _efficiency_series(measured: pd.DataFrame, expected: pd.DataFrame) -> list[Series]:
    """Lines through what was measured, on 1 GPU 100 % by definition, and on through what is forecast."""
    series = []
    for place, batch in enumerate(sorted({int(batch) for batch in expected["batch_per_gpu"]})):
        line = expected[expected["batch_per_gpu"] == batch]
        known = [
            Point(float(row["gpus"]), *(row[f"speedup_from_steps{end}"] / row["gpus"] * _PERCENT for end in _ENDS))
            for row in words.rows(measured[measured["batch_per_gpu"] == batch].sort_values("gpus"))
        ]
        ahead = [
            Point(point.x, point.y, point.low, point.high, marked=False)
            for point in points(line, "gpus", "efficiency", _PERCENT)
        ]
        alone = [Point(1, _PERCENT, nan, nan)]
        # Solid lines would look measured: style 0 is left out.
        series.append(Series(f"b = {batch:,}", _COLOURS[place % len(_COLOURS)], place + 1, [*alone, *known, *ahead]))
    return series


def _place(key: Row, say: Words) -> str:
    return f"{key['strategy']} on {say.count(int(key['gpus']))}{say.environment(key)}"

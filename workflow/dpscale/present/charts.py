"""The figures: epoch time against batch, speedup against GPUs and the like, on logarithmic axes; curves of training.

Colour says the strategy, of curves the arm; marker shape and dashes say the number of GPUs or the batch; a label
stands at the end of every line. Colours are CSS variables of the page, so that dark mode and print follow.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import pandas as pd

from dpscale.present import words
from dpscale.present.panel import Frame, Panel, Point, Reference, Series, draw
from dpscale.present.svg import for_page
from dpscale.present.words import Row, Words

_OPERATION_COLOURS = {
    "allreduce": "var(--ddp)",
    "broadcast": "var(--dp)",
    "reduce": "var(--single)",
    "reduce_scatter": "var(--caution)",
    "all_gather": "var(--quiet)",
}
_ARM_COLOURS = ("var(--single)", "var(--dp)", "var(--ddp)", "var(--caution)", "currentColor")
_BASELINE_COLOUR = "var(--quiet)"
_PANELS_DRAWN = 8
_SERIES_DRAWN = 10
_POINTS_DRAWN = 40

Item = TypeVar("Item")


@dataclass(frozen=True)
class Chart:
    """One panel of a figure. The SVG carries its own title and description."""

    title: str
    subtitle: str
    svg: str


@dataclass(frozen=True)
class Figure:
    """The panels of a figure, and a sentence for all that was too much to draw."""

    charts: Sequence[Chart]
    not_drawn: Sequence[str]


def epoch_time(times: pd.DataFrame, say: Words) -> Figure:
    """Epoch time in s against batch per GPU in images: a panel for every scope and environment."""
    quantity = f"Epoch time in s against batch per {say.device} in images"
    panels = [
        Panel(
            title=words.capitalised(_place(key, say)),
            subtitle=f"{quantity}; one line for each strategy × {say.devices}",
            x_title=f"Batch per {say.device}, images",
            y_title="Epoch time, s",
            unit="s",
            series=_time_series(part),
        )
        for key, part in _parts(times, ["scope", "environment"])
    ]
    return _figure("epoch-time", panels)


def speedup(table: pd.DataFrame, scaling: str, say: Words) -> Figure:
    """Speedup against GPUs, `scaling` weak or strong: a panel for every scope, environment and strategy."""
    quantity = f"Speedup in × over 1 {say.device} against number of {say.devices}"
    held = f"batch per {say.device} (b)" if scaling == "weak" else "global batch (B)"
    panels = []
    for key, part in _parts(table[table["scaling"] == scaling], ["scope", "environment", "strategy"]):
        measured = words.ok(part)
        most = float(measured["gpus"].max())
        panels.append(
            Panel(
                title=f"{key['strategy']}, {_place(key, say)}",
                subtitle=f"{quantity}; one line for each {held} in images",
                x_title=f"Number of {say.devices}",
                y_title="Speedup, ×",
                unit="×",
                series=_speedup_series(measured, scaling),
                references=(Reference("ideal", most, 1, most), Reference("1×", most, 1, 1)),
            )
        )
    return _figure(f"speedup-{scaling}", panels)


def bus_bandwidth(table: pd.DataFrame, say: Words) -> Figure:
    """Bus bandwidth in GB/s against message size in KiB, of collectives alone: a panel for every number of GPUs and
    environment. The network's own sizes, which lie between those of the series, are left to the table."""
    quantity = "Bus bandwidth in GB/s against size of the message in KiB (1,024 bytes)"
    collectives = table[(table["operation"] != "peer_copy") & table["use"].isna()]
    collectives = collectives.assign(message_kib=collectives["message_bytes"] / 1024)
    panels = []
    for key in words.rows(collectives[["gpus", "environment"]].drop_duplicates()):
        part = collectives[(collectives["gpus"] == key["gpus"]) & (collectives["environment"] == key["environment"])]
        panels.append(
            Panel(
                title=f"{say.count(key['gpus'])}{say.environment(key)}",
                subtitle=f"{quantity}; one line for each collective",
                x_title="Message, KiB",
                y_title="Bus bandwidth, GB/s",
                unit="GB/s",
                series=[
                    Series(
                        str(operation).replace("_", "-"),
                        _OPERATION_COLOURS[str(operation)],
                        style,
                        _points(line, "message_kib", "bus_bandwidth_gb_s"),
                    )
                    for style, (operation, line) in enumerate(part.groupby("operation"))
                ],
            )
        )
    return _figure("bus-bandwidth", panels)


def training_loss(training: pd.DataFrame, baseline: str | None, say: Words) -> Figure:
    """Training loss after every epoch: a panel for every global batch that arms start with, and environment."""
    return _curves("training-loss", "Training loss", "", training, "training_loss", 1, baseline, say)


def test_accuracy(training: pd.DataFrame, baseline: str | None, say: Words) -> Figure:
    """Test accuracy in % after every epoch: a panel for every global batch that arms start with, and environment."""
    return _curves("test-accuracy", "Test accuracy", "%", training, "test_accuracy", 100, baseline, say)


def _curves(
    name: str,
    quantity: str,
    unit: str,
    training: pd.DataFrame,
    column: str,
    scale: float,
    baseline: str | None,
    say: Words,
) -> Figure:
    """Means over seeds against epochs, between the least and the most of all seeds. The baseline is in every panel."""
    measured = training.assign(value=training[column] * scale, batch=training["gpus"] * training["batch_per_gpu"])
    is_baseline = measured["arm"] == baseline
    panels = []
    others = measured[~is_baseline] if len(measured[~is_baseline]) else measured
    for key in words.rows(others[["batch", "environment"]].drop_duplicates().sort_values(["batch", "environment"])):
        same_place = measured["environment"] == key["environment"]
        part = measured[same_place & ((measured["batch"] == key["batch"]) | is_baseline)]
        panels.append(
            Panel(
                title=f"{quantity}, global batch {key['batch']:,}{say.environment(key)}",
                subtitle=f"{quantity}{f' in {unit}' if unit else ''} against epoch; one line for each arm",
                x_title="Epoch",
                y_title=f"{quantity}{f', {unit}' if unit else ''}",
                unit=unit,
                series=_arm_series(part, baseline),
                linear=True,
            )
        )
    return _figure(name, panels)


def _arm_series(part: pd.DataFrame, baseline: str | None) -> list[Series]:
    series = []
    for style, (arm, rows) in enumerate(part.groupby("arm", sort=False)):
        diverged = rows[rows["status"] == "diverged"]["epoch"]
        # A mean over the seeds that are left when others diverged would look too good.
        whole = rows if diverged.empty else rows[rows["epoch"] < diverged.min()]
        of_epoch = whole.groupby("epoch")["value"].agg(["mean", "min", "max"]).reset_index()
        points = [
            Point(float(row["epoch"]), row["mean"], row["min"], row["max"])
            for row in words.rows(of_epoch.sort_values("epoch"))
        ]
        end = None if diverged.empty else (float(diverged.min()), "diverged")
        colour = _BASELINE_COLOUR if arm == baseline else _ARM_COLOURS[style % len(_ARM_COLOURS)]
        if points:
            series.append(Series(str(arm), colour, style, points, end))
    return series


def _parts(table: pd.DataFrame, columns: Sequence[str]) -> Iterator[tuple[Row, pd.DataFrame]]:
    """The table's parts that have results. Rows without a record have no environment: they belong to each."""
    ordered = words.in_order(table)
    for key in words.rows(words.ok(ordered)[list(columns)].drop_duplicates()):
        part = ordered
        for name in columns:
            same = part[name] == key[name]
            part = part[same | part[name].isna()] if name == "environment" else part[same]
        yield key, part


def _place(key: Row, say: Words) -> str:
    return f"{words.scope(key['scope'])}{say.environment(key)}"


def _time_series(part: pd.DataFrame) -> list[Series]:
    styles = {gpus: style for style, gpus in enumerate(sorted(part["gpus"].unique()))}
    series = []
    for (strategy, gpus), line in part.groupby(["strategy", "gpus"], sort=False):
        points = _points(words.ok(line), "batch_per_gpu", "epoch_s")
        ended = words.rows(line[line["status"].isin(["oom", "capped"])])
        # The first batch that cannot run says where the line ends; the larger ones follow from it.
        end = (float(ended[0]["batch_per_gpu"]), words.state(ended[0]["status"])) if ended else None
        if points:
            series.append(Series(f"{strategy} × {gpus}", f"var(--{strategy})", styles[gpus], points, end))
    return series


def _speedup_series(part: pd.DataFrame, scaling: str) -> list[Series]:
    name, symbol = ("batch_per_gpu", "b") if scaling == "weak" else ("global_batch", "B")
    return [
        Series(
            label=f"{symbol} = {batch:,}",
            colour=f"var(--{line['strategy'].iloc[0]})",
            style=style,
            points=_points(line, "gpus", "speedup"),
        )
        for style, (batch, line) in enumerate(part.groupby(name))
    ]


def _points(table: pd.DataFrame, x: str, y: str) -> list[Point]:
    ordered = words.rows(table.sort_values(x))
    return [Point(float(row[x]), row[y], row[f"{y}_low"], row[f"{y}_high"]) for row in ordered]


def _figure(name: str, panels: Sequence[Panel]) -> Figure:
    drawn = [_thinned(panel) for panel in panels[:_PANELS_DRAWN]]
    frame = Frame.around(drawn)
    charts = [_chart(f"{name}-{number}", panel, frame) for number, panel in enumerate(drawn, 1)]
    not_drawn = [f"{panel.title}: not drawn." for panel in panels[_PANELS_DRAWN:]]
    for panel, thin in zip(panels, drawn, strict=False):
        if thin.number_of_points < panel.number_of_points:
            shown = f"{thin.number_of_points:,} of {panel.number_of_points:,} points are drawn"
            not_drawn.append(f"{panel.title}: {shown}.")
    return Figure(charts, not_drawn)


def _thinned(panel: Panel) -> Panel:
    """The panel with no more lines and points than can be told apart."""
    lines = _evenly(panel.series, _SERIES_DRAWN)
    return replace(panel, series=[replace(line, points=_evenly(line.points, _POINTS_DRAWN)) for line in lines])


def _evenly(items: Sequence[Item], most: int) -> Sequence[Item]:
    """At most `most` of the items, evenly spread, the first and the last among them."""
    if len(items) <= most:
        return items
    return [items[round(place * (len(items) - 1) / (most - 1))] for place in range(most)]


def _chart(name: str, panel: Panel, frame: Frame) -> Chart:
    svg = for_page(draw(panel, frame), name, f"{panel.title}. {panel.subtitle}", _description(panel))
    return Chart(panel.title, panel.subtitle, svg)


def _description(panel: Panel) -> str:
    """What the panel shows, in words: the two ends of every line, and what ended it."""
    return " ".join(_described(line, panel.unit) for line in panel.series)


def _described(line: Series, unit: str) -> str:
    first, last = line.points[0], line.points[-1]
    ends = [first] if first is last else [first, last]
    said = [f"{words.figure(point.y, 3)} {unit} at {point.x:,.0f}" for point in ends]
    if line.end:
        x, word = line.end
        said.append(f"{word} at {x:,.0f}")
    return f"{line.label}: {', '.join(said)}."

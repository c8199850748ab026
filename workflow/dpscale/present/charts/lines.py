"""A panel of lines as Vega-Lite draws it."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np
import scipy

from dpscale.present.charts.axes import HEIGHT, WIDTH, Axis, Frame
from dpscale.present.charts.panel import DrawnSeries, Panel
from dpscale.present.charts.svg import COLOUR, LABEL, LABEL_X, QUIET, RIGHT, over, svg_of

# Pixels.
_LABEL_GAP = 14

_SHAPES = (
    "circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "triangle-right", "triangle-left",
    "M-1,-1L1,-1L-1,1L1,1Z", "M-1,-1L-1,1L1,-1L1,1Z",
)  # fmt: skip
_DASHES = (
    (1, 0), (7, 3), (2, 2), (9, 3, 2, 3), (4, 4), (12, 3), (1, 3), (6, 2, 2, 2), (9, 6), (3, 1),
)  # fmt: skip
_LINE = alt.Detail("line:N")

Entry = dict[str, Any]


def draw(panel: Panel, frame: Frame) -> str:
    """The panel as the SVG that vl-convert makes of it."""
    x = _axis(alt.X("x:Q"), panel.x_title, frame.x)
    y = _axis(alt.Y("y:Q"), panel.y_title, frame.y)
    marked = [entry for line in panel.series for entry in _entries(line)]
    labels = _labels(panel, frame)
    intervals = [entry for line in panel.series for entry in _intervals(line, frame.y)]
    ends = {"y": alt.Y("low:Q"), "y2": alt.Y2("high:Q")}
    bars = over(intervals).mark_rule(strokeWidth=1.5).encode(x, COLOUR, **ends)
    runs = [
        {"x": marker.x, "y": y, "colour": line.colour}
        for line in panel.series for marker in line.markers for y in marker.dots if frame.y.low <= y <= frame.y.high
    ]  # fmt: skip
    bands = over(intervals).mark_area(opacity=0.15, strokeWidth=0)
    shade = [{"y": frame.y.low, "end": panel.shaded_below}] if panel.shaded_below else []
    guides = [{"line": guide.label, "x": x, "y": y} for guide in panel.guides for x, y in (guide.start, guide.end)]
    layers = [
        over(shade)
        .mark_rect(color=QUIET, opacity=0.15)
        .encode(y, y2=alt.Y2("end:Q"), x=alt.XValue(0), x2=alt.X2Value(WIDTH)),
        over(guides).mark_line(color=QUIET, strokeWidth=1).encode(x, y, detail=_LINE),
        over(labels)
        .mark_rule(color=QUIET, strokeWidth=0.6, strokeDash=[1, 2])
        .encode(x, y, x2=alt.X2Value(LABEL_X - 3), y2=alt.Y2("label_y:Q")),
        bands.encode(x, **ends, fill=alt.Fill("colour:N", scale=None), detail=_LINE)
        if panel.linear_x and panel.linear_y
        else bars,
        over(marked)
        .mark_line(strokeWidth=1.8)
        .encode(x, y, COLOUR, detail=_LINE, strokeDash=alt.StrokeDash("dash:N", scale=None)),
        over(marked)
        .mark_point(filled=True, size=42, opacity=1)
        .encode(x, y, COLOUR, shape=alt.Shape("shape:N", scale=None)),
        over(runs).mark_point(filled=False, size=30, strokeWidth=1.2, opacity=1).encode(x, y, COLOUR),
        # A name that is too long for its room ends in an ellipsis; the description has all of it.
        over(labels)
        .mark_text(limit=WIDTH + RIGHT - LABEL_X)
        .encode(alt.Y("label_y:Q"), LABEL, COLOUR, x=alt.XValue(LABEL_X)),
    ]
    return svg_of(layers)


def _axis(channel: Any, title: str, axis: Axis) -> Any:
    scaled = channel.title(title).scale(
        type="linear" if axis.linear else "log", domain=[axis.low, axis.high], nice=False
    )
    ticks = {"values": axis.ticks, "format": ",~r"} if axis.ticks else {"tickCount": 5}
    return scaled.axis(labelOverlap=True, **ticks)


def _entries(line: DrawnSeries) -> list[Entry]:
    style = line.style % len(_SHAPES)
    look = {"line": line.label, "colour": line.colour, "shape": _SHAPES[style], "dash": _DASHES[style]}
    return [{"x": marker.x, "y": marker.y, **look} for marker in line.markers]


def _intervals(line: DrawnSeries, axis: Axis) -> list[Entry]:
    """From the axis' edge to its edge at most."""
    return [
        {
            "line": line.label, "colour": line.colour, "x": marker.x,
            "low": max(marker.figure.low, axis.low), "high": min(marker.figure.high, axis.high),
        }
        for marker in line.markers
        if marker.has_bar and marker.figure.high > axis.low
    ]  # fmt: skip


def _labels(panel: Panel, frame: Frame) -> list[Entry]:
    """The labels right of the plot: of lines and guides, apart so that none hides another."""
    ends = [(line.label, line.colour, line.markers[-1].x, line.markers[-1].y) for line in panel.series]
    ends += [(guide.label, QUIET, *guide.end) for guide in panel.guides]
    half = _LABEL_GAP / 2
    pixels = spread([frame.y.pixel(y) for *_, y in ends], _LABEL_GAP, half, HEIGHT - half)
    return [
        {"label": label, "colour": colour, "x": x, "y": y, "label_y": frame.y.value(pixel)}
        for (label, colour, x, y), pixel in zip(ends, pixels, strict=True)
    ]


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """The places nearest to the wanted ones that are `gap` apart or more, in their order, in [low, high].

    Without `gap` times its rank, no place may be below the one before: least squares under that is isotonic regression.
    """
    order = np.argsort(wanted, kind="stable")
    offsets = gap * np.arange(len(wanted))
    levels = scipy.optimize.isotonic_regression(np.asarray(wanted)[order] - offsets).x
    places = np.empty(len(wanted))
    places[order] = np.clip(levels, low, high - gap * (len(wanted) - 1)) + offsets
    return [float(place) for place in places]

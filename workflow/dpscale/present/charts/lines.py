"""A panel of lines as Vega-Lite draws it."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np
import scipy

from dpscale.present.charts.axes import HEIGHT, WIDTH, Axis, Frame
from dpscale.present.charts.panel import DrawnSeries, Marker, Panel
from dpscale.present.charts.svg import COLOUR, INK, LABEL, LABEL_X, QUIET, RIGHT, over, svg_of
from dpscale.present.text.words import listed

# Pixels.
_LABEL_GAP = 14
_LANE_MARKER_GAP = 11
_X_TICK_GAP, _Y_TICK_GAP = 44, 22
_MARKER_REACH = 3

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
    x = _axis(alt.X("x:Q"), panel.x_title, frame.x, _X_TICK_GAP)
    y = _axis(alt.Y("y:Q"), panel.y_title, frame.y, _Y_TICK_GAP)
    joined = [entry for line in panel.series if line.joined for entry in _entries(line, frame)]
    marked = [entry for line in panel.series for entry in _entries(line, frame)] + _lane_markers(panel, frame)
    labels = _labels(panel, frame)
    bands, bars = _intervals(panel, frame)
    ends = {"y": alt.Y("low:Q"), "y2": alt.Y2("high:Q")}
    shade = [{"y": frame.y.low, "end": panel.shaded_below}] if panel.shaded_below else []
    dots = [{"x": across, "y": up, "colour": colour} for across, up, colour in panel.dots]
    layers = [
        over(shade)
        .mark_rect(color=QUIET, opacity=0.15)
        .encode(y, y2=alt.Y2("end:Q"), x=alt.XValue(0), x2=alt.X2Value(WIDTH)),
        over(_guides(panel)).mark_line(color=QUIET, strokeWidth=1).encode(x, y, detail=_LINE),
        over(labels)
        .mark_rule(color=QUIET, strokeWidth=0.6, strokeDash=[1, 2])
        .encode(x, y, x2=alt.X2Value(LABEL_X - 3), y2=alt.Y2("label_y:Q")),
        over(bands)
        .mark_area(opacity=0.15, strokeWidth=0)
        .encode(x, **ends, fill=alt.Fill("colour:N", scale=None), detail=_LINE),
        over(bars).mark_rule(strokeWidth=1.5).encode(x, COLOUR, **ends),
        over(joined)
        .mark_line(strokeWidth=1.8)
        .encode(x, y, COLOUR, detail=_LINE, strokeDash=alt.StrokeDash("dash:N", scale=None)),
        over(marked)
        .mark_point(filled=True, size=42, opacity=1)
        .encode(x, y, COLOUR, shape=alt.Shape("shape:N", scale=None)),
        over(dots).mark_point(filled=False, size=14, strokeWidth=1, opacity=1).encode(x, y, COLOUR),
        # A name that is too long for its room ends in an ellipsis; the description has all of it.
        over(labels)
        .mark_text(limit=WIDTH + RIGHT - LABEL_X)
        .encode(alt.Y("label_y:Q"), LABEL, COLOUR, x=alt.XValue(LABEL_X)),
    ]
    return svg_of(layers)


def cut(panel: Panel, frame: Frame) -> list[str]:
    """`E2 ablation at 32, 128`: of which markers the bar ends at the axis' edge, because the interval goes beyond."""
    beyond_edge = []
    for line in panel.series:
        ends = [(f"{marker.x:,.0f}", marker.figure) for marker in line.markers if marker.figure.has_interval]
        beyond = [at for at, figure in ends if figure.low < frame.y.low or figure.high > frame.y.high]
        beyond_edge += [f"{line.label} at {listed(beyond)}"] if beyond else []
    return beyond_edge


def _axis(channel: Any, title: str, axis: Axis, gap: float) -> Any:
    kind = "linear" if axis.linear else "log"
    return channel.title(title).scale(type=kind, domain=[axis.low, axis.high], nice=False).axis(
        values=axis.ticks_apart(gap), format=",~r"
    )  # fmt: skip


def _entry(line: DrawnSeries, x: float, y: float) -> Entry:
    style = line.style % len(_SHAPES)
    return {
        "line": line.label, "x": x, "y": y,
        "colour": line.colour, "shape": _SHAPES[style], "dash": _DASHES[style],
    }  # fmt: skip


def _entries(line: DrawnSeries, frame: Frame) -> list[Entry]:
    return [_entry(line, _moved(marker.x, line, frame), marker.y) for marker in line.markers]


def _moved(x: float, line: DrawnSeries, frame: Frame) -> float:
    return frame.x.value(frame.x.pixel(x) + line.aside) if line.aside else x


def _intervals(panel: Panel, frame: Frame) -> tuple[list[Entry], list[Entry]]:
    """Parts of bands along the lines, and bars at markers that are longer than these."""
    bands, bars = [], []
    for line in panel.series:
        for marker in line.markers:
            if marker.figure.has_interval:
                entry = _interval(line, marker, frame)
                if panel.linear_y and panel.linear_x:
                    bands.append(entry)
                elif _is_seen(frame.y, entry):
                    bars.append(entry)
    return bands, bars


def _interval(line: DrawnSeries, marker: Marker, frame: Frame) -> Entry:
    """From the axis' edge to its edge at most."""
    low, high = max(marker.figure.low, frame.y.low), min(marker.figure.high, frame.y.high)
    entry = {"line": line.label, "x": _moved(marker.x, line, frame), "low": low, "high": high}
    return {**entry, "colour": line.colour, "at": marker.y}


def _is_seen(axis: Axis, bar: Entry) -> bool:
    """Whether a bar is longer than the marker on it."""
    if bar["high"] <= axis.low:
        return False
    at, low, high = (axis.pixel(bar[name]) for name in ("at", "low", "high"))
    return max(at - low, high - at) > _MARKER_REACH


def _guides(panel: Panel) -> list[Entry]:
    return [{"line": guide.label, "x": x, "y": y} for guide in panel.guides for x, y in (guide.start, guide.end)]


def _lane_markers(panel: Panel, frame: Frame) -> list[Entry]:
    """A line's own marker in the lane of what ended it, side by side where several end together."""
    together: dict[tuple[float, str], list[DrawnSeries]] = {}
    for line in panel.series:
        if line.end:
            together.setdefault(line.end, []).append(line)
    entries = []
    for (x, word), lines in together.items():
        width = _LANE_MARKER_GAP * (len(lines) - 1)
        left = min(frame.x.pixel(x) - width / 2, WIDTH - width)
        for place, line in enumerate(lines):
            entries.append(_entry(line, frame.x.value(left + _LANE_MARKER_GAP * place), frame.lane_y(word)))
    return entries


def _labels(panel: Panel, frame: Frame) -> list[Entry]:
    """The labels right of the plot: of lines, guides and lanes, apart so that none hides another."""
    lasts = [(line, line.markers[-1]) for line in panel.series]
    ends = [(line.label, line.colour, _moved(last.x, line, frame), last.y) for line, last in lasts]
    ends += [(guide.label, QUIET, *guide.end) for guide in panel.guides]
    ends += [(word, INK, frame.x.high, frame.lane_y(word)) for word in frame.lanes]
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

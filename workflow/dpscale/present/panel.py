"""One panel: lines on logarithmic or linear axes, drawn by Vega-Lite. What is drawn is the business of `charts`."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import numpy as np
import scipy
import vl_convert

from dpscale.present import words
from dpscale.present.words import Row

# Pixels. The space around the plot is fixed, so that all panels of a page have one size: that of a phone, where text is
# not made smaller.
WIDTH, HEIGHT = 198, 240
RIGHT = 104
_AROUND = {"left": 56, "right": RIGHT, "top": 8, "bottom": 42}
LABEL_X = WIDTH + 14
_LABEL_GAP = 14
_LANE_HEIGHT = 18
_LANE_MARKER_GAP = 11
_X_TICK_GAP, _Y_TICK_GAP = 44, 22
_MARKER_REACH = 3
# Bars of intervals are cut where they are so many times as long, or as short, as the values of all lines; on a linear
# axis where they reach so many times as far beyond the values as these are apart.
_REACH = 10
_LINEAR_REACH = 1.5
FORECAST = "forecast"

# Vega-Lite measures text with this font; page.css sets the same, as the SVG in the page says none.
_FONT, TEXT_SIZE = "DejaVu Sans", 11

_MARKERS = (
    "circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "triangle-right", "triangle-left",
    "M-1,-1L1,-1L-1,1L1,1Z", "M-1,-1L-1,1L1,-1L1,1Z",
)  # fmt: skip
_DASHES = (
    (1, 0), (7, 3), (2, 2), (9, 3, 2, 3), (4, 4), (12, 3), (1, 3), (6, 2, 2, 2), (9, 6), (3, 1),
)  # fmt: skip
INK, QUIET, _GRID = "currentColor", "var(--quiet)", "var(--grid)"
_LINE = alt.Detail("line:N")


@dataclass(frozen=True)
class Point:
    """A value and its interval; `low` and `high` are NaN where it has none. Forecast ones are not `marked`."""

    x: float
    y: float
    low: float
    high: float
    marked: bool = True


@dataclass(frozen=True)
class Series:
    """A line of at least one point. `style` numbers marker and dashes; `end` is (x, word) where it stops.

    `aside` moves it by so many pixels to the right, where several lines stand at one x. Points that are not `joined`
    have no line.
    """

    label: str
    colour: str
    style: int
    points: Sequence[Point]
    end: tuple[float, str] | None = None
    aside: float = 0
    joined: bool = True


@dataclass(frozen=True)
class Reference:
    """A line to compare with, from (start, left) to (x, right)."""

    label: str
    x: float
    left: float
    right: float
    start: float = 1


@dataclass(frozen=True)
class Panel:
    """What one panel shows: `heading` is what to take away from it, `place` what it is of, `quantity` what it draws.

    `unit` is that of the points' y. Axes are logarithmic unless said to be linear; intervals are
    bars, and bands where both axes are linear or nothing is measured, as from the x `forecast_from` on. Ticks of x are
    at the points, unless these lie `anywhere`. From zero up to `shaded_below` the plot is grey. `dots` are small, at x
    and y in a colour, without a label.
    """

    heading: str
    place: str
    quantity: str
    x_title: str
    y_title: str
    unit: str
    series: Sequence[Series]
    references: Sequence[Reference] = ()
    linear_x: bool = False
    linear_y: bool = False
    forecast_from: float | None = None
    anywhere: bool = False
    shaded_below: float | None = None
    dots: Sequence[tuple[float, float, str]] = ()

    @property
    def subtitle(self) -> str:
        return f"{self.place}. {self.quantity}"

    @property
    def number_of_points(self) -> int:
        return sum(len(line.points) for line in self.series)


@dataclass(frozen=True)
class Axis:
    """An axis from `low` at pixel 0 to `high` at pixel `length`, logarithmic unless it is linear. The first of its
    `ticks` matter most."""

    low: float
    high: float
    length: float
    ticks: Sequence[float]
    linear: bool = False

    def pixel(self, value: float) -> float:
        if self.linear:
            return self.length * (value - self.low) / (self.high - self.low)
        return self.length * math.log(value / self.low) / math.log(self.high / self.low)

    def value(self, pixel: float) -> float:
        if self.linear:
            return self.low + (self.high - self.low) * pixel / self.length
        return float(self.low * (self.high / self.low) ** (pixel / self.length))

    def ticks_apart(self, gap: float) -> list[float]:
        """Those of the ticks, ascending, that are at least `gap` pixels apart; of two that are not, the first."""
        kept: list[float] = []
        for tick in self.ticks:
            if all(abs(self.pixel(tick) - self.pixel(other)) >= gap for other in kept):
                kept.append(tick)
        return sorted(kept)


@dataclass(frozen=True)
class Frame:
    """The axes that all panels of a figure share, to be comparable, and the lanes above the lines."""

    x: Axis
    y: Axis
    lanes: Sequence[str]

    @classmethod
    def around(cls, panels: Sequence[Panel]) -> "Frame":
        """Room for every line, interval, reference and lane of the panels."""
        series = [line for panel in panels for line in panel.series]
        references = [reference for panel in panels for reference in panel.references]
        lanes = sorted({line.end[1] for line in series if line.end})
        lanes += [FORECAST] if any(panel.forecast_from for panel in panels) else []
        xs = {point.x for line in series for point in line.points} | {line.end[0] for line in series if line.end}
        ys = [point.y for line in series for point in line.points]
        ys += [y for reference in references for y in (reference.left, reference.right)]
        ends = [end for line in series for point in line.points for end in (point.low, point.high)]
        ys += [end for panel in panels if panel.shaded_below for end in (0.0, panel.shaded_below)]
        above = HEIGHT / (HEIGHT - len(lanes) * _LANE_HEIGHT)
        xs |= {reference.start for reference in references}
        # A line that stands aside of its x is no point of the axis. Dots that do are beside their tick.
        ticks = sorted(xs - {point.x for line in series if line.aside and line.joined for point in line.points})
        points_at = Counter(point.x for line in series for point in line.points)
        ticks.sort(key=lambda x: -points_at[x])
        if any(panel.linear_x for panel in panels):
            x_axis = Axis(*_with_margin(xs), WIDTH, ticks, linear=True)
        else:
            low, high = _with_room_beside(*_at_least_doubling(xs), series)
            round_ticks = _round_numbers(low, high, doubling=False)
            if any(panel.anywhere for panel in panels):
                ticks = round_ticks if len(round_ticks) > 2 else _even_numbers(low, high)
            x_axis = Axis(low, high, WIDTH, ticks)
        if any(panel.linear_y for panel in panels):
            low, high = _with_margin([*ys, *_within_linear_reach(ends, ys)])
            y_axis = Axis(low, low + (high - low) * above, HEIGHT, _even_numbers(low, high), linear=True)
        else:
            above_zero = [y for y in ys if y > 0]
            low, high = _at_least_doubling([*above_zero, *_within_reach(ends, above_zero)])
            y_axis = Axis(low, low * (high / low) ** above, HEIGHT, _round_numbers(low, high, bool(references)))
        return cls(x_axis, y_axis, lanes)

    def lane_y(self, word: str) -> float:
        """The y of a lane's middle."""
        return self.y.value(HEIGHT - _LANE_HEIGHT * (self.lanes.index(word) + 0.5))


def between(low: float, high: float) -> float:
    """The middle of two places on a logarithmic axis."""
    return math.sqrt(low * high)


def draw(panel: Panel, frame: Frame) -> str:
    """The panel as the SVG that vl-convert makes of it."""
    x = _axis(alt.X("x:Q"), panel.x_title, frame.x, _X_TICK_GAP)
    y = _axis(alt.Y("y:Q"), panel.y_title, frame.y, _Y_TICK_GAP)
    colour = alt.Color("colour:N", scale=None)
    marks = [
        (line, point, _mark(line, _moved(point.x, line, frame), point.y))
        for line in panel.series
        for point in line.points
    ]
    labels = _labels(panel, frame)
    layers = [
        *_shade(panel, frame, y),
        over(_reference_points(panel, frame)).mark_line(color=QUIET, strokeWidth=1).encode(x, y, detail=_LINE),
        over(labels)
        .mark_rule(color=QUIET, strokeWidth=0.6, strokeDash=[1, 2])
        .encode(x, y, x2=alt.X2Value(LABEL_X - 3), y2=alt.Y2("label_y:Q")),
        *_spreads(panel, frame, x, colour),
        over([mark for line, _, mark in marks if line.joined])
        .mark_line(strokeWidth=1.8)
        .encode(x, y, detail=_LINE, color=colour, strokeDash=alt.StrokeDash("dash:N", scale=None)),
        over([mark for _, point, mark in marks if point.marked] + _lane_markers(panel, frame))
        .mark_point(filled=True, size=42, opacity=1)
        .encode(x, y, color=colour, shape=alt.Shape("marker:N", scale=None)),
        *_dots(panel, x, y, colour),
        # A name that is too long for its room ends in an ellipsis; the description has all of it.
        over(labels)
        .mark_text(align="left", baseline="middle", fontSize=TEXT_SIZE, limit=WIDTH + RIGHT - LABEL_X)
        .encode(alt.Y("label_y:Q"), x=alt.XValue(LABEL_X), text=alt.Text("label:N"), color=colour),
    ]
    return svg_of(layers)


CONFIG: dict[str, Any] = {
    "autosize": "none",
    "padding": _AROUND,
    "background": "transparent",
    "font": _FONT,
    "view": alt.ViewConfig(stroke=None),
    "axis": alt.AxisConfig(
        labelColor=INK,
        titleColor=INK,
        titleFontWeight="normal",
        labelFontSize=TEXT_SIZE,
        titleFontSize=TEXT_SIZE,
        gridColor=_GRID,
        domainColor=QUIET,
        tickColor=QUIET,
        labelOverlap=False,
        labelBound=False,
    ),
}


def svg_of(layers: Sequence[alt.Chart]) -> str:
    """The layers, one over the other, as vl-convert draws them.

    A test has altair check the specification: that takes longer than the drawing. Channels are objects and not text,
    because for every text altair makes a table of all its classes.
    """
    chart = alt.LayerChart(layer=layers, width=WIDTH, height=HEIGHT, config=alt.Config(**CONFIG))
    return str(vl_convert.vegalite_to_svg(chart.to_dict(validate=False)))


def over(values: Sequence[Row]) -> alt.Chart:
    return alt.Chart(alt.InlineData(values=list(values)))


def _axis(channel: Any, title: str, axis: Axis, gap: float) -> Any:
    kind = "linear" if axis.linear else "log"
    return channel.title(title).scale(type=kind, domain=[axis.low, axis.high], nice=False).axis(
        values=axis.ticks_apart(gap), format=",~r"
    )  # fmt: skip


def _at_least_doubling(values: Iterable[float]) -> tuple[float, float]:
    """The ends of the values with a margin; a factor of two apart at least, as an axis has to be."""
    found = list(values) or [1.0]
    low, high = min(found) / 1.15, max(found) * 1.15
    widening = math.sqrt(max(1.0, 2 * low / high))
    return low / widening, high * widening


def _with_room_beside(low: float, high: float, series: Sequence[Series]) -> tuple[float, float]:
    """The ends of a logarithmic axis, moved out so far that dots which stand aside of their x are within."""
    beside = max((abs(line.aside) for line in series if not line.joined), default=0.0)
    room = (high / low) ** (beside / (WIDTH - 2 * beside))
    return low / room, high * room


def _within_reach(ends: Iterable[float], values: Sequence[float]) -> list[float]:
    """Ends of intervals for which a logarithmic axis makes room: at most so far that the lines keep their shape."""
    low, high = min(values, default=1.0) / _REACH, max(values, default=1.0) * _REACH
    return [min(end, high) for end in ends if end >= low]


def _within_linear_reach(ends: Iterable[float], values: Sequence[float]) -> list[float]:
    """The same for a linear axis."""
    low, high = min(values, default=0.0), max(values, default=0.0)
    reach = _LINEAR_REACH * (high - low)
    return [min(max(end, low - reach), high + reach) for end in ends if words.is_known(end)]


def _with_margin(values: Iterable[float]) -> tuple[float, float]:
    """The ends of the values with a margin, and room between them, as a linear axis has to have."""
    found = list(values) or [0.0, 1.0]
    low, high = min(found), max(found)
    margin = (high - low) * 0.06 or abs(high) * 0.1 or 1.0
    return low - margin, high + margin


def _even_numbers(low: float, high: float) -> list[float]:
    """1, 2 or 5 times a power of ten apart, at least four of them."""
    power = 10.0 ** math.floor(math.log10((high - low) / 4))
    step = max(factor * power for factor in (1, 2, 5) if factor * power <= (high - low) / 4)
    return [number * step for number in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _round_numbers(low: float, high: float, doubling: bool) -> list[float]:
    """Powers of two where doubling is what the reader looks for; else 1, 2 and 5 times powers of ten. Of fewer
    than three powers, even numbers instead."""
    if doubling:
        powers = range(math.ceil(math.log2(low)), math.floor(math.log2(high)) + 1)
        return [2.0**power for power in powers] if len(powers) > 2 else _even_numbers(low, high)
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    steps = (1, 2, 5) if last - first <= 4 else (1,)
    numbers = [step * 10.0**power for power in range(first, last + 1) for step in steps]
    return [number for number in numbers if low <= number <= high]


def _mark(line: Series, x: float, y: float) -> dict[str, Any]:
    style = line.style % len(_MARKERS)
    return {
        "line": line.label, "x": x, "y": y,
        "colour": line.colour, "marker": _MARKERS[style], "dash": _DASHES[style],
    }  # fmt: skip


def _moved(x: float, line: Series, frame: Frame) -> float:
    return frame.x.value(frame.x.pixel(x) + line.aside) if line.aside else x


def _shade(panel: Panel, frame: Frame, y: Any) -> Iterator[Any]:
    if panel.shaded_below:
        area = [{"y": frame.y.low, "end": panel.shaded_below}]
        yield (
            over(area)
            .mark_rect(color=QUIET, opacity=0.15)
            .encode(y, y2=alt.Y2("end:Q"), x=alt.XValue(0), x2=alt.X2Value(WIDTH))
        )


def _dots(panel: Panel, x: Any, y: Any, colour: Any) -> Iterator[Any]:
    if panel.dots:
        places = [{"x": across, "y": up, "colour": name} for across, up, name in panel.dots]
        yield over(places).mark_point(filled=False, size=14, strokeWidth=1, opacity=1).encode(x, y, color=colour)


def _spreads(panel: Panel, frame: Frame, x: Any, colour: Any) -> Iterator[Any]:
    """Intervals: a bar at every point, or a band along the line."""
    ends = {"y": alt.Y("low:Q"), "y2": alt.Y2("high:Q")}
    intervals = _intervals(panel, frame)
    fill = alt.Fill("colour:N", scale=None)
    if along := [row for is_band, row in intervals if is_band]:
        yield over(along).mark_area(opacity=0.15, strokeWidth=0).encode(x, **ends, fill=fill, detail=_LINE)
    if upright := [row for is_band, row in intervals if not is_band]:
        yield over(upright).mark_rule(strokeWidth=1.5).encode(x, **ends, color=colour)


def _intervals(panel: Panel, frame: Frame) -> list[tuple[bool, Row]]:
    """All intervals, and whether they are part of a band; from the axis' edge to its edge at most."""
    intervals: list[tuple[bool, Row]] = []
    for line in panel.series:
        for point in line.points:
            if not (words.is_known(point.low) and words.is_known(point.high)):
                continue
            is_band = panel.linear_y and (panel.linear_x or not point.marked)
            low, high = max(point.low, frame.y.low), min(point.high, frame.y.high)
            if is_band or _is_seen(frame.y, low, point.y, high):
                x = _moved(point.x, line, frame)
                row = {"line": line.label, "x": x, "low": low, "high": high, "colour": line.colour}
                intervals.append((is_band, row))
    return intervals


def _is_seen(axis: Axis, low: float, y: float, high: float) -> bool:
    """Whether a bar from `low` to `high` is longer than the marker on it."""
    if high <= axis.low:
        return False
    pixel = axis.pixel(y)
    return max(pixel - axis.pixel(low), axis.pixel(high) - pixel) > _MARKER_REACH


def cut(panel: Panel, frame: Frame) -> list[str]:
    """`E2 ablation at 32, 128`: of which points the bar ends at the axis' edge, because the interval goes beyond."""
    beyond_edge = []
    for line in panel.series:
        beyond = [f"{point.x:,.0f}" for point in line.points if point.low < frame.y.low or point.high > frame.y.high]
        beyond_edge += [f"{line.label} at {words.listed(beyond)}"] if beyond else []
    return beyond_edge


def _reference_points(panel: Panel, frame: Frame) -> list[Row]:
    """Lines to compare with, and the edge from which on all is forecast, up to its lane and along it."""
    lines: list[Row] = [
        {"line": reference.label, "x": x, "y": y}
        for reference in panel.references
        for x, y in ((reference.start, reference.left), (reference.x, reference.right))
    ]
    if panel.forecast_from:
        lane_y = frame.lane_y(FORECAST)
        edge = ((panel.forecast_from, frame.y.low), (panel.forecast_from, lane_y), (frame.x.high, lane_y))
        lines += [{"line": FORECAST, "x": x, "y": y} for x, y in edge]
    return lines


def _lane_markers(panel: Panel, frame: Frame) -> list[dict[str, Any]]:
    """A line's own marker in the lane of what ended it, side by side where several end together."""
    together: dict[tuple[float, str], list[Series]] = {}
    for line in panel.series:
        if line.end:
            together.setdefault(line.end, []).append(line)
    markers = []
    for (x, word), lines in together.items():
        width = _LANE_MARKER_GAP * (len(lines) - 1)
        left = min(frame.x.pixel(x) - width / 2, WIDTH - width)
        for place, line in enumerate(lines):
            marker_x = frame.x.value(left + _LANE_MARKER_GAP * place)
            markers.append(_mark(line, marker_x, frame.lane_y(word)))
    return markers


def _labels(panel: Panel, frame: Frame) -> list[Row]:
    """The labels right of the plot: of lines, references and lanes, apart so that none hides another."""
    lasts = [(line, line.points[-1]) for line in panel.series]
    ends = [(line.label, line.colour, _moved(last.x, line, frame), last.y) for line, last in lasts]
    ends += [(line.label, QUIET, line.x, line.right) for line in panel.references]
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

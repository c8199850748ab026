"""Panels of lines: the figures that are drawn, the axes that panels share, and the drawing."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from dpscale.formulas.figure import Figure
from dpscale.present.charts.picture import COLOUR, HEIGHT, LABEL, QUIET, RIGHT, WIDTH, Chart, Plot, over, svg_of
from dpscale.present.text.numbers import plain
from dpscale.tables.column import PLAIN, Unit

PANELS_DRAWN = 8
# An interval that reaches over a larger factor is not drawn where the runs can be: one doubling of devices is a step of
# the axis, so such a bar does not even tell N devices from 2N.
WIDEST_BAR = 2.0


@dataclass(frozen=True)
class Marker:
    """A figure at an x, in the unit that people read, and the `runs` that it is the mean of, where they are known."""

    x: float
    figure: Figure
    runs: Sequence[float] = ()

    @property
    def y(self) -> float:
        return self.figure.value

    @property
    def has_bar(self) -> bool:
        """Whether its interval is drawn: it has one, and that says more than its runs."""
        is_wide = self.figure.high > WIDEST_BAR * self.figure.low
        return self.figure.has_interval and not (is_wide and self.dots_without_bar)

    @property
    def dots(self) -> Sequence[float]:
        """The runs that are drawn in place of a bar."""
        return () if self.has_bar else self.dots_without_bar

    @property
    def dots_without_bar(self) -> Sequence[float]:
        """The runs, of several; the figure's ends, of two machines or runs whose values they are."""
        if len(self.runs) > 1:
            return self.runs
        return self.figure.interval if self.figure.is_of_two else ()


# An x, the figure there, and its runs where they are drawn.
Measured = tuple[float, Figure] | tuple[float, Figure, Sequence[float]]


def markers(measured: Iterable[Measured], unit: Unit = PLAIN) -> list[Marker]:
    """Return a marker for every figure that is known, by x, each with its runs if they are, as `unit` shows them."""
    in_unit = (
        Marker(x, figure.map(unit.of), [unit.of(run) for runs in runs_if_known for run in runs])
        for x, figure, *runs_if_known in measured
    )
    return sorted((marker for marker in in_unit if marker.figure.is_known), key=lambda marker: marker.x)


@dataclass(frozen=True)
class DrawnSeries:
    """A line of at least one marker. `style` numbers shape and dashes."""

    label: str
    colour: str
    style: int
    markers: Sequence[Marker]

    def described(self, unit: str) -> str:
        """Return the line in words: its two ends."""
        first, last = self.markers[0], self.markers[-1]
        ends = [first] if first is last else [first, last]
        words = [f"{f'{plain(marker.y, 3)} {unit}'.rstrip()} at {marker.x:,.0f}" for marker in ends]
        return f"{self.label}: {', '.join(words)}."


@dataclass(frozen=True)
class Guide:
    """A straight line to compare with, between two places (x, y)."""

    label: str
    start: tuple[float, float]
    end: tuple[float, float]


def level(label: str, y: float, along: Iterable[float]) -> Guide:
    """Return a guide at one y, over all of the x."""
    xs = list(along)
    return Guide(label, (min(xs), y), (max(xs), y))


@dataclass(frozen=True, kw_only=True)
class Panel(Plot):
    """Lines over axes that are logarithmic unless said to be linear; `unit` is that of y.

    Intervals are bars, and bands where both axes are linear; dots are the runs of a figure without a bar. Ticks of x
    are at the markers. From zero up to `shaded_below` the plot is grey.
    """

    y_title: str
    unit: str
    series: Sequence[DrawnSeries]
    guides: Sequence[Guide] = ()
    linear_x: bool = False
    linear_y: bool = False
    shaded_below: float | None = None

    @property
    def subtitle(self) -> str:
        has_dots = any(marker.dots for line in self.series for marker in line.markers)
        return f"{super().subtitle}{'; small circles are runs' if has_dots else ''}"

    @property
    def description(self) -> str:
        return " ".join(line.described(self.unit) for line in self.series)


# Ends of intervals count where they lie at most so many times as far beyond the values as these are apart; on a
# logarithmic axis within a power of ten of the values.
_REACH = 1.5
_MARGIN = 0.06
_POWERS_OF_TEN_FROM = 32


@dataclass(frozen=True)
class Axis:
    """An axis from `low` at pixel 0 to `high` at pixel `length`, logarithmic unless it is linear. Vega chooses the
    ticks where there are none."""

    low: float
    high: float
    length: float
    linear: bool
    ticks: Sequence[float] = ()

    def pixel(self, value: float) -> float:
        low, high, at = (_straight(number, self.linear) for number in (self.low, self.high, value))
        return self.length * (at - low) / (high - low)

    def value(self, pixel: float) -> float:
        share = pixel / self.length
        if self.linear:
            return self.low + (self.high - self.low) * share
        return float(self.low * (self.high / self.low) ** share)


@dataclass(frozen=True)
class Frame:
    """The axes that all panels of a chart share, to be comparable."""

    x: Axis
    y: Axis

    @classmethod
    def around(cls, panels: Sequence[Panel]) -> "Frame":
        """Return axes with room for every line, interval, run and guide of the panels, which have axes of one kind."""
        linear_x, linear_y = any(panel.linear_x for panel in panels), any(panel.linear_y for panel in panels)
        guides = [guide for panel in panels for guide in panel.guides]
        drawn = [marker for panel in panels for line in panel.series for marker in line.markers]
        ticks = sorted({marker.x for marker in drawn})
        xs = [*ticks, *(guide.start[0] for guide in guides)]
        ys = [marker.y for marker in drawn] + [y for guide in guides for _, y in (guide.start, guide.end)]
        ys += [end for panel in panels if panel.shaded_below for end in (0.0, panel.shaded_below)]
        ys += [run for marker in drawn for run in marker.dots]
        ends = [end for marker in drawn if marker.has_bar for end in marker.figure.interval]
        low, high = reach(ys, ends, linear_y)
        return cls(
            Axis(*reach(xs, (), linear_x), WIDTH, linear_x, ticks),
            Axis(low, high, HEIGHT, linear_y, () if linear_y else _powers(low, high)),
        )


def _straight(value: float, linear: bool) -> float:
    return value if linear else math.log(value)


def reach(values: Iterable[float], ends: Iterable[float], linear: bool) -> tuple[float, float]:
    """From the least to the most of the values with a margin, and of the ends of intervals that lie within reach."""
    on_axis = [_straight(value, linear) for value in values if linear or value > 0]
    low, high = min(on_axis, default=0.0), max(on_axis, default=0.0)
    room = _REACH * (high - low) if linear else math.log(10)
    for end in (_straight(end, linear) for end in ends if linear or end > 0):
        if low - room <= end <= high + room:
            on_axis.append(end)
    low, high = min([low, *on_axis]), max([high, *on_axis])
    # An axis of one value has to have room as well.
    least = (0.2 * abs(high) or 2.0) if linear and low == high else 0.0 if linear else math.log(2)
    margin = max(_MARGIN * (high - low), (least - (high - low)) / 2)
    ends_of_axis = low - margin, high + margin
    return ends_of_axis if linear else (math.exp(ends_of_axis[0]), math.exp(ends_of_axis[1]))


def _powers(low: float, high: float) -> list[float]:
    """Powers of two, as devices double, or where these are many, of ten."""
    base = 10.0 if high / low > _POWERS_OF_TEN_FROM else 2.0
    return [base**power for power in range(math.ceil(math.log(low, base)), math.floor(math.log(high, base)) + 1)]


# Pixels.
LABEL_X = WIDTH + 14
LABEL_GAP = 14

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
    """Draw the panel as SVG."""
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
    half = LABEL_GAP / 2
    pixels = apart([frame.y.pixel(y) for *_, y in ends], LABEL_GAP, half, HEIGHT - half)
    return [
        {"label": label, "colour": colour, "x": x, "y": y, "label_y": frame.y.value(pixel)}
        for (label, colour, x, y), pixel in zip(ends, pixels, strict=True)
    ]


def apart(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Push places in [low, high] apart until all are `gap` apart or more, in their order."""
    places = list(wanted)
    in_order = sorted(range(len(places)), key=places.__getitem__)
    for place in in_order:
        places[place] = low = max(low, places[place])
        low += gap
    for place in reversed(in_order):
        places[place] = high = min(high, places[place])
        high -= gap
    return places


def chart_of_lines(name: str, panels: Sequence[Panel]) -> Chart:
    """Draw the panels on axes that they share."""
    drawn = panels[:PANELS_DRAWN]
    frame = Frame.around(drawn)
    return Chart.of(name, panels, [draw(panel, frame) for panel in drawn])

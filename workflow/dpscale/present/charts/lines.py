"""Panels of lines: the figures that are drawn, the axes that panels share, and the drawing."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import altair as alt

from dpscale.formulas.figure import Figure
from dpscale.present.charts.picture import (
    COLOUR,
    HEIGHT,
    INK,
    LABEL,
    QUIET,
    RIGHT,
    WIDTH,
    Chart,
    Plot,
    over,
    svg_of,
)
from dpscale.present.text.numbers import plain
from dpscale.tables.column import PLAIN, Column, Unit

# An interval that reaches over a larger factor is not drawn where the runs can be: one doubling of devices is a step of
# the axis, so such a bar does not even tell N devices from 2N.
WIDEST_BAR = 2.0


@dataclass(frozen=True)
class Marker:
    """A figure at an x, and the `runs` that it is the mean of, where they are known."""

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
        return self.figure.has_interval and not (is_wide and len(self.runs) > 1)

    @property
    def dots(self) -> Sequence[float]:
        """Several runs, or the values of two machines or runs that are its ends: they are drawn in place of a bar."""
        if self.has_bar:
            return ()
        if len(self.runs) > 1:
            return self.runs
        return self.figure.interval if self.figure.is_of_two else ()


def markers(stored: Iterable[Marker], unit: Unit = PLAIN) -> list[Marker]:
    """Return the markers whose figures are known, by x, in the unit that people read."""
    in_unit = [
        replace(marker, figure=marker.figure.map(unit.of), runs=[unit.of(run) for run in marker.runs])
        for marker in stored
        if marker.figure.is_known
    ]
    return sorted(in_unit, key=lambda marker: marker.x)


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
    """A line to compare with, straight on the panel's axes."""

    label: str
    y_at: Callable[[float], float]


@dataclass(frozen=True, kw_only=True)
class Panel(Plot):
    """Lines of a quantity `y`, over axes that are logarithmic unless said to be linear.

    Intervals are bars, and bands where both axes are linear; dots are the runs of a figure without a bar. Ticks of x
    are at the markers. Below `shaded_below` the plot is grey, and its axis begins at zero.
    """

    y: Column
    series: Sequence[DrawnSeries]
    guides: Sequence[Guide] = ()
    linear_x: bool = False
    linear_y: bool = False
    shaded_below: float | None = None

    @property
    def marked(self) -> list[tuple[DrawnSeries, Marker]]:
        """Every marker, with its line."""
        return [(line, marker) for line in self.series for marker in line.markers]

    @property
    def subtitle(self) -> str:
        has_dots = any(marker.dots for _, marker in self.marked)
        return f"{super().subtitle}{'; small circles are runs' if has_dots else ''}"

    @property
    def description(self) -> str:
        return " ".join(line.described(self.y.unit.shown) for line in self.series)


_MARGIN = 0.06
# Of the distance between values: so far beyond them an axis follows the ends of intervals.
_REACH = 0.5


@dataclass(frozen=True)
class Axis:
    """An axis from `low` to `high`, which are logarithms unless it is linear."""

    low: float
    high: float
    linear: bool

    @classmethod
    def around(cls, values: Iterable[float], linear: bool, ends: Iterable[float] = ()) -> "Axis":
        """Return an axis with room for all values, and for the ends of intervals that do not go far beyond them."""
        to_place = float if linear else math.log
        places = [to_place(value) for value in values]
        low, high = min(places), max(places)
        reach = _REACH * (high - low)
        for end in (to_place(end) for end in ends if linear or end > 0):
            places.append(min(max(end, low - reach), high + reach))
        low, high = min(places), max(places)
        margin = _MARGIN * (high - low) or 0.5  # an axis of one value has room too
        return cls(low - margin, high + margin, linear)

    def place(self, value: float) -> float:
        return value if self.linear else math.log(value)

    def value(self, place: float) -> float:
        return place if self.linear else math.exp(place)

    @property
    def scale(self) -> alt.Scale:
        """The axis as Vega-Lite has it. What reaches beyond ends at its edge."""
        domain = [self.value(self.low), self.value(self.high)]
        if self.linear:
            return alt.Scale(type="linear", domain=domain, nice=False, zero=False, clamp=True)
        return alt.Scale(type="log", base=2, domain=domain, nice=False, clamp=True)


@dataclass(frozen=True)
class Frame:
    """The axes that panels of one kind share, to be comparable, and the ticks of x."""

    x: Axis
    y: Axis
    ticks: Sequence[float]

    @classmethod
    def around(cls, panels: Sequence[Panel]) -> "Frame":
        like = panels[0]
        markers = [marker for panel in panels for _, marker in panel.marked]
        ticks = sorted({marker.x for marker in markers})
        ys = [y for marker in markers for y in (marker.y, *marker.dots)]
        ys += [guide.y_at(x) for panel in panels for guide in panel.guides for x in (ticks[0], ticks[-1])]
        if like.shaded_below is not None:
            ys += [0.0, like.shaded_below]
        ends = [end for marker in markers if marker.has_bar for end in marker.figure.interval]
        return cls(Axis.around(ticks, like.linear_x), Axis.around(ys, like.linear_y, ends), ticks)


# Pixels.
LABEL_X = WIDTH + 14
LABEL_GAP = 14

_STYLES = (
    ("circle", (1, 0)), ("square", (7, 3)), ("triangle-up", (2, 2)), ("diamond", (9, 3, 2, 3)),
    ("triangle-down", (4, 4)), ("cross", (12, 3)), ("triangle-right", (1, 3)), ("triangle-left", (6, 2, 2, 2)),
)  # fmt: skip
_COLOURS = ("var(--single)", "var(--dp)", "var(--ddp)", "var(--caution)", INK)

Entry = dict[str, object]


def colour_of_style(style: int) -> str:
    """Return the colour of a line that is not of a strategy."""
    return _COLOURS[style % len(_COLOURS)]


def chart_of_lines(name: str, panels: Sequence[Panel]) -> Chart:
    """Draw the panels on axes that they share. One without a line is left out."""
    with_lines = [panel for panel in panels if panel.series]
    return Chart.of(name, with_lines, lambda panel: _draw(panel, Frame.around(with_lines)))


def _draw(panel: Panel, frame: Frame) -> str:
    x = alt.X("x:Q").title(panel.x_title).scale(frame.x.scale).axis(values=frame.ticks)
    y = alt.Y("y:Q").title(panel.y.heading).scale(frame.y.scale).axis(tickCount=5)
    # Other layers are drawn on the same axes.
    low, high, at_label, by_line = alt.Y("low:Q"), alt.Y2("high:Q"), alt.Y("label_y:Q"), alt.Detail("line:N")
    shades = [] if panel.shaded_below is None else [{"low": frame.y.value(frame.y.low), "high": panel.shaded_below}]
    guides = [
        {"line": guide.label, "x": x, "y": guide.y_at(x)}
        for guide in panel.guides for x in (frame.ticks[0], frame.ticks[-1])
    ]  # fmt: skip
    dots = [{"x": marker.x, "y": y, "colour": line.colour} for line, marker in panel.marked for y in marker.dots]
    marked = over([_entry(line, marker) for line, marker in panel.marked])
    labels = over(_labels(panel, frame))
    intervals = (
        marked.mark_area(opacity=0.15).encode(alt.Fill("colour:N", scale=None), by_line, x, low, high)
        if panel.linear_x and panel.linear_y
        else marked.mark_rule(strokeWidth=1.5).encode(COLOUR, x, low, high)
    )
    return svg_of([
        over(shades).mark_rect(color=QUIET, opacity=0.15).encode(low, high),
        over(guides).mark_line(color=QUIET, strokeWidth=1).encode(x, y, by_line),
        labels.mark_rule(color=QUIET, strokeWidth=0.6, strokeDash=[1, 2]).encode(
            x, y, x2=alt.X2Value(LABEL_X - 3), y2=alt.Y2("label_y:Q")
        ),
        intervals,
        marked.mark_line(strokeWidth=1.8).encode(x, y, COLOUR, by_line, alt.StrokeDash("dash:N", scale=None)),
        marked.mark_point(filled=True, size=42, opacity=1).encode(x, y, COLOUR, alt.Shape("shape:N", scale=None)),
        over(dots).mark_point(size=30, strokeWidth=1.2, opacity=1).encode(x, y, COLOUR),
        # A name that is too long for its room ends in an ellipsis; the description has all of it.
        labels.mark_text(limit=WIDTH + RIGHT - LABEL_X).encode(at_label, LABEL, COLOUR, x=alt.XValue(LABEL_X)),
    ])  # fmt: skip


def _entry(line: DrawnSeries, marker: Marker) -> Entry:
    shape, dash = _STYLES[line.style % len(_STYLES)]
    low, high = marker.figure.interval if marker.has_bar else (None, None)
    return {
        "line": line.label, "colour": line.colour, "shape": shape, "dash": dash,
        "x": marker.x, "y": marker.y, "low": low, "high": high,
    }  # fmt: skip


def _labels(panel: Panel, frame: Frame) -> list[Entry]:
    """Return the labels right of the plot: of lines and guides, apart so that none hides another."""
    lasts = [(line.label, line.colour, line.markers[-1].x, line.markers[-1].y) for line in panel.series]
    lasts += [(guide.label, QUIET, frame.ticks[-1], guide.y_at(frame.ticks[-1])) for guide in panel.guides]
    axis = frame.y
    gap = LABEL_GAP / HEIGHT * (axis.high - axis.low)
    places = apart([axis.place(y) for *_, y in lasts], gap, axis.low + gap / 2, axis.high - gap / 2)
    return [
        {"label": label, "colour": colour, "x": x, "y": y, "label_y": axis.value(place)}
        for (label, colour, x, y), place in zip(lasts, places, strict=True)
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

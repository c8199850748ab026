"""Panels of lines: the figures that are drawn, and the drawing."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import altair as alt

from dpscale.formulas.figure import Figure
from dpscale.present.charts.picture import HEIGHT, INK, PICTURES_DRAWN, QUIET, WIDTH, Chart, layer, picture
from dpscale.tables.column import PLAIN, Column, Unit

# Pixels between the names of two lines, from a line's end to its name, and of a letter.
_BETWEEN_NAMES, _TO_NAME, _LETTER = 13, 9, 6.2
# Pixels by which a line's bars stand beside those of the next line.
_BESIDE = 4
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
    def is_wide(self) -> bool:
        return self.figure.high > WIDEST_BAR * self.figure.low

    @property
    def has_bar(self) -> bool:
        """Whether its interval is drawn: it has one, and that says more than its runs."""
        return self.figure.has_interval and not (self.is_wide and len(self.runs) > 1)

    @property
    def dots(self) -> Sequence[float]:
        """Several runs, or the values of two machines or runs that are its ends: they are drawn in place of a bar."""
        if self.has_bar:
            return ()
        if len(self.runs) > 1:
            return self.runs
        return self.figure.interval if self.figure.is_of_two else ()


def markers(stored: Iterable[Marker], unit: Unit = PLAIN) -> list[Marker]:
    """Return the markers whose figures are known, by x, in the unit that people read.

    Axes have no place for nothing, as for no GPUs or bytes.
    """
    in_unit = [
        replace(marker, figure=marker.figure.map(unit.of), runs=[unit.of(run) for run in marker.runs])
        for marker in stored
        if marker.figure.is_known and marker.x > 0
    ]
    return sorted(in_unit, key=lambda marker: marker.x)


@dataclass(frozen=True)
class DrawnLine:
    """A line with its name, which is drawn where it has a marker."""

    label: str
    colour: str
    markers: Sequence[Marker]


@dataclass(frozen=True, kw_only=True)
class Panel:
    """Lines of a quantity `y`, over axes that are logarithmic unless said to be linear.

    Intervals are bars, and bands where both axes are linear; dots are the runs of a figure without a bar. Ticks of x
    are at the markers. `guides` are straight lines to compare with, the first one dashed, a second one dotted. Below
    `shaded_below` the plot is grey, and its axis begins at zero.
    """

    heading: str
    subtitle: str
    x_title: str
    y: Column
    lines: Sequence[DrawnLine]
    guides: Sequence[Callable[[float], float]] = ()
    linear_x: bool = False
    linear_y: bool = False
    shaded_below: float | None = None

    @property
    def markers(self) -> list[Marker]:
        return [marker for line in self.lines for marker in line.markers]

    def heights(self) -> Iterator[float]:
        """Yield all of y that the axis has room for. A bar that goes far beyond its marker ends at the edge."""
        for marker in self.markers:
            yield from (marker.y, *marker.dots)
            if marker.has_bar and not marker.is_wide:
                yield from marker.figure.interval
            yield from (guide(marker.x) for guide in self.guides)
        if self.shaded_below is not None:
            yield from (0.0, self.shaded_below)


# Of the first guide, and of the second.
_DASHES = [4, 2], [1, 3]
_COLOURS = ("var(--single)", "var(--dp)", "var(--ddp)", "var(--caution)", INK)


def colour_of_style(style: int) -> str:
    """Return the colour of a line that is not of a strategy."""
    return _COLOURS[style % len(_COLOURS)]


def chart_of_lines(name: str, panels: Sequence[Panel]) -> Chart:
    """Draw the panels on axes that they share. One without a line is left out."""
    with_markers = [replace(panel, lines=[line for line in panel.lines if line.markers]) for panel in panels]
    drawn = [panel for panel in with_markers if panel.lines][:PICTURES_DRAWN]
    xs = sorted({marker.x for panel in drawn for marker in panel.markers})
    ys = [y for panel in drawn for y in panel.heights()]
    return Chart([
        picture(f"{name}-{number}", panel.heading, panel.subtitle, _layers(panel, xs, ys), HEIGHT, _room(drawn))
        for number, panel in enumerate(drawn, 1)
    ])  # fmt: skip


def _room(panels: Sequence[Panel]) -> float:
    """Return the pixels that the longest name of a line needs."""
    return _TO_NAME + _LETTER * max(len(line.label) for panel in panels for line in panel.lines)


def _layers(panel: Panel, xs: Sequence[float], ys: Sequence[float]) -> list[alt.Chart]:
    x = alt.X("x:Q").title(panel.x_title).scale(_scale(xs, panel.linear_x)).axis(values=xs)
    y = alt.Y("y:Q").title(panel.y.heading).scale(_scale(ys, panel.linear_y)).axis(tickCount=5)
    # Other layers are drawn on the same axes.
    low, high = alt.Y("low:Q"), alt.Y2("high:Q")
    labels = [line.label for line in panel.lines]
    colour = alt.Color("line:N").scale(domain=labels, range=[line.colour for line in panel.lines]).legend(None)
    shape = alt.Shape("line:N").scale(domain=labels).legend(None)
    shades = [] if panel.shaded_below is None else [{"low": min(ys), "high": panel.shaded_below}]
    guides = [
        layer({"x": x, "y": guide(x)} for x in (xs[0], xs[-1])).mark_line(color=QUIET, strokeWidth=1, strokeDash=dash)
        for guide, dash in zip(panel.guides, _DASHES, strict=False)
    ]
    bars = layer(
        {"line": line.label, "x": beside, "low": marker.figure.low, "high": marker.figure.high}
        for line, marker, beside in _bars(panel, xs)
    )
    figures = layer(_entry(line, marker) for line in panel.lines for marker in line.markers)
    dots = layer(
        {"line": line.label, "x": marker.x, "y": dot}
        for line in panel.lines for marker in line.markers for dot in marker.dots
    )  # fmt: skip
    is_band = panel.linear_x and panel.linear_y
    intervals = figures.mark_area(opacity=0.15) if is_band else bars.mark_rule(strokeWidth=1.5)
    names = layer(_names(panel, xs[-1], ys))
    name_x, name_y = alt.X("name_x:Q"), alt.Y("name_y:Q")
    return [
        layer(shades).mark_rect(color=QUIET, opacity=0.15).encode(low, high),
        *(guide.encode(x, y) for guide in guides),
        intervals.encode(x, low, high, colour),
        figures.mark_line(strokeWidth=1.8).encode(x, y, colour),
        figures.mark_point(filled=True, size=42, opacity=1).encode(x, y, colour, shape),
        dots.mark_point(size=30, strokeWidth=1.2, opacity=1).encode(x, y, colour),
        names.mark_rule(strokeWidth=1, strokeDash=[1, 2], xOffset=4, x2Offset=_TO_NAME - 2).encode(
            x, y, colour, x2="name_x", y2="name_y"
        ),
        names.mark_text(dx=_TO_NAME, fontSize=11, baseline="middle").encode(name_x, name_y, colour, text="line:N"),
    ]


def _names(panel: Panel, edge: float, ys: Sequence[float]) -> Iterator[dict[str, object]]:
    """Yield the name of every line at the edge of the plot, as high as its end and moved as far as another needs."""
    ends = sorted(((line.markers[-1], line.label) for line in panel.lines), key=lambda end: end[0].y)
    scale, back = (float, float) if panel.linear_y else (math.log2, lambda place: 2.0**place)
    low, high = scale(min(ys)), scale(max(ys))
    between = (high - low) * _BETWEEN_NAMES / HEIGHT
    places = apart([scale(marker.y) for marker, _ in ends], between, (low, high))
    for (marker, label), place in zip(ends, places, strict=True):
        yield {"line": label, "x": marker.x, "y": marker.y, "name_x": edge, "name_y": back(place)}


def apart(places: Sequence[float], between: float, limits: tuple[float, float]) -> list[float]:
    """Return ascending places moved until each is so far from the next: half of it up, half of it down, and none beyond
    the limits as long as there is room for all of them."""
    least, most = limits
    up, down = list(places), list(places)
    for at in range(1, len(places)):
        up[at] = max(up[at], up[at - 1] + between)
        down[-1 - at] = min(down[-1 - at], down[-at] - between)
    lowest = [least + below * between for below in range(len(places))]
    highest = [most - above * between for above in range(len(places))[::-1]]
    middle = [(higher + lower) / 2 for higher, lower in zip(up, down, strict=True)]
    return [min(max(place, bottom), top) for place, bottom, top in zip(middle, lowest, highest, strict=True)]


def _bars(panel: Panel, xs: Sequence[float]) -> Iterator[tuple[DrawnLine, Marker, float]]:
    """Yield every interval that is drawn, with its x: beside those of other lines, where several stand at one x."""
    step = (xs[-1] / xs[0]) ** (_BESIDE / WIDTH)
    for x in xs:
        bars = [(line, marker) for line in panel.lines for marker in line.markers if marker.x == x and marker.has_bar]
        for at, (line, marker) in enumerate(bars):
            yield line, marker, x * step ** (at - (len(bars) - 1) / 2)


def _entry(line: DrawnLine, marker: Marker) -> dict[str, object]:
    low, high = marker.figure.interval if marker.has_bar else (None, None)
    return {"line": line.label, "x": marker.x, "y": marker.y, "low": low, "high": high}


def _scale(values: Sequence[float], linear: bool) -> alt.Scale:
    """Return the scale of an axis. What reaches beyond ends at its edge."""
    domain = [min(values), max(values)]
    kind = alt.Scale(type="linear", zero=False) if linear else alt.Scale(type="log", base=2)
    kind.domain, kind.nice, kind.clamp, kind.padding = domain, False, True, 10
    return kind

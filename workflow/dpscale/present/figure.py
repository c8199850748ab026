"""From panels to the figure that stands in the page: how much is drawn of them, and what is said of the rest."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import nan
from typing import TypeVar

import pandas as pd

from dpscale.analyse.claims import is_range
from dpscale.present import bars, waterfall, words
from dpscale.present.bars import Bars
from dpscale.present.panel import WIDTH, Frame, Panel, Point, Series, cut, draw
from dpscale.present.svg import for_page
from dpscale.present.waterfall import Waterfall
from dpscale.present.words import Row
from dpscale.vocabulary.quantities import PLAIN, Unit

PANELS_DRAWN = 8
# These are small.
WATERFALLS_DRAWN = 16
_SERIES_DRAWN = 10
_POINTS_DRAWN = 40
_BARS_DRAWN = 10
# Lines that stand side by side at one x: how many have room, and their distance in pixels.
_LINES_BESIDE = 4
_GAP_BESIDE = 8

Item = TypeVar("Item")
Drawn = TypeVar("Drawn", Panel, Bars, Waterfall)


@dataclass(frozen=True)
class Chart:
    """One panel of a figure: what to take away from it, what it is, and an SVG with its own title and description."""

    title: str
    subtitle: str
    svg: str


@dataclass(frozen=True)
class Figure:
    """The panels of a figure, and a sentence for all that was too much to draw, or cannot be drawn."""

    charts: Sequence[Chart]
    not_drawn: Sequence[str]


def figure(name: str, panels: Sequence[Panel], not_drawn: Sequence[str] = ()) -> Figure:
    """The panels on axes that they share. `not_drawn` says what these axes cannot show."""
    drawn = [_thinned(panel) for panel in panels[:PANELS_DRAWN]]
    frame = Frame.around(drawn)
    beyond = [
        f"{panel.place}: intervals reach beyond the axis, and their bars its edge: {'; '.join(which)}."
        for panel in drawn
        if (which := cut(panel, frame))
    ]
    return _figure(name, panels, drawn, partial(draw, frame=frame), _described_lines, "points", [*not_drawn, *beyond])


def figure_of_bars(name: str, panels: Sequence[Bars]) -> Figure:
    drawn = [replace(panel, bars=_evenly(panel.bars, _BARS_DRAWN)) for panel in panels[:PANELS_DRAWN]]
    return _figure(name, panels, drawn, bars.draw, _described_bars, "bars", ())


def figure_of_waterfalls(name: str, panels: Sequence[Waterfall]) -> Figure:
    drawn = panels[:WATERFALLS_DRAWN]
    return _figure(name, panels, drawn, waterfall.draw, _described_waterfall, "bars", ())


def _figure(
    name: str,
    panels: Sequence[Drawn],
    drawn: Sequence[Drawn],
    svg_of: Callable[[Drawn], str],
    described: Callable[[Drawn], str],
    things: str,
    not_drawn: Sequence[str],
) -> Figure:
    charts = []
    for number, panel in enumerate(drawn, 1):
        title = f"{panel.heading}. {panel.subtitle}"
        svg = for_page(svg_of(panel), f"{name}-{number}", title, described(panel))
        charts.append(Chart(_unbroken(panel.heading), panel.subtitle, svg))
    more = [panel.place for panel in panels[len(drawn) :]]
    left_out: list[str] = [f"Not drawn: {words.listed(more)}."] if more else []
    for panel, thin in zip(panels, drawn, strict=False):
        if thin.number_of_points < panel.number_of_points:
            shown = f"{thin.number_of_points:,} of {panel.number_of_points:,} {things} are drawn"
            left_out.append(f"{panel.place}: {shown}.")
    return Figure(charts, [*left_out, *not_drawn])


def parts(table: pd.DataFrame, columns: Sequence[str]) -> Iterator[tuple[Row, pd.DataFrame]]:
    """The table's parts that have results. Rows without a record have no environment: they belong to each."""
    ordered = words.in_order(table)
    for key in words.rows(words.ok(ordered)[list(columns)].drop_duplicates()):
        part = ordered
        for name in columns:
            same = part[name] == key[name]
            part = part[same | part[name].isna()] if name == "environment" else part[same]
        yield key, part


def points(table: pd.DataFrame, x: str, y: str, unit: Unit = PLAIN) -> list[Point]:
    """The known values of `y` with their intervals, as `unit` shows them, by `x`."""
    known = table.dropna(subset=[y]).sort_values(x)
    return [point(row, x, y, unit) for row in words.rows(known)]


def point(row: Row, x: str, y: str, unit: Unit = PLAIN, marked: bool = True) -> Point:
    """The value of `y` in a row with its 95 % interval, if it has one, as `unit` shows them, at the row's `x`."""
    low, high = (nan if is_range(row, y) else row.get(f"{y}{end}", nan) for end in ("_low", "_high"))
    return Point(float(row[x]), unit.of(row[y]), unit.of(low), unit.of(high), marked)


def beside(series: Sequence[Series], first_style: int) -> list[Series]:
    """Lines that stand at one x, side by side there, with styles of their own from `first_style` on."""
    middle = (_LINES_BESIDE - 1) / 2
    return [
        replace(line, style=first_style + place, aside=_GAP_BESIDE * (place - middle))
        for place, line in enumerate(series)
    ]


def side_by_side(series: Sequence[Series]) -> list[Series]:
    """Lines of dots over the same x, each a little beside the other, the middle one at its place."""
    batches = {point.x for line in series for point in line.points}
    gap = min(_GAP_BESIDE, WIDTH / max(1, len(batches) - 1) / (len(series) + 1))
    middle = len(series) // 2
    return [replace(line, aside=gap * (place - middle)) for place, line in enumerate(series)]


def together(figures: Sequence[Figure]) -> Figure:
    """One figure of several that do not share their axes."""
    return Figure(
        [chart for drawn in figures for chart in drawn.charts],
        [sentence for drawn in figures for sentence in drawn.not_drawn],
    )


def _unbroken(heading: str) -> str:
    """With no break between a number and its unit, where a heading runs over several lines."""
    return re.sub(r"(?<=\d) (?=%|ms|s\b|GB/s)", "\u00a0", heading)


def _thinned(panel: Panel) -> Panel:
    """The panel with no more lines and points than can be told apart."""
    lines = _evenly(panel.series, _SERIES_DRAWN)
    return replace(panel, series=[replace(line, points=_evenly(line.points, _POINTS_DRAWN)) for line in lines])


def _evenly(items: Sequence[Item], most: int) -> Sequence[Item]:
    """At most `most` of the items, evenly spread, the first and the last among them."""
    if len(items) <= most:
        return items
    return [items[round(place * (len(items) - 1) / (most - 1))] for place in range(most)]


def _described_lines(panel: Panel) -> str:
    """What the panel shows, in words: the two ends of every line, and what ended it."""
    return " ".join(_described(line, panel.unit, panel.anywhere) for line in panel.series)


def _described(line: Series, unit: str, anywhere: bool) -> str:
    first, last = line.points[0], line.points[-1]
    ends = [first] if first is last else [first, last]
    parts_of_line = []
    for point in ends:
        where = words.figure(point.x, 3) if anywhere else f"{point.x:,.0f}"
        parts_of_line.append(f"{f'{words.figure(point.y, 3)} {unit}'.rstrip()} at {where}")
    if line.end:
        x, word = line.end
        parts_of_line.append(f"{word} at {x:,.0f}")
    return f"{line.label}: {', '.join(parts_of_line)}."


def _described_bars(panel: Bars) -> str:
    """Every part of every bar, in words."""
    described = []
    for bar in panel.bars:
        shares = ", ".join(f"{part.name} {words.figure(part.share, 3)} %" for part in bar.parts)
        described.append(f"{bar.label}: {shares} of {bar.total}.")
    return " ".join(described)


def _described_waterfall(panel: Waterfall) -> str:
    """Every bar, in words."""
    return "; ".join(stage.text for stage in panel.stages) + "."

"""Vega-Lite as all charts use it, and from its SVG to one that can stand in a page: named, and less than half as
large."""

import re
from collections.abc import Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape

import altair as alt
import vl_convert

from dpscale.present.charts.axes import HEIGHT, WIDTH

Entries = Sequence[Mapping[str, Any]]

# Pixels.
RIGHT = 104
LABEL_X = WIDTH + 14
_AROUND = {"left": 56, "right": RIGHT, "top": 8, "bottom": 42}
# Vega-Lite measures text with this font; page.css sets the same, as the SVG in the page says none.
_FONT, TEXT_SIZE = "DejaVu Sans", 11
INK, QUIET, _GRID = "currentColor", "var(--quiet)", "var(--grid)"

CONFIG: dict[str, Any] = {
    "autosize": "none",
    "padding": _AROUND,
    "background": "transparent",
    "font": _FONT,
    "view": alt.ViewConfig(stroke=None),
    "text": alt.MarkConfig(align="left", baseline="middle", fontSize=TEXT_SIZE, color=INK),
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
# What the entries themselves say.
COLOUR = alt.Color("colour:N", scale=None)
FILL, STROKE = alt.Fill("fill:N", scale=None), alt.Stroke("stroke:N", scale=None)
LABEL = alt.Text("label:N")

_IN_TAG = "(?=[^<>]*>)"
# What Vega says of every mark although it has no effect here: inside role="img" nothing else is read out, and the font
# is the page's.
_WITHOUT_EFFECT = re.compile(
    r' (?:(?:aria-[a-z]+|role|class|pointer-events|font-[a-z]+|stroke-miterlimit|display|version|xmlns:xlink)="[^"]*"'
    r'|(?:opacity|stroke-width)="1"|stroke-dasharray="1,0"|transform="translate\(0,0\)")' + _IN_TAG
)
_EMPTY = re.compile(
    r'<g[^>]*></g>|<g[^>]*/>|<text[^>]*></text>|<text[^>]* opacity="0"[^>]*>[^<]*</text>|<path[^>]* d=""[^>]*/>'
    r'|<path d="[^"]*"/>'
)
_LONG_NUMBER = re.compile(r'(?<!opacity=")-?\d+\.\d{2,}(?:e-\d+)?' + _IN_TAG)


def over(entries: Entries) -> alt.Chart:
    return alt.Chart(alt.InlineData(values=list(entries)))


def svg_of(layers: Sequence[alt.Chart], width: float = WIDTH, height: float = HEIGHT, **config: Any) -> str:
    """The layers, one over the other, as vl-convert draws them.

    A test has altair check the specification: that takes longer than the drawing. Channels are objects and not text,
    because for every text altair makes a table of all its classes.
    """
    chart = alt.LayerChart(layer=layers, width=width, height=height, config=alt.Config(**{**CONFIG, **config}))
    return str(vl_convert.vegalite_to_svg(chart.to_dict(validate=False)))


def for_page(svg: str, name: str, title: str, description: str) -> str:
    """The SVG as an image with an accessible name and description, whose ids start with `name`.

    A tenth of a pixel is as much as can be seen.
    """
    head, drawn = svg.split(">", 1)
    size = re.findall(r'viewBox="[^"]*"', head)[0]
    drawn = _LONG_NUMBER.sub(lambda number: f"{float(number[0]):.1f}", _WITHOUT_EFFECT.sub("", drawn))
    while (fuller := drawn) != (drawn := _EMPTY.sub("", fuller)):
        pass
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="{name}-title" '
        f'aria-describedby="{name}-description"><title id="{name}-title">{escape(title)}</title>'
        f'<desc id="{name}-description">{escape(description)}</desc>{drawn}'
    )

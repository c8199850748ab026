"""Vega-Lite as all charts use it: sizes, colours, and the way to an SVG."""

from collections.abc import Mapping, Sequence
from typing import Any

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
INK, QUIET, PAPER, _GRID = "currentColor", "var(--quiet)", "var(--paper)", "var(--grid)"

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


def over(entries: Entries) -> alt.Chart:
    return alt.Chart(alt.InlineData(values=list(entries)))


def svg_of(layers: Sequence[alt.Chart], width: float = WIDTH, height: float = HEIGHT, **config: Any) -> str:
    """The layers, one over the other, as vl-convert draws them.

    A test has altair check the specification: that takes longer than the drawing. Channels are objects and not text,
    because for every text altair makes a table of all its classes.
    """
    chart = alt.LayerChart(layer=layers, width=width, height=height, config=alt.Config(**{**CONFIG, **config}))
    return str(vl_convert.vegalite_to_svg(chart.to_dict(validate=False)))

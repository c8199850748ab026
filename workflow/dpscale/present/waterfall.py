"""One panel of bars with their text above them: a waterfall, or times that all begin at zero.

What is drawn is the charts' business.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import altair as alt

from dpscale.present.panel import HEIGHT, INK, QUIET, TEXT_SIZE, over, svg_of
from dpscale.present.words import Row

# A row has a line of text, and its bar below it.
_TEXT_SHARE = 0.5
_BAR_SHARE = 0.38
_ROOM = 1.02


@dataclass(frozen=True)
class Stage:
    """A bar from `start` to `end`, with its text above it; to the left, as an outline, where it takes time away."""

    text: str
    start: float
    end: float
    colour: str


@dataclass(frozen=True)
class Waterfall:
    """What one panel shows: `heading` is what to take away from it, `place` what it is of, `quantity` what it draws."""

    heading: str
    place: str
    quantity: str
    x_title: str
    stages: Sequence[Stage]

    @property
    def subtitle(self) -> str:
        return f"{self.place}. {self.quantity}"

    @property
    def number_of_points(self) -> int:
        return len(self.stages)


def draw(panel: Waterfall) -> str:
    """The panel as the SVG that vl-convert makes of it."""
    most = max(max(stage.start, stage.end) for stage in panel.stages)
    x = alt.X("x:Q").title(panel.x_title).scale(domain=[0, _ROOM * most], nice=False).axis(tickCount=5)
    y = alt.Y("top:Q").scale(domain=[HEIGHT, 0], nice=False).axis(None)
    rows = _rows(panel)
    layers = [
        over(rows)
        .mark_bar(strokeWidth=1)
        .encode(
            x, y, x2=alt.X2("end:Q"), y2=alt.Y2("bottom:Q"), fill=alt.Fill("fill:N", scale=None),
            stroke=alt.Stroke("stroke:N", scale=None),
        ),
        over(rows)
        .mark_text(align="left", baseline="middle", fontSize=TEXT_SIZE, color=INK)
        .encode(alt.Y("text_at:Q"), x=alt.XValue(0), text=alt.Text("text:N")),
    ]  # fmt: skip
    return svg_of(layers)


def _rows(panel: Waterfall) -> list[Row]:
    height = HEIGHT / len(panel.stages)
    rows: list[Row] = []
    for place, stage in enumerate(panel.stages):
        takes_away = stage.end < stage.start
        top = (place + _TEXT_SHARE) * height
        rows.append({
            "x": min(stage.start, stage.end), "end": max(stage.start, stage.end),
            "top": top, "bottom": top + _BAR_SHARE * height, "text_at": (place + _TEXT_SHARE / 2) * height,
            "fill": "none" if takes_away else stage.colour, "stroke": QUIET if takes_away else stage.colour,
            "text": stage.text,
        })  # fmt: skip
    return rows

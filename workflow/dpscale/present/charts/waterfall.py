"""Waterfalls of bars, or bars of times that all begin at zero."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from dpscale.present.charts.picture import FILL, HEIGHT, LABEL, QUIET, STROKE, Chart, Plot, over, svg_of

# These are small.
WATERFALLS_DRAWN = 16

# A bar has a line of text, and the bar itself below it.
_TEXT_SHARE = 0.5
_BAR_SHARE = 0.38
_ROOM = 1.02

Entry = dict[str, Any]


@dataclass(frozen=True)
class Stage:
    """A bar from `start` to `end`, with its text above it; to the left, as an outline, where it takes time away."""

    text: str
    start: float
    end: float
    colour: str

    @property
    def look(self) -> Entry:
        takes_away = self.end < self.start
        return {"fill": "none" if takes_away else self.colour, "stroke": QUIET if takes_away else self.colour}


@dataclass(frozen=True, kw_only=True)
class Waterfall(Plot):
    """Bars with their text above them."""

    stages: Sequence[Stage]

    @property
    def description(self) -> str:
        return "; ".join(stage.text for stage in self.stages) + "."

    def draw(self) -> str:
        """Draw the bars as SVG."""
        height = HEIGHT / len(self.stages)
        rows = [
            {
                "x": min(stage.start, stage.end), "end": max(stage.start, stage.end), "label": stage.text,
                "top": (place + _TEXT_SHARE) * height, "bottom": (place + _TEXT_SHARE + _BAR_SHARE) * height,
                "text_at": (place + _TEXT_SHARE / 2) * height, **stage.look,
            }
            for place, stage in enumerate(self.stages)
        ]  # fmt: skip
        most = max(row["end"] for row in rows)
        x = alt.X("x:Q").title(self.x_title).scale(domain=[0, _ROOM * most], nice=False).axis(tickCount=5)
        y = alt.Y("top:Q").scale(domain=[HEIGHT, 0], nice=False).axis(None)
        ends = {"x2": alt.X2("end:Q"), "y2": alt.Y2("bottom:Q")}
        bars = over(rows).mark_bar(strokeWidth=1).encode(x, y, FILL, STROKE, **ends)
        return svg_of([bars, over(rows).mark_text().encode(alt.Y("text_at:Q"), LABEL, x=alt.XValue(0))])


def chart_of_waterfalls(name: str, panels: Sequence[Waterfall]) -> Chart:
    return Chart.of(name, panels, [panel.draw() for panel in panels[:WATERFALLS_DRAWN]])

"""Bars with their text above them: of times that all begin at zero, or of a waterfall, where each begins at an end."""

from collections.abc import Sequence
from dataclasses import dataclass

import altair as alt

from dpscale.present.charts.picture import LABEL, QUIET, RIGHT, WIDTH, Chart, Plot, over, svg_of

# Pixels: from one bar to the next, a bar's thickness, and from the middle of both to its text and to itself.
_STEP, _THICK, _TO_TEXT, _TO_BAR = 44, 18, -11, 9


@dataclass(frozen=True)
class Bar:
    """A bar from `start` to `end`, with its text above it; to the left, as an outline, where it takes time away."""

    text: str
    start: float
    end: float
    colour: str


@dataclass(frozen=True, kw_only=True)
class Bars(Plot):
    """Bars, from top to bottom."""

    bars: Sequence[Bar]

    @property
    def description(self) -> str:
        return "; ".join(bar.text for bar in self.bars) + "."


def chart_of_bars(name: str, plots: Sequence[Bars]) -> Chart:
    return Chart.of(name, plots, _draw)


def _draw(plot: Bars) -> str:
    entries = over([
        {
            "place": place, "label": bar.text, "start": bar.start, "end": bar.end,
            "fill": bar.colour if bar.start <= bar.end else "none",
            "stroke": bar.colour if bar.start <= bar.end else QUIET,
        }
        for place, bar in enumerate(plot.bars)
    ])  # fmt: skip
    y = alt.Y("place:O").axis(None)
    bars = entries.mark_bar(size=_THICK, yOffset=_TO_BAR, strokeWidth=1).encode(
        alt.X("start:Q").title(plot.x_title).scale(zero=True).axis(tickCount=5),
        y,
        alt.Fill("fill:N", scale=None),
        alt.Stroke("stroke:N", scale=None),
        x2=alt.X2("end:Q"),
    )
    texts = entries.mark_text(yOffset=_TO_TEXT, limit=WIDTH + RIGHT).encode(y, LABEL, x=alt.XValue(0))
    return svg_of([bars, texts], alt.Step(_STEP))

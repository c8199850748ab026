"""Panels of bars as Vega-Lite draws them: shares of a whole, a waterfall, or times that all begin at zero."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import altair as alt

from dpscale.present.charts.axes import HEIGHT, WIDTH
from dpscale.present.charts.panel import Plot, evenly
from dpscale.present.charts.svg import (
    COLOUR,
    FILL,
    INK,
    LABEL,
    LABEL_X,
    PAPER,
    QUIET,
    RIGHT,
    STROKE,
    over,
    svg_of,
)
from dpscale.present.text.numbers import plain

_BARS_DRAWN = 10
# Pixels: the legend above stacked bars.
_LEGEND_HEIGHT = 26
_LEGEND_ROW = 17
_SWATCH = 12
_LETTER_WIDTH = 6.8
_AROUND_TEXT = 8
_WHOLE = 100
# A row of a waterfall has a line of text, and its bar below it.
_TEXT_SHARE = 0.5
_BAR_SHARE = 0.38
_ROOM = 1.02

Entry = dict[str, Any]


@dataclass(frozen=True)
class Share:
    """Of a bar, in %. One without colour is an outline: nothing happens in it."""

    name: str
    colour: str | None
    percent: float

    @property
    def look(self) -> Entry:
        if self.colour is None:
            return {"fill": "none", "stroke": QUIET, "colour": INK}
        return {"fill": self.colour, "stroke": PAPER, "colour": PAPER}


@dataclass(frozen=True)
class Bar:
    """Shares in their order, 100 % together; `label` stands left of them, `total` right."""

    label: str
    shares: Sequence[Share]
    total: str


@dataclass(frozen=True, kw_only=True)
class Bars(Plot):
    """Bars of the same shares."""

    y_title: str
    bars: Sequence[Bar]

    @property
    def size(self) -> int:
        return len(self.bars)

    @property
    def description(self) -> str:
        shares = [", ".join(f"{share.name} {plain(share.percent, 3)} %" for share in bar.shares) for bar in self.bars]
        return " ".join(f"{bar.label}: {told} of {bar.total}." for bar, told in zip(self.bars, shares, strict=True))

    def thinned(self) -> Self:
        return replace(self, bars=evenly(self.bars, _BARS_DRAWN))

    def draw(self) -> str:
        """The panel as the SVG that vl-convert makes of it."""
        x = alt.X("x:Q").title(self.x_title).scale(domain=[0, _WHOLE], nice=False).axis(values=[0, 25, 50, 75, 100])
        end = alt.X2("end:Q")
        legend = _legend(self.bars[0].shares)
        top = _LEGEND_HEIGHT + _LEGEND_ROW * (len(legend) - 1)
        y = (
            alt.Y("bar:N", sort=None, title=self.y_title)
            .scale(range=[top, HEIGHT], paddingInner=0.25, paddingOuter=0.1)
            .axis(grid=False, ticks=False)
        )
        parts = list(_parts(self.bars))
        totals = over([{"bar": bar.label, "label": bar.total} for bar in self.bars])
        layers = [
            over(parts).mark_bar(strokeWidth=1).encode(x, y, FILL, STROKE, x2=end),
            over(parts).mark_text(align="center").encode(alt.X("middle:Q"), y, LABEL, COLOUR),
            totals.mark_text().encode(y, LABEL, x=alt.XValue(LABEL_X)),
        ]
        for number, row in enumerate(legend):
            middle = alt.YValue(_SWATCH / 2 + _LEGEND_ROW * number)
            layers += [
                over(row).mark_bar(size=_SWATCH, strokeWidth=1).encode(x, FILL, STROKE, x2=end, y=middle),
                over(row).mark_text(dx=_AROUND_TEXT / 2).encode(alt.X("end:Q"), LABEL, y=middle),
            ]
        return svg_of(layers)


def _parts(bars: Sequence[Bar]) -> Iterator[Entry]:
    """Every share of every bar; those of one look in a row, as that is the smaller SVG."""
    for place in range(len(bars[0].shares)):
        for bar in bars:
            share = bar.shares[place]
            start = sum(before.percent for before in bar.shares[:place])
            ends = {"x": start, "end": start + share.percent, "middle": start + share.percent / 2}
            yield {"bar": bar.label, **ends, **share.look, "label": _name(share)}


def _name(share: Share) -> str:
    """The name and number of a share that has room for it, or else the number alone, or nothing."""
    number = f"{plain(share.percent, 3)} %"
    room = share.percent / _WHOLE * WIDTH - _AROUND_TEXT
    return next((text for text in (f"{share.name} {number}", number) if len(text) * _LETTER_WIDTH <= room), "")


def _legend(shares: Sequence[Share]) -> list[list[Entry]]:
    """A square of every share's look, in their order, with room for its name after it, in as many rows as it takes."""
    rows: list[list[Entry]] = [[]]
    left = 0.0
    for share in shares:
        width = _SWATCH + _LETTER_WIDTH * len(share.name) + 2 * _AROUND_TEXT
        if rows[-1] and left + width > WIDTH + RIGHT:
            rows.append([])
            left = 0.0
        x, end = (pixel / WIDTH * _WHOLE for pixel in (left, left + _SWATCH))
        rows[-1].append({"label": share.name, "x": x, "end": end, **share.look})
        left += width
    return rows


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
    def size(self) -> int:
        return len(self.stages)

    @property
    def description(self) -> str:
        return "; ".join(stage.text for stage in self.stages) + "."

    def draw(self) -> str:
        """The panel as the SVG that vl-convert makes of it."""
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

"""One panel of stacked bars: what a whole is made of, in shares of it. What is drawn is the business of the charts."""

from collections.abc import Sequence
from dataclasses import dataclass

import altair as alt

from dpscale.present import words
from dpscale.present.panel import HEIGHT, INK, LABEL_X, QUIET, RIGHT, TEXT_SIZE, WIDTH, over, svg_of
from dpscale.present.words import Row

_LEGEND_HEIGHT = 26
_LEGEND_ROW = 17
_SWATCH = 12
_LETTER_WIDTH = 6.8
_AROUND_TEXT = 8
_PAPER = "var(--paper)"
_WHOLE = 100


@dataclass(frozen=True)
class Part:
    """A share in % of a bar. One without colour is an outline: nothing happens in it."""

    name: str
    colour: str | None
    share: float


@dataclass(frozen=True)
class Bar:
    """Parts in their order, 100 % together; `label` stands left of them, `total` right."""

    label: str
    parts: Sequence[Part]
    total: str


@dataclass(frozen=True)
class Bars:
    """What one panel shows: `heading` is what to take away from it, `place` what it is of, `quantity` what it draws.

    All bars have the same parts.
    """

    heading: str
    place: str
    quantity: str
    x_title: str
    y_title: str
    bars: Sequence[Bar]

    @property
    def subtitle(self) -> str:
        return f"{self.place}. {self.quantity}"

    @property
    def number_of_points(self) -> int:
        return len(self.bars)


def draw(panel: Bars) -> str:
    """The panel as the SVG that vl-convert makes of it."""
    x = alt.X("x:Q").title(panel.x_title).scale(domain=[0, _WHOLE], nice=False).axis(values=[0, 25, 50, 75, 100])
    legend = _legend(panel.bars[0].parts)
    y = (
        alt.Y("bar:N", sort=None, title=panel.y_title)
        .scale(range=[_LEGEND_HEIGHT + _LEGEND_ROW * (len(legend) - 1), HEIGHT], paddingInner=0.25, paddingOuter=0.1)
        .axis(grid=False, ticks=False)
    )
    fill, stroke = alt.Fill("fill:N", scale=None), alt.Stroke("stroke:N", scale=None)
    text = alt.Color("colour:N", scale=None)
    totals = [{"bar": bar.label, "label": bar.total} for bar in panel.bars]
    layers = [
        over(_segments(panel)).mark_bar(strokeWidth=1).encode(x, y, x2=alt.X2("end:Q"), fill=fill, stroke=stroke),
        over(_names(panel))
        .mark_text(baseline="middle", fontSize=TEXT_SIZE)
        .encode(x, y, text=alt.Text("label:N"), color=text),
        over(totals)
        .mark_text(align="left", baseline="middle", fontSize=TEXT_SIZE, color=INK)
        .encode(y, x=alt.XValue(LABEL_X), text=alt.Text("label:N")),
    ]
    for number, row in enumerate(legend):
        middle = alt.YValue(_SWATCH / 2 + _LEGEND_ROW * number)
        layers += [
            over(row)
            .mark_bar(size=_SWATCH, strokeWidth=1)
            .encode(x, x2=alt.X2("end:Q"), y=middle, fill=fill, stroke=stroke),
            over(row)
            .mark_text(align="left", baseline="middle", dx=_AROUND_TEXT / 2, fontSize=TEXT_SIZE, color=INK)
            .encode(alt.X("end:Q"), y=middle, text=alt.Text("name:N")),
        ]
    return svg_of(layers)


def _look(part: Part) -> Row:
    return {"fill": part.colour or "none", "stroke": _PAPER if part.colour else QUIET}


def _placed(panel: Bars) -> list[tuple[Bar, Part, float]]:
    """Every part of every bar and where it starts; those of one look in a row, as that is the smaller SVG."""
    placed = []
    for bar in panel.bars:
        start = 0.0
        for place, part in enumerate(bar.parts):
            placed.append((place, bar, part, start))
            start += part.share
    return [(bar, part, start) for _, bar, part, start in sorted(placed, key=lambda part: part[0])]


def _segments(panel: Bars) -> list[Row]:
    return [
        {"bar": bar.label, "x": start, "end": start + part.share, **_look(part)} for bar, part, start in _placed(panel)
    ]


def _names(panel: Bars) -> list[Row]:
    """The name and share of every part that has room for it, or else the share alone, or nothing."""
    names: list[Row] = []
    for bar, part, start in _placed(panel):
        share = f"{words.figure(part.share, 3)} %"
        room = part.share / _WHOLE * WIDTH - _AROUND_TEXT
        label = next((text for text in (f"{part.name} {share}", share) if len(text) * _LETTER_WIDTH <= room), None)
        if label:
            colour = _PAPER if part.colour else INK
            names.append({"bar": bar.label, "x": start + part.share / 2, "label": label, "colour": colour})
    return names


def _legend(parts: Sequence[Part]) -> list[list[Row]]:
    """A square of every part's look, in their order, with room for its name after it, in as many rows as it takes."""
    rows: list[list[Row]] = [[]]
    left = 0.0
    for part in parts:
        width = _SWATCH + _LETTER_WIDTH * len(part.name) + 2 * _AROUND_TEXT
        if rows[-1] and left + width > WIDTH + RIGHT:
            rows.append([])
            left = 0.0
        end = left + _SWATCH
        rows[-1].append({"name": part.name, "x": left / WIDTH * _WHOLE, "end": end / WIDTH * _WHOLE, **_look(part)})
        left += width
    return rows

"""A forest plot: a row per group with its pooled change and interval, and below it one per batch.

It is drawn as narrow as a phone, so that its text is as large there as it is meant to be.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import altair as alt

from dpscale.formulas.figure import Figure
from dpscale.present.charts.chart import Chart, Picture
from dpscale.present.charts.panel import Plot
from dpscale.present.charts.svg import COLOUR, INK, LABEL, QUIET, over, svg_of
from dpscale.present.text.words import listed, plural

# Pixels. With what is around it the plot is as wide as the text of a phone's page.
_WIDTH = 266
_AROUND = {"left": 56, "right": 18, "top": 2, "bottom": 40}
_ROW, _GAP = 16, 10
# With more rows than these the pooled changes stand alone.
_ROWS_DRAWN = 60
# Where groups are more, the first ones are drawn.
_GROUPS_DRAWN = 20
# Intervals are cut where they reach so many times as far beyond the marks as these are apart.
_REACH = 3.0
# The least that an axis spans, in percent.
_LEAST_SPAN = 2.0
_MARGIN = 0.05
POOLED = "pooled"
_LOOKS = {True: {"shape": "diamond", "size": 110, "width": 2.5}, False: {"shape": "circle", "size": 26, "width": 1}}

Axis = tuple[float, float]
Entry = dict[str, Any]


@dataclass(frozen=True)
class ForestGroup:
    """A group, what is said of it, and its changes in percent: pooled, and by batch."""

    name: str
    told: str
    colour: str
    pooled: Figure
    batches: Mapping[str, Figure]

    @property
    def text(self) -> str:
        return f"{self.name}: {self.told}"

    @property
    def marks(self) -> Mapping[str, Figure]:
        return {POOLED: self.pooled, **self.batches}


@dataclass(frozen=True, kw_only=True)
class Forest(Plot):
    """At `limit`, in percent, stands a dashed line."""

    groups: Sequence[ForestGroup]
    limit: float | None = None

    @property
    def size(self) -> int:
        return sum(len(group.marks) for group in self.groups)

    @property
    def description(self) -> str:
        return ". ".join(group.text for group in self.groups) + "."


def chart_of_forests(name: str, forests: Sequence[Forest]) -> Chart:
    """A picture for every plot, and a sentence for all that is not drawn of it."""
    pictures, not_drawn = [], []
    for number, forest in enumerate(forests, 1):
        drawn = replace(forest, groups=forest.groups[:_GROUPS_DRAWN])
        if len(drawn.groups) < len(forest.groups):
            shown = f"{len(drawn.groups)} of {plural(len(forest.groups), 'group')}"
            not_drawn.append(f"{forest.place}: {shown} are drawn.")
        if drawn.size > _ROWS_DRAWN:
            drawn = replace(drawn, groups=[replace(group, batches={}) for group in drawn.groups])
            not_drawn.append(f"{forest.place}: changes at each batch are not drawn.")
        axis = _axis(drawn)
        if beyond := list(_cut(drawn.groups, axis)):
            not_drawn.append(f"{forest.place}: intervals reach beyond the axis: {listed(beyond, 4)}.")
        pictures.append(Picture.of(f"{name}-{number}", drawn, _draw(drawn, axis)))
    return Chart(pictures, not_drawn)


def _axis(forest: Forest) -> Axis:
    """From where to where: room for every mark, for no change, and for intervals within reach."""
    changes = [change for group in forest.groups for change in group.marks.values()]
    places = [0.0, forest.limit or 0.0, *(change.value for change in changes)]
    reach = _REACH * max(max(places) - min(places), _LEAST_SPAN)
    ends = [end for change in changes if change.has_interval for end in change.interval]
    low = max(min([*places, *ends]), min(places) - reach)
    high = min(max([*places, *ends]), max(places) + reach)
    margin = _MARGIN * max(high - low, _LEAST_SPAN)
    return low - margin, high + margin


def _cut(groups: Sequence[ForestGroup], axis: Axis) -> Iterator[str]:
    """`ddp on 4 GPUs at 32`: whose intervals go beyond the axis."""
    for group in groups:
        for label, change in group.marks.items():
            if change.low < axis[0] or change.high > axis[1]:
                yield f"{group.name}, {POOLED}" if label == POOLED else f"{group.name} at {label}"


def _draw(forest: Forest, axis: Axis) -> str:
    texts: list[Entry] = []
    rules: list[Entry] = []
    marks: list[Entry] = []
    top = 0.0
    for group in forest.groups:
        texts.append({"y": top + _ROW / 2, "label": group.text})
        top += _ROW
        bottom = top + _ROW * len(group.marks)
        ends = {"y": top, "bottom": bottom}  # of lines that cross no text
        rules.append({"x": 0.0, "dashes": [1, 0], **ends})
        rules += [] if forest.limit is None else [{"x": forest.limit, "dashes": [4, 3], **ends}]
        for place, (label, change) in enumerate(group.marks.items(), 1):
            marks.append({"y": top + _ROW * (place - 0.5), "label": label, **_look(change, label, group.colour, axis)})
        top = bottom + _GAP
    x = alt.X("x:Q").title(forest.x_title).scale(domain=list(axis), nice=False).axis(
        grid=False, tickCount=5, labelExpr="datum.value == 0 ? '0' : format(datum.value, '+,~r')"
    )  # fmt: skip
    y = alt.Y("y:Q").scale(domain=[top, 0], nice=False).axis(None)
    layers = [
        over(rules)
        .mark_rule(color=QUIET, strokeWidth=1)
        .encode(x, y, y2=alt.Y2("bottom:Q"), strokeDash=alt.StrokeDash("dashes:N", scale=None)),
        over([mark for mark in marks if "low" in mark])
        .mark_rule()
        .encode(alt.X("low:Q"), y, COLOUR, x2=alt.X2("high:Q"), strokeWidth=alt.StrokeWidth("width:Q", scale=None)),
        over(marks)
        .mark_point(filled=True, opacity=1)
        .encode(x, y, COLOUR, shape=alt.Shape("shape:N", scale=None), size=alt.Size("size:Q", scale=None)),
        over(marks)
        .mark_text(align="right")
        .encode(y, LABEL, x=alt.XValue(-6), color=alt.Color("ink:N", scale=None)),
        over(texts).mark_text().encode(y, LABEL, x=alt.XValue(4 - _AROUND["left"])),
    ]  # fmt: skip
    return svg_of(layers, _WIDTH, top, padding=_AROUND)


def _look(change: Figure, label: str, colour: str, axis: Axis) -> Entry:
    is_pooled = label == POOLED
    ends = {"low": max(change.low, axis[0]), "high": min(change.high, axis[1])} if change.has_interval else {}
    inks = {"colour": colour, "ink": INK} if is_pooled else {"colour": QUIET, "ink": QUIET}
    return {"x": change.value, **ends, **inks, **_LOOKS[is_pooled]}

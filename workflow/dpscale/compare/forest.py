"""A forest plot: a row per group with its pooled change and interval, and below it one per batch.

It is drawn as narrow as a phone, so that its text is as large there as it is meant to be.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import altair as alt

from dpscale.formulas.figure import Figure
from dpscale.present.charts.chart import Chart, Picture
from dpscale.present.charts.plot import Plot
from dpscale.present.charts.vega import COLOUR, INK, LABEL, QUIET, over, svg_of
from dpscale.present.text.words import listed, plural

# Pixels. With what is around it the plot is as wide as the text of a phone's page.
_WIDTH = 266
_AROUND = {"left": 56, "right": 18, "top": 2, "bottom": 40}
_TEXT_HEIGHT, _POOLED_HEIGHT, _BATCH_HEIGHT, _GAP = 20, 16, 14, 10
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

Entry = dict[str, Any]


@dataclass(frozen=True)
class ForestMark:
    """A change in percent. `label` is a batch, or `POOLED`."""

    label: str
    change: Figure

    @property
    def height(self) -> float:
        return _POOLED_HEIGHT if self.label == POOLED else _BATCH_HEIGHT


@dataclass(frozen=True)
class ForestGroup:
    """A group and what is said of it, and its marks: the pooled one, and one per batch."""

    name: str
    told: str
    colour: str
    marks: Sequence[ForestMark]

    @property
    def text(self) -> str:
        return f"{self.name}: {self.told}"

    @property
    def height(self) -> float:
        return _TEXT_HEIGHT + sum(mark.height for mark in self.marks) + _GAP


@dataclass(frozen=True, kw_only=True)
class Forest(Plot):
    """At `limit`, in percent, stands a dashed line."""

    groups: Sequence[ForestGroup]
    limit: float | None = None

    @property
    def marks(self) -> Sequence[ForestMark]:
        return [mark for group in self.groups for mark in group.marks]

    @property
    def size(self) -> int:
        return len(self.marks)

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
            drawn = replace(drawn, groups=[replace(group, marks=group.marks[:1]) for group in drawn.groups])
            not_drawn.append(f"{forest.place}: changes at each batch are not drawn.")
        axis = _ends(drawn)
        if beyond := list(_cut(drawn.groups, axis)):
            not_drawn.append(f"{forest.place}: intervals reach beyond the axis: {listed(beyond, 4)}.")
        pictures.append(Picture.of(f"{name}-{number}", drawn, _draw(drawn, axis)))
    return Chart(pictures, not_drawn)


def _ends(forest: Forest) -> tuple[float, float]:
    """Of the axis: room for every mark, for no change, and for intervals within reach."""
    changes = [mark.change for mark in forest.marks]
    places = [0.0, forest.limit or 0.0, *(change.value for change in changes)]
    reach = _REACH * max(max(places) - min(places), _LEAST_SPAN)
    ends = [end for change in changes if change.has_interval for end in change.interval]
    low = max(min([*places, *ends]), min(places) - reach)
    high = min(max([*places, *ends]), max(places) + reach)
    margin = _MARGIN * max(high - low, _LEAST_SPAN)
    return low - margin, high + margin


def _cut(groups: Sequence[ForestGroup], axis: tuple[float, float]) -> Iterator[str]:
    """`ddp on 4 GPUs at 32`: whose intervals go beyond the axis."""
    for group in groups:
        for mark in group.marks:
            if mark.change.low < axis[0] or mark.change.high > axis[1]:
                yield f"{group.name}, {POOLED}" if mark.label == POOLED else f"{group.name} at {mark.label}"


def _draw(forest: Forest, axis: tuple[float, float]) -> str:
    lines, texts, marks = _entries(forest, axis)
    height = sum(group.height for group in forest.groups)
    x = alt.X("x:Q").title(forest.x_title).scale(domain=list(axis), nice=False).axis(
        grid=False, tickCount=5, labelExpr="datum.value == 0 ? '0' : format(datum.value, '+,~r')"
    )  # fmt: skip
    y = alt.Y("y:Q").scale(domain=[height, 0], nice=False).axis(None)
    layers = [
        over(lines)
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
    return svg_of(layers, _WIDTH, height, padding=_AROUND)


def _entries(forest: Forest, axis: tuple[float, float]) -> tuple[list[Entry], list[Entry], list[Entry]]:
    """The lines of no change and of the limit, which cross no text, the texts, and the marks of every group."""
    lines: list[Entry] = []
    texts: list[Entry] = []
    marks: list[Entry] = []
    top = 0.0
    for group in forest.groups:
        texts.append({"x": axis[0], "y": top + _TEXT_HEIGHT / 2, "label": group.text})
        ends = {"y": top + _TEXT_HEIGHT, "bottom": top + group.height - _GAP}
        lines.append({"x": 0.0, "dashes": [1, 0], **ends})
        if forest.limit is not None:
            lines.append({"x": forest.limit, "dashes": [4, 3], **ends})
        at = ends["y"]
        for mark in group.marks:
            marks.append({"y": at + mark.height / 2, **_look(mark, group.colour, axis)})
            at += mark.height
        top += group.height
    return lines, texts, marks


def _look(mark: ForestMark, colour: str, axis: tuple[float, float]) -> Entry:
    change, is_pooled = mark.change, mark.label == POOLED
    ends = {}
    if change.has_interval:
        ends = {"low": max(change.low, axis[0]), "high": min(change.high, axis[1])}
    return {
        "x": change.value, **ends, "label": mark.label,
        "colour": colour if is_pooled else QUIET, "ink": INK if is_pooled else QUIET,
        "shape": "diamond" if is_pooled else "circle", "size": 110 if is_pooled else 26,
        "width": 2.5 if is_pooled else 1,
    }  # fmt: skip

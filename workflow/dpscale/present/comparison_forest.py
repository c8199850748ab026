"""A forest plot: a row per group with its pooled change and interval, and below it one per batch.

It is drawn as narrow as a phone, so that its text is as large there as it is meant to be.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import altair as alt
import vl_convert

from dpscale.present import words
from dpscale.present.charts.chart import Chart, Picture
from dpscale.present.charts.svg import for_page
from dpscale.present.charts.vega import CONFIG, INK, QUIET, TEXT_SIZE, over
from dpscale.present.words import Row

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


@dataclass(frozen=True)
class Mark:
    """A change in percent and its interval, whose ends are NaN where it has none. `label` is a batch, or `POOLED`."""

    label: str
    change: float
    low: float
    high: float


@dataclass(frozen=True)
class Group:
    """What is said of a group, its pooled mark, and one per batch."""

    text: str
    colour: str
    pooled: Mark
    batches: Sequence[Mark]

    @property
    def marks(self) -> Sequence[Mark]:
        return [self.pooled, *self.batches]


@dataclass(frozen=True)
class Forest:
    """What one plot shows: `heading` is what to take away from it, `place` what it is of, `quantity` what it draws.

    At `limit`, in percent, stands a dashed line.
    """

    heading: str
    place: str
    quantity: str
    x_title: str
    groups: Sequence[Group]
    limit: float | None = None

    @property
    def subtitle(self) -> str:
        return f"{self.place}. {self.quantity}"


def figure_of_forests(name: str, forests: Sequence[Forest]) -> Chart:
    """A chart for every plot that has a group, and a sentence for all that is not drawn of it."""
    pictures, not_drawn = [], []
    for number, forest in enumerate((forest for forest in forests if forest.groups), 1):
        groups = forest.groups[:_GROUPS_DRAWN]
        if len(groups) < len(forest.groups):
            shown = f"{len(groups)} of {words.plural(len(forest.groups), 'group')}"
            not_drawn.append(f"{forest.place}: {shown} are drawn.")
        if sum(len(group.marks) for group in groups) > _ROWS_DRAWN:
            groups = [Group(group.text, group.colour, group.pooled, ()) for group in groups]
            not_drawn.append(f"{forest.place}: changes at each batch are not drawn.")
        drawn = Forest(forest.heading, forest.place, forest.quantity, forest.x_title, groups, forest.limit)
        axis = _ends(drawn)
        if beyond := list(_cut(groups, axis)):
            not_drawn.append(f"{forest.place}: intervals reach beyond the axis: {words.listed(beyond, 4)}.")
        described = ". ".join(group.text for group in groups) + "."
        named = f"{name}-{number}"
        svg = for_page(_draw(drawn, axis), named, f"{forest.heading}. {forest.subtitle}", described)
        pictures.append(Picture(named, forest.heading, forest.subtitle, svg))
    return Chart(pictures, not_drawn)


def _ends(forest: Forest) -> tuple[float, float]:
    """Of the axis: room for every mark, for no change, and for intervals within reach."""
    marks = [mark for group in forest.groups for mark in group.marks]
    places = [0.0, *(mark.change for mark in marks), *([] if forest.limit is None else [forest.limit])]
    reach = _REACH * max(max(places) - min(places), _LEAST_SPAN)
    ends = [end for mark in marks for end in (mark.low, mark.high) if words.is_known(end)]
    low = max(min([*places, *ends]), min(places) - reach)
    high = min(max([*places, *ends]), max(places) + reach)
    margin = _MARGIN * max(high - low, _LEAST_SPAN)
    return low - margin, high + margin


def _cut(groups: Sequence[Group], axis: tuple[float, float]) -> Iterator[str]:
    """`ddp on 4 GPUs at 32`: whose intervals go beyond the axis."""
    for group in groups:
        for mark in group.marks:
            if mark.low < axis[0] or mark.high > axis[1]:
                name = group.text.split(":", 1)[0]
                yield f"{name}, {POOLED}" if mark.label == POOLED else f"{name} at {mark.label}"


def _draw(forest: Forest, axis: tuple[float, float]) -> str:
    rows = list(_rows(forest.groups, axis))
    height = _height(forest.groups)
    x = alt.X("x:Q").title(forest.x_title).scale(domain=list(axis), nice=False).axis(
        grid=False, tickCount=5, labelExpr="datum.value == 0 ? '0' : format(datum.value, '+,~r')"
    )  # fmt: skip
    y = alt.Y("y:Q").scale(domain=[height, 0], nice=False).axis(None)
    colour = alt.Color("colour:N", scale=None)
    headings = [row for row in rows if "text" in row]
    marks = [row for row in rows if "text" not in row]
    layers = [
        over(list(_lines(forest)))
        .mark_rule(color=QUIET, strokeWidth=1)
        .encode(x, y, y2=alt.Y2("bottom:Q"), strokeDash=alt.StrokeDash("dashes:N", scale=None)),
        over([row for row in marks if "low" in row])
        .mark_rule()
        .encode(
            alt.X("low:Q"), y, x2=alt.X2("high:Q"), color=colour, strokeWidth=alt.StrokeWidth("width:Q", scale=None)
        ),
        over(marks)
        .mark_point(filled=True, opacity=1)
        .encode(
            x, y, color=colour,
            shape=alt.Shape("shape:N", scale=None), size=alt.Size("size:Q", scale=None),
        ),
        over(marks)
        .mark_text(align="right", baseline="middle", fontSize=TEXT_SIZE)
        .encode(y, x=alt.XValue(-6), text=alt.Text("label:N"), color=alt.Color("ink:N", scale=None)),
        over(headings)
        .mark_text(align="left", baseline="middle", fontSize=TEXT_SIZE, color=INK)
        .encode(y, x=alt.XValue(4 - _AROUND["left"]), text=alt.Text("text:N")),
    ]  # fmt: skip
    config = alt.Config(**{**CONFIG, "padding": _AROUND})
    chart = alt.LayerChart(layer=layers, width=_WIDTH, height=height, config=config)
    return str(vl_convert.vegalite_to_svg(chart.to_dict(validate=False)))


def _lines(forest: Forest) -> Iterator[Row]:
    """No change, and the limit, beside the marks of every group: no line crosses a text."""
    top = 0.0
    for group in forest.groups:
        bottom = top + _height([group]) - _GAP
        ends = {"y": top + _TEXT_HEIGHT, "bottom": bottom}
        yield {"x": 0.0, "dashes": [1, 0], **ends}
        if forest.limit is not None:
            yield {"x": forest.limit, "dashes": [4, 3], **ends}
        top = bottom + _GAP


def _height(groups: Sequence[Group]) -> float:
    return sum(_TEXT_HEIGHT + _POOLED_HEIGHT + _BATCH_HEIGHT * len(group.batches) + _GAP for group in groups)


def _rows(groups: Sequence[Group], axis: tuple[float, float]) -> Iterator[Row]:
    """A heading and the marks of every group, at their heights."""
    top = 0.0
    for group in groups:
        yield {"x": axis[0], "y": top + _TEXT_HEIGHT / 2, "text": group.text}
        top += _TEXT_HEIGHT
        for mark in group.marks:
            height = _POOLED_HEIGHT if mark.label == POOLED else _BATCH_HEIGHT
            yield {"y": top + height / 2, **_look(mark, group, axis)}
            top += height
        top += _GAP


def _look(mark: Mark, group: Group, axis: tuple[float, float]) -> Row:
    is_pooled = mark.label == POOLED
    ends = {}
    if words.is_known(mark.low) and words.is_known(mark.high):
        ends = {"low": max(mark.low, axis[0]), "high": min(mark.high, axis[1])}
    return {
        "x": mark.change, **ends, "label": mark.label,
        "colour": group.colour if is_pooled else QUIET, "ink": INK if is_pooled else QUIET,
        "shape": "diamond" if is_pooled else "circle", "size": 110 if is_pooled else 26,
        "width": 2.5 if is_pooled else 1,
    }  # fmt: skip

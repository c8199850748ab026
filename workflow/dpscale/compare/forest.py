"""How much longer or shorter epochs became: a forest plot per study and scope, with a row per group, pooled over
batches, and below it one per batch.

It is drawn as narrow as a phone, so that its text is as large there as it is meant to be.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import altair as alt

from dpscale.compare.comparison import Pair
from dpscale.compare.rows import ComparedGroupsRow
from dpscale.compare.sentences import groups_in_order, heading, short
from dpscale.formulas.figure import Figure
from dpscale.present.charts.chart import Chart, Picture
from dpscale.present.charts.panel import Plot
from dpscale.present.charts.svg import COLOUR, INK, LABEL, QUIET, over, svg_of
from dpscale.present.text.numbers import whole
from dpscale.present.text.words import Terms, capitalised, colour, in_order, scope
from dpscale.tables.column import PERCENT
from dpscale.tables.row import grouped

# Pixels. With what is around it the plot is as wide as the text of a phone's page.
_WIDTH = 266
_AROUND = {"left": 56, "right": 18, "top": 2, "bottom": 40}
_ROW, _GAP = 16, 10
# Intervals are cut where they reach so many times as far beyond the marks as these are apart.
_REACH = 3.0
# The least that an axis spans, in percent.
_LEAST_SPAN = 2.0
_MARGIN = 0.05
POOLED = "pooled"
_LOOKS = {True: {"shape": "diamond", "size": 110, "width": 2.5}, False: {"shape": "circle", "size": 26, "width": 1}}

Axis = tuple[float, float]
Entry = dict[str, Any]


class ForestGroup(NamedTuple):
    """What is said of a group, and its changes in percent: pooled, then by batch."""

    text: str
    colour: str
    marks: Mapping[str, Figure]


@dataclass(frozen=True, kw_only=True)
class Forest(Plot):
    groups: Sequence[ForestGroup]

    @property
    def description(self) -> str:
        return ". ".join(group.text for group in self.groups) + "."


def changes(pairs: Sequence[Pair], terms: Terms) -> Chart:
    """Change of the epoch time in % by strategy and GPUs, pooled over batches and at each batch: a plot per study and
    scope."""
    forests = [forest for pair in pairs for forest in _forests(pair, terms)]
    return Chart(
        [Picture.of(f"changes-{number}", forest, draw(forest)) for number, forest in enumerate(forests, 1)], []
    )


def _forests(pair: Pair, terms: Terms) -> Iterator[Forest]:
    compared = groups_in_order(row for row in pair.groups if row.status == "ok")
    for name, groups in grouped(compared, lambda row: row.scope).items():
        yield Forest(
            heading=capitalised(heading(groups)),
            place=f"{pair.name}, {scope(name)}",
            quantity="Change of the epoch time in %, pooled over batches (diamonds) and at each (dots); bars are 95 % "
            "intervals, up to the plot's edge",
            x_title="Change of the epoch time, %; slower is to the right",
            groups=[_group(group, pair, terms) for group in groups],
        )


def _group(group: ComparedGroupsRow, pair: Pair, terms: Terms) -> ForestGroup:
    epochs = in_order(row for row in pair.epochs if row.group == group.group)
    changes = {POOLED: group.change, **{whole(row.batch_per_gpu): row.change for row in epochs}}
    marks = {label: change.map(PERCENT.of) for label, change in changes.items()}
    return ForestGroup(f"{terms.group(group)}: {short(group)}", colour(group.strategy), marks)


def _axis(forest: Forest) -> Axis:
    """From where to where: room for every mark, for no change, and for intervals within reach."""
    changes = [change for group in forest.groups for change in group.marks.values()]
    places = [0.0, *(change.value for change in changes)]
    reach = _REACH * max(max(places) - min(places), _LEAST_SPAN)
    ends = [end for change in changes if change.has_interval for end in change.interval]
    low = max(min([*places, *ends]), min(places) - reach)
    high = min(max([*places, *ends]), max(places) + reach)
    margin = _MARGIN * max(high - low, _LEAST_SPAN)
    return low - margin, high + margin


def draw(forest: Forest) -> str:
    """The plot as SVG."""
    axis = _axis(forest)
    texts: list[Entry] = []
    rules: list[Entry] = []
    marks: list[Entry] = []
    top = 0.0
    for group in forest.groups:
        texts.append({"y": top + _ROW / 2, "label": group.text})
        top += _ROW
        for place, (label, change) in enumerate(group.marks.items()):
            marks.append({"y": top + _ROW * (place + 0.5), "label": label, **_look(change, label, group.colour, axis)})
        bottom = top + _ROW * len(group.marks)
        rules.append({"x": 0.0, "y": top, "bottom": bottom})  # crosses no text
        top = bottom + _GAP
    x = alt.X("x:Q").title(forest.x_title).scale(domain=list(axis), nice=False).axis(
        grid=False, tickCount=5, labelExpr="datum.value == 0 ? '0' : format(datum.value, '+,~r')"
    )  # fmt: skip
    y = alt.Y("y:Q").scale(domain=[top, 0], nice=False).axis(None)
    layers = [
        over(rules).mark_rule(color=QUIET, strokeWidth=1).encode(x, y, y2=alt.Y2("bottom:Q")),
        over([mark for mark in marks if "low" in mark])
        .mark_rule()
        .encode(alt.X("low:Q"), y, COLOUR, x2=alt.X2("high:Q"), strokeWidth=alt.StrokeWidth("width:Q", scale=None)),
        over(marks)
        .mark_point(filled=True, opacity=1)
        .encode(x, y, COLOUR, shape=alt.Shape("shape:N", scale=None), size=alt.Size("size:Q", scale=None)),
        over(marks).mark_text(align="right").encode(y, LABEL, x=alt.XValue(-6), color=alt.Color("ink:N", scale=None)),
        over(texts).mark_text().encode(y, LABEL, x=alt.XValue(4 - _AROUND["left"])),
    ]
    return svg_of(layers, _WIDTH, top, padding=_AROUND)


def _look(change: Figure, label: str, colour: str, axis: Axis) -> Entry:
    is_pooled = label == POOLED
    ends = {"low": max(change.low, axis[0]), "high": min(change.high, axis[1])} if change.has_interval else {}
    inks = {"colour": colour, "ink": INK} if is_pooled else {"colour": QUIET, "ink": QUIET}
    return {"x": change.value, **ends, **inks, **_LOOKS[is_pooled]}

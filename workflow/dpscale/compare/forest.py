"""How much longer or shorter epochs became: a forest plot per study and scope, with a row per group, pooled over
batches, and below it one per batch.

It is drawn as narrow as a phone, so that its text is as large there as it is meant to be.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple

import altair as alt

from dpscale.compare.comparison import Pair
from dpscale.compare.rows import ComparedGroupsRow
from dpscale.compare.sentences import groups_in_order, heading, short
from dpscale.formulas.figure import Figure
from dpscale.present.charts.axes import reach
from dpscale.present.charts.chart import Chart, chart_of
from dpscale.present.charts.panel import Plot
from dpscale.present.charts.svg import COLOUR, LABEL, QUIET, over, svg_of
from dpscale.present.text.numbers import whole
from dpscale.present.text.words import Terms, capitalised, colour, in_order, scope
from dpscale.tables.column import PERCENT
from dpscale.tables.row import grouped

# Pixels. With what is around it the plot is as wide as the text of a phone's page.
_WIDTH = 266
_AROUND = {"left": 56, "right": 18, "top": 2, "bottom": 40}
_ROW, _GAP = 16, 10
# Of an axis in percent: no change, and the least that it spans.
_NO_CHANGE = (-1.0, 0.0, 1.0)
POOLED = "pooled"

_group_of = attrgetter("strategy", "gpus", "scope")
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
    return chart_of("changes", forests, list(map(draw, forests)))


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
    epochs = [row for row in pair.figures if (row.table, row.quantity) == ("times", "epoch_s") and row.outcome]
    here = in_order(row for row in epochs if _group_of(row) == _group_of(group))
    changes = {POOLED: group.change, **{whole(row.batch_per_gpu): row.change for row in here}}
    marks = {label: change.map(PERCENT.of) for label, change in changes.items()}
    return ForestGroup(f"{terms.group(group)}: {short(group)}", colour(group.strategy), marks)


def draw(forest: Forest) -> str:
    """The plot as SVG."""
    texts: list[Entry] = []
    marks: list[Entry] = []
    bottom = 0.0
    for group in forest.groups:
        texts.append({"y": bottom + _ROW / 2, "label": group.text})
        for label, change in group.marks.items():
            bottom += _ROW
            look = _look(change, label, group.colour)
            marks.append({"x": change.value, "y": bottom + _ROW / 2, "label": label, **look})
        bottom += _ROW + _GAP
    x, y = _x(forest), alt.Y("y:Q").scale(domain=[bottom, 0], nice=False).axis(None)
    no_change = over(marks).mark_tick(color=QUIET, thickness=1, size=_ROW)  # crosses no text
    layers = [
        no_change.encode(y, x=alt.XDatum(0)),
        over([mark for mark in marks if "low" in mark])
        .mark_rule(strokeWidth=1.5)
        .encode(alt.X("low:Q"), y, COLOUR, x2=alt.X2("high:Q")),
        over(marks)
        .mark_point(filled=True, opacity=1)
        .encode(x, y, COLOUR, shape=alt.Shape("shape:N", scale=None), size=alt.Size("size:Q", scale=None)),
        over(marks).mark_text(align="right").encode(y, LABEL, x=alt.XValue(-6)),
        over(texts).mark_text().encode(y, LABEL, x=alt.XValue(4 - _AROUND["left"])),
    ]
    return svg_of(layers, _WIDTH, bottom, padding=_AROUND)


def _x(forest: Forest) -> alt.X:
    """From mark to mark; what reaches further ends at the edge."""
    changes = [change for group in forest.groups for change in group.marks.values()]
    ends = [end for change in changes if change.has_interval for end in change.interval]
    domain = reach([*_NO_CHANGE, *(change.value for change in changes)], ends, linear=True)
    return alt.X("x:Q").title(forest.x_title).scale(domain=domain, nice=False, clamp=True).axis(
        grid=False, tickCount=5, labelExpr="datum.value == 0 ? '0' : format(datum.value, '+,~r')"
    )  # fmt: skip


def _look(change: Figure, label: str, colour: str) -> Entry:
    ends = {"low": change.low, "high": change.high} if change.has_interval else {}
    if label == POOLED:
        return {**ends, "colour": colour, "shape": "diamond", "size": 110}
    return {**ends, "colour": QUIET, "shape": "circle", "size": 26}

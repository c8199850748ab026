"""How much longer or shorter epochs became, pooled over batches and at each, and the epoch times of the studies."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from dpscale.compare.comparison import Comparison
from dpscale.compare.forest import POOLED, Forest, ForestGroup, ForestMark, chart_of_forests
from dpscale.compare.rows import ComparedGroupsRow, ComparedTimesRow
from dpscale.compare.sentences import groups_in_order, heading, short
from dpscale.present.charts.chart import Chart, chart_of_lines
from dpscale.present.charts.panel import Panel, Series, level, markers
from dpscale.present.text.numbers import measured, whole
from dpscale.present.text.words import Terms, capitalised, colour, in_order, listed, scope
from dpscale.tables.column import PERCENT, TIMES
from dpscale.tables.quantities import BATCH, EPOCH

# Characters that fit beside a line.
_LABEL_LENGTH = 14
Lines = list[tuple[tuple[str, int], list[ComparedTimesRow]]]  # by strategy and devices


def changes(comparison: Comparison, terms: Terms) -> Chart:
    """Change of the epoch time in % by strategy and GPUs, pooled over batches and at each batch: a plot per study and
    scope."""
    return chart_of_forests("changes", list(_forests(comparison, terms)))


def _forests(comparison: Comparison, terms: Terms) -> Iterator[Forest]:
    for side in comparison.others:
        epochs = _epochs(comparison, side.name)
        groups = [row for row in comparison.tables.groups if row.study == side.name and row.status == "ok"]
        for name, part in groupby(groups_in_order(groups), key=lambda row: row.scope):
            rows = list(part)
            yield Forest(
                heading=capitalised(heading(rows)),
                place=f"{side.name} against {comparison.first.name}, {scope(name)}",
                quantity="Change of the epoch time in %, pooled over batches (diamonds) and at each (dots); bars are "
                "95 % intervals",
                x_title="Change of the epoch time, %; slower is to the right",
                groups=[_group(row, epochs, terms) for row in rows],
                limit=PERCENT.of(rows[0].tolerance) if rows[0].beyond_tolerance else None,
            )


def _group(group: ComparedGroupsRow, epochs: Iterable[ComparedTimesRow], terms: Terms) -> ForestGroup:
    marks = [
        ForestMark(POOLED, group.change.map(PERCENT.of)),
        *(
            ForestMark(whole(row.batch_per_gpu), row.change.map(PERCENT.of))
            for row in epochs
            if (row.strategy, row.gpus, row.scope) == (group.strategy, group.gpus, group.scope)
        ),
    ]
    return ForestGroup(terms.group(group), short(group), colour(group.strategy), marks)


def speeds(comparison: Comparison, terms: Terms) -> Chart:
    """Times as fast as the first study against batch per GPU: a panel for every study and scope."""
    panels = []
    for side in comparison.others:
        for name, part in groupby(_epochs(comparison, side.name), key=lambda row: row.scope):
            rows = list(part)
            styles = {gpus: style for style, gpus in enumerate(sorted({row.gpus for row in rows}))}
            panels.append(
                Panel(
                    heading=f"{_range(rows)} as fast",
                    place=capitalised(_place(comparison, side.name, scope(name))),
                    quantity=f"Epoch time of {comparison.first.name} over that of {side.name} against {terms.batch}; "
                    f"one line for each strategy × {terms.devices}",
                    x_title=terms.heading_of(BATCH),
                    y_title=f"Times as fast, {TIMES.shown}",
                    unit=TIMES.shown,
                    series=[
                        Series(
                            f"{strategy} × {gpus}",
                            colour(strategy),
                            styles[gpus],
                            markers((float(row.batch_per_gpu), row.ratio) for row in line),
                        )
                        for (strategy, gpus), line in _lines(rows)
                    ],
                    guides=(level("same", 1, [float(row.batch_per_gpu) for row in rows]),),
                )
            )
    return chart_of_lines("speeds", panels)


def epoch_times(comparison: Comparison, terms: Terms) -> Chart:
    """Epoch time in s of both studies against batch per GPU: a panel for every study and strategy × GPUs, compute scope
    (or the first there is)."""
    panels = []
    for side in comparison.others:
        names = labels = [comparison.first.name, side.name]
        drawn = "one line for each study"
        if max(map(len, names)) > _LABEL_LENGTH:
            labels = ["first", "second"]
            drawn += f", {listed([f'{label} is {name}' for label, name in zip(labels, names, strict=True)])}"
        epochs = _epochs(comparison, side.name)
        for (strategy, gpus), rows in _lines(row for row in epochs if row.scope == epochs[0].scope):
            both = (
                markers((float(row.batch_per_gpu), row.first) for row in rows),
                markers((float(row.batch_per_gpu), row.second) for row in rows),
            )
            panels.append(
                Panel(
                    heading=f"{_range(rows)} as fast",
                    place=_place(comparison, side.name, f"{strategy} × {gpus}"),
                    quantity=f"Epoch time in s against {terms.batch}; {drawn}",
                    x_title=terms.heading_of(BATCH),
                    y_title=EPOCH.heading,
                    unit=EPOCH.unit.shown,
                    series=[
                        Series(labels[0], "var(--single)", 0, both[0]),
                        Series(labels[1], "var(--dp)", 1, both[1]),
                    ],
                )
            )
    return chart_of_lines("epoch-times", panels)


def _epochs(comparison: Comparison, study: str) -> list[ComparedTimesRow]:
    """The epoch times that a study and the first one have."""
    rows = comparison.tables.times
    return in_order(row for row in rows if row.study == study and row.quantity == "epoch_s" and row.outcome)


def _place(comparison: Comparison, study: str, place: str) -> str:
    """With the study where there are several."""
    return f"{place}, {study}" if len(comparison.others) > 1 else place


def _lines(rows: Iterable[ComparedTimesRow]) -> Lines:
    """The rows of every strategy and number of devices; they are in order."""
    return [(key, list(line)) for key, line in groupby(rows, key=lambda row: (row.strategy, row.gpus))]


def _range(rows: Sequence[ComparedTimesRow]) -> str:
    """`0.98× to 1.30×`, or one of them where both are written alike."""
    ratios = [row.ratio.value for row in rows]
    return " to ".join(dict.fromkeys(measured(end, TIMES) for end in (min(ratios), max(ratios))))

"""How much longer or shorter epochs became, pooled over batches and at each, and the epoch times of the studies."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from dpscale.compare.comparison import ComparedStudies, Pair
from dpscale.compare.forest import Forest, ForestGroup, chart_of_forests
from dpscale.compare.rows import ComparedGroupsRow, ComparedTimesRow, group_of
from dpscale.compare.sentences import groups_in_order, heading, short
from dpscale.present.charts.chart import Chart, chart_of_lines
from dpscale.present.charts.panel import DrawnSeries, Panel, level, markers
from dpscale.present.text.numbers import measured, whole
from dpscale.present.text.words import Terms, capitalised, colour, in_order, listed, scope
from dpscale.tables.column import PERCENT, TIMES
from dpscale.tables.quantities import BATCH, EPOCH

# Characters that fit beside a line.
_LABEL_LENGTH = 14


def changes(comparison: ComparedStudies, terms: Terms) -> Chart:
    """Change of the epoch time in % by strategy and GPUs, pooled over batches and at each batch: a plot per study and
    scope."""
    return chart_of_forests("changes", [forest for pair in comparison.pairs for forest in _forests(pair, terms)])


def _forests(pair: Pair, terms: Terms) -> Iterator[Forest]:
    compared = groups_in_order(row for row in pair.groups if row.status == "ok")
    for name, part in groupby(compared, key=lambda row: row.scope):
        groups = list(part)
        yield Forest(
            heading=capitalised(heading(groups)),
            place=f"{pair.name}, {scope(name)}",
            quantity="Change of the epoch time in %, pooled over batches (diamonds) and at each (dots); bars are 95 % "
            "intervals",
            x_title="Change of the epoch time, %; slower is to the right",
            groups=[_group(group, pair, terms) for group in groups],
            limit=PERCENT.of(groups[0].tolerance) if groups[0].beyond_tolerance else None,
        )


def _group(group: ComparedGroupsRow, pair: Pair, terms: Terms) -> ForestGroup:
    epochs = in_order(row for row in pair.epochs if group_of(row) == group_of(group))
    batches = {whole(row.batch_per_gpu): row.change.map(PERCENT.of) for row in epochs}
    pooled = group.change.map(PERCENT.of)
    return ForestGroup(terms.group(group), short(group), colour(group.strategy), pooled, batches)


def speeds(comparison: ComparedStudies, terms: Terms) -> Chart:
    """Times as fast as the first study against batch per GPU: a panel for every study and scope."""
    panels = []
    for pair in comparison.pairs:
        for name, part in groupby(in_order(pair.epochs), key=lambda row: row.scope):
            rows = list(part)
            styles = {gpus: style for style, gpus in enumerate(sorted({row.gpus for row in rows}))}
            panels.append(
                Panel(
                    heading=_heading(rows),
                    place=capitalised(_place(scope(name), pair, comparison)),
                    quantity=f"Epoch time of {pair.first} over that of {pair.study} against {terms.batch}; one line "
                    f"for each strategy × {terms.devices}",
                    x_title=terms.heading_of(BATCH),
                    y_title=f"Times as fast, {TIMES.shown}",
                    unit=TIMES.shown,
                    series=[
                        DrawnSeries(
                            f"{line[0].strategy} × {line[0].gpus}",
                            colour(line[0].strategy),
                            styles[line[0].gpus],
                            markers((row.batch_per_gpu, row.ratio) for row in line),
                        )
                        for line in _lines(rows)
                    ],
                    guides=(level("same", 1, [float(row.batch_per_gpu) for row in rows]),),
                )
            )
    return chart_of_lines("speeds", panels)


def epoch_times(comparison: ComparedStudies, terms: Terms) -> Chart:
    """Epoch time in s of both studies against batch per GPU: a panel for every study and strategy × GPUs, compute scope
    (or the first there is)."""
    return chart_of_lines(
        "epoch-times", [panel for pair in comparison.pairs for panel in _times(pair, comparison, terms)]
    )


def _times(pair: Pair, comparison: ComparedStudies, terms: Terms) -> Iterator[Panel]:
    names = labels = (pair.first, pair.study)
    drawn = "one line for each study"
    if max(map(len, names)) > _LABEL_LENGTH:
        labels = ("first", "second")
        drawn += f", {listed([f'{label} is {name}' for label, name in zip(labels, names, strict=True)])}"
    for rows in _lines(in_order(pair.epochs)):
        if rows[0].scope == min(row.scope for row in pair.epochs):
            firsts, seconds = (
                [(row.batch_per_gpu, row.first) for row in rows],
                [(row.batch_per_gpu, row.second) for row in rows],
            )
            yield Panel(
                heading=_heading(rows),
                place=_place(f"{rows[0].strategy} × {rows[0].gpus}", pair, comparison),
                quantity=f"Epoch time in s against {terms.batch}; {drawn}",
                x_title=terms.heading_of(BATCH),
                y_title=EPOCH.heading,
                unit=EPOCH.unit.shown,
                series=[
                    DrawnSeries(labels[0], "var(--single)", 0, markers(firsts)),
                    DrawnSeries(labels[1], "var(--dp)", 1, markers(seconds)),
                ],
            )


def _place(place: str, pair: Pair, comparison: ComparedStudies) -> str:
    """With the study where there are several."""
    return f"{place}, {pair.study}" if len(comparison.pairs) > 1 else place


def _lines(rows: Iterable[ComparedTimesRow]) -> list[list[ComparedTimesRow]]:
    """The rows of every strategy and number of devices in a scope; they are in order."""
    return [list(line) for _, line in groupby(rows, key=group_of)]


def _heading(rows: Sequence[ComparedTimesRow]) -> str:
    """`0.98× to 1.30× as fast`, or one of them where both are written alike."""
    ratios = [row.ratio.value for row in rows]
    ends = dict.fromkeys(measured(end, TIMES) for end in (min(ratios), max(ratios)))
    return f"{' to '.join(ends)} as fast"

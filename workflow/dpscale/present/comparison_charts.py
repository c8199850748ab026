"""The figures of two studies: how much longer or shorter epochs became, pooled over batches and at each, and the epoch
times of both."""

from collections.abc import Iterator
from math import nan

import pandas as pd

from dpscale.analyse.comparison import SIDES, Compared
from dpscale.present import words
from dpscale.present.charts.chart import Chart, chart_of_lines
from dpscale.present.charts.frames import points
from dpscale.present.charts.panel import Marker, Panel, Series, level
from dpscale.present.comparison_forest import POOLED, Forest, Group, Mark, figure_of_forests
from dpscale.present.comparison_groups import Pair, short, tally
from dpscale.present.finding import extreme
from dpscale.present.words import Row, Terms
from dpscale.vocabulary.quantities import BATCH, EPOCH, PERCENT, TIMES

# Characters that fit beside a line.
_LABEL_LENGTH = 14
_COLOURS = ("var(--single)", "var(--dp)")


def changes(compared: Compared, epochs: pd.DataFrame, terms: Terms) -> Chart:
    """Change of the epoch time in % by strategy and GPUs, pooled over batches and at each batch: a plot per scope."""
    pair = Pair(compared.first.name, compared.second.name)
    return figure_of_forests("changes", list(_forests(compared.tables["compared_groups"], epochs, terms, pair)))


def changes_of_studies(groups: pd.DataFrame, first: str, terms: Terms) -> Chart:
    """The same of several studies against the first one, without batches: a plot per study and scope."""
    forests = [
        forest
        for study, part in groups.groupby("study", sort=False)
        for forest in _forests(part, None, terms, Pair(first, str(study)))
    ]
    return figure_of_forests("changes", forests)


def _forests(groups: pd.DataFrame, epochs: pd.DataFrame | None, terms: Terms, pair: Pair) -> Iterator[Forest]:
    for scope, part in groups[groups["status"] == "ok"].groupby("scope"):
        limits = part["tolerance"].dropna()
        of_batches = None if epochs is None else epochs[epochs["scope"] == scope].dropna(subset=["change"])
        marks = "pooled over batches" if of_batches is None else "pooled over batches (diamonds) and at each (dots)"
        yield Forest(
            heading=words.capitalised(tally(part)),
            place=f"{pair.second} against {pair.first}, {words.scope(str(scope))}",
            quantity=f"Change of the epoch time in %, {marks}; bars are 95 % intervals",
            x_title="Change of the epoch time, %; slower is to the right",
            groups=[_group(row, of_batches, terms) for row in words.rows(words.in_order(part))],
            limit=PERCENT.of(float(limits.iloc[0])) if len(limits) else None,
        )


def _group(row: Row, epochs: pd.DataFrame | None, terms: Terms) -> Group:
    of_group = [] if epochs is None else words.rows(epochs.sort_values("batch_per_gpu"))
    batches = [
        _change(words.whole(at["batch_per_gpu"]), at)
        for at in of_group
        if (at["strategy"], at["gpus"]) == (row["strategy"], row["gpus"])
    ]
    return Group(short(row, terms), words.colour(row["strategy"]), _change(POOLED, row), batches)


def _change(label: str, row: Row) -> Mark:
    low, high = (row[f"change{end}"] for end in ("_low", "_high"))
    return Mark(
        label, PERCENT.of(row["change"]), *(PERCENT.of(end) if words.is_known(end) else nan for end in (low, high))
    )


def speeds(epochs: pd.DataFrame, compared: Compared, terms: Terms) -> Chart:
    """Times as fast as the first study against batch per GPU: a panel for every scope."""
    panels = []
    for scope, part in epochs.dropna(subset=["ratio"]).groupby("scope"):
        styles = {gpus: style for style, gpus in enumerate(sorted(part["gpus"].unique()))}
        panels.append(
            Panel(
                heading=f"{_range(part)} as fast",
                place=words.capitalised(words.scope(str(scope))),
                quantity=(
                    f"Epoch time of {compared.first.name} over that of {compared.second.name} against "
                    f"{terms.batch}; one line for each strategy × {terms.devices}"
                ),
                x_title=terms.heading_of(BATCH),
                y_title=f"Times as fast, {TIMES.shown}",
                unit=TIMES.shown,
                series=[
                    Series(f"{strategy} × {gpus}", words.colour(str(strategy)), styles[gpus], _lines(line, "ratio"))
                    for (strategy, gpus), line in words.in_order(part).groupby(["strategy", "gpus"], sort=False)
                ],
                guides=(level("same", 1, part["batch_per_gpu"].astype(float)),),
            )
        )
    return chart_of_lines("speeds", panels)


def epoch_times(epochs: pd.DataFrame, compared: Compared, terms: Terms) -> Chart:
    """Epoch time in s of both studies against batch per GPU: a panel for every strategy × GPUs, compute scope (or the
    first there is)."""
    in_scope = epochs[epochs["scope"] == min(epochs["scope"], default="")].dropna(subset=list(SIDES))
    labels = names = [side.name for side in compared.sides]
    lines = "one line for each study"
    if max(map(len, names)) > _LABEL_LENGTH:
        labels = list(SIDES)
        lines += f", {words.listed([f'{label} is {name}' for label, name in zip(labels, names, strict=True)])}"
    panels = []
    for (strategy, gpus), part in words.in_order(in_scope).groupby(["strategy", "gpus"], sort=False):
        panels.append(
            Panel(
                heading=f"{_range(part)} as fast",
                place=f"{strategy} × {gpus}",
                quantity=f"Epoch time in s against {terms.batch}; {lines}",
                x_title=terms.heading_of(BATCH),
                y_title=EPOCH.heading,
                unit=EPOCH.unit.shown,
                series=[
                    Series(label, colour, style, _lines(part, name))
                    for style, (label, colour, name) in enumerate(zip(labels, _COLOURS, SIDES, strict=True))
                ],
            )
        )
    return chart_of_lines("epoch-times", panels)


def _lines(part: pd.DataFrame, name: str) -> list[Marker]:
    return points(part, "batch_per_gpu", name)


def _range(part: pd.DataFrame) -> str:
    """`0.98× to 1.30×`."""
    return ratios(*(extreme(part, "ratio", largest)["ratio"] for largest in (False, True)))


def ratios(least: float, most: float) -> str:
    """`0.98× to 1.30×`, or one of them where both are written alike."""
    return " to ".join(dict.fromkeys(words.measured(end, TIMES) for end in (least, most)))

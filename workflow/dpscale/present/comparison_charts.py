"""The figures of two studies: how many times as fast the second one is, and the epoch times of both."""

import pandas as pd

from dpscale.analyse.comparison import SIDES, Compared
from dpscale.present import words
from dpscale.present.figure import Figure, figure, points
from dpscale.present.finding import extreme
from dpscale.present.panel import Panel, Point, Reference, Series
from dpscale.present.words import Terms
from dpscale.vocabulary.quantities import BATCH, EPOCH, TIMES

# Characters that fit beside a line.
_LABEL_LENGTH = 14
_COLOURS = ("var(--single)", "var(--dp)")


def speeds(epochs: pd.DataFrame, compared: Compared, terms: Terms) -> Figure:
    """Times as fast as the first study against batch per GPU: a panel for every scope."""
    panels = []
    for scope, part in epochs.dropna(subset=["ratio"]).groupby("scope"):
        ends = [float(part["batch_per_gpu"].min()), float(part["batch_per_gpu"].max())]
        styles = {gpus: style for style, gpus in enumerate(sorted(part["gpus"].unique()))}
        panels.append(
            Panel(
                heading=f"{_range(part)} as fast",
                place=words.capitalised(words.scope(str(scope))),
                quantity=(
                    f"Epoch time of {compared.first.name} over that of {compared.second.name} against batch per "
                    f"{terms.device} in images; one line for each strategy × {terms.devices}"
                ),
                x_title=terms.heading_of(BATCH),
                y_title=f"Times as fast, {TIMES.shown}",
                unit=TIMES.shown,
                series=[
                    Series(f"{strategy} × {gpus}", words.colour(str(strategy)), styles[gpus], _lines(line, "ratio"))
                    for (strategy, gpus), line in words.in_order(part).groupby(["strategy", "gpus"], sort=False)
                ],
                references=(Reference("same", ends[1], 1, 1, start=ends[0]),),
            )
        )
    return figure("speeds", panels)


def epoch_times(epochs: pd.DataFrame, compared: Compared, terms: Terms) -> Figure:
    """Epoch time in s of both studies against batch per GPU: a panel for every strategy × GPUs, compute scope (or the
    first there is)."""
    in_scope = epochs[epochs["scope"] == min(epochs["scope"], default="")].dropna(subset=list(SIDES))
    labels = [side.name for side in compared.sides]
    if max(map(len, labels)) > _LABEL_LENGTH:
        labels = list(SIDES)
    panels = []
    for (strategy, gpus), part in words.in_order(in_scope).groupby(["strategy", "gpus"], sort=False):
        panels.append(
            Panel(
                heading=f"{_range(part)} as fast",
                place=f"{strategy} × {gpus}",
                quantity=f"Epoch time in s against batch per {terms.device} in images; one line for each study",
                x_title=terms.heading_of(BATCH),
                y_title=EPOCH.heading,
                unit=EPOCH.unit.shown,
                series=[
                    Series(label, colour, style, _lines(part, name))
                    for style, (label, colour, name) in enumerate(zip(labels, _COLOURS, SIDES, strict=True))
                ],
            )
        )
    return figure("epoch-times", panels)


def _lines(part: pd.DataFrame, name: str) -> list[Point]:
    return points(part, "batch_per_gpu", name)


def _range(part: pd.DataFrame) -> str:
    """`0.98× to 1.30×`."""
    return ratios(*(extreme(part, "ratio", largest)["ratio"] for largest in (False, True)))


def ratios(least: float, most: float) -> str:
    """`0.98× to 1.30×`, or one of them where both are written alike."""
    return " to ".join(dict.fromkeys(words.measured(end, TIMES) for end in (least, most)))

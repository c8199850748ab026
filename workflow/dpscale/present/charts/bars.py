"""Bars that lie under the words that name them: how every chart of bars is drawn."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isfinite
from typing import Any

import altair as alt

from dpscale.present.charts.picture import INK, PICTURES_DRAWN, WIDTH, Chart, Picture, layer, picture
from dpscale.present.text.numbers import estimate
from dpscale.present.text.words import Terms, colour
from dpscale.tables.column import Column

Entry = Mapping[str, object]
# Pixels: from one bar to the next, a bar's thickness, and from the middle of both to its text and to itself.
_STEP, _THICK, _TO_TEXT, _TO_BAR = 44, 18, -11, 9


def picture_of_bars(
    name: str,
    heading: str,
    subtitle: str,
    x_title: str,
    bars: Iterable[Entry],
    texts: Iterable[str],
    shades: Sequence[alt.Color | alt.Fill | alt.Stroke],
    whiskers: Sequence[Entry] = (),
) -> Picture:
    """Draw `bars` from `start` to `end`, each at its `place` under the text there, in the `shades` of their fields; and
    over them `whiskers` from `low` to `high`."""
    y = alt.Y("place:O").axis(None)
    drawn = layer(bars).mark_bar(size=_THICK, yOffset=_TO_BAR, strokeWidth=1)
    drawn = drawn.encode(alt.X("start:Q").title(x_title).axis(tickCount=5), y, *shades, x2=alt.X2("end:Q"))
    rules = layer(whiskers).mark_rule(color=INK, yOffset=_TO_BAR)
    words = layer({"place": place, "text": text} for place, text in enumerate(texts))
    layers = [
        drawn,
        *([rules.encode(alt.X("low:Q"), y, x2=alt.X2("high:Q"))] if whiskers else []),
        words.mark_text(yOffset=_TO_TEXT, limit=WIDTH).encode(y, alt.Text("text:N"), x=alt.XValue(0)),
    ]
    return picture(name, heading, subtitle, layers, alt.Step(_STEP))


def chart_of_figures(
    name: str,
    topic: str,
    subtitle: str,
    column: Column,
    places: Sequence[Sequence[Any]],
    label: Callable[[Any], str],
    terms: Terms,
) -> Chart:
    """Draw a column of rows with its intervals, from zero and in the colours of their strategies, under their labels: a
    picture for every place, which is that of its last row."""
    unit, pictures = column.unit, []
    for number, rows in enumerate(places[:PICTURES_DRAWN], 1):
        bars, whiskers, texts = [], [], []
        for place, row in enumerate(rows):
            figure = getattr(row, column.name)
            texts.append(f"{label(row)}: {estimate(figure, unit, with_unit=True)}")
            bars.append({"place": place, "start": 0.0, "end": unit.of(figure.value), "shade": colour(row.strategy)})
            if isfinite(figure.low):
                whiskers.append({"place": place, "low": unit.of(figure.low), "high": unit.of(figure.high)})
        last = rows[-1]
        heading = f"{topic}: {terms.count(last.gpus)}, batch {last.batch_per_gpu:,}{terms.environment(last)}"
        pictures.append(
            picture_of_bars(
                f"{name}-{number}",
                heading,
                subtitle,
                column.heading,
                bars,
                texts,
                [alt.Color("shade:N").scale(None)],
                whiskers,
            )
        )
    return Chart(pictures)

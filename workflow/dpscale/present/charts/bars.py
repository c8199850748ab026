"""Bars that lie under the words that name them: how every chart of bars is drawn."""

from collections.abc import Iterable, Mapping, Sequence

import altair as alt

from dpscale.present.charts.picture import INK, WIDTH, Picture, layer, picture

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

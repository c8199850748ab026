"""The ladder as bars: from the step of one device alone to the whole step."""

from collections.abc import Iterator, Sequence
from operator import attrgetter

import altair as alt

from dpscale.analyse.answer import configuration_of
from dpscale.present.charts.picture import PICTURES_DRAWN, QUIET, WIDTH, Chart, Picture, layer, picture
from dpscale.present.text.numbers import measured
from dpscale.present.text.words import Terms, colour
from dpscale.strategies.known import BASELINE
from dpscale.tables.column import MILLISECONDS, PERCENT
from dpscale.tables.communication import LadderRow
from dpscale.tables.row import grouped

# Pixels: from one bar to the next, a bar's thickness, and from the middle of both to its text and to itself.
_STEP, _THICK, _TO_TEXT, _TO_BAR = 44, 18, -11, 9


def ladders(ladder: Sequence[LadderRow], terms: Terms) -> Chart:
    """Draw what each change adds to a step, in ms, a bar under its words: a picture per configuration."""
    subtitle = f"Steps without a profiler, in turns in one job. An outline takes time away. {terms.data_note}"
    pictures: list[Picture] = []
    for rungs in list(grouped(ladder, configuration_of).values())[:PICTURES_DRAWN]:
        first, number = rungs[0], len(pictures) + 1
        heading = f"A step of {terms.group(first)}, batch {first.batch_per_gpu:,}{terms.environment(first)}"
        pictures.append(picture(f"ladder-{number}", heading, subtitle, _layers(rungs, terms), alt.Step(_STEP)))
    return Chart(pictures)


def _layers(rungs: Sequence[LadderRow], terms: Terms) -> list[alt.Chart]:
    entries = layer(_bars(sorted(rungs, key=attrgetter("order")), terms))
    y = alt.Y("place:O").axis(None)
    bars = entries.mark_bar(size=_THICK, yOffset=_TO_BAR, strokeWidth=1).encode(
        alt.X("start:Q").title("Step, ms").axis(tickCount=5),
        y,
        alt.Fill("fill:N", scale=None),
        alt.Stroke("stroke:N", scale=None),
        x2=alt.X2("end:Q"),
    )
    texts = entries.mark_text(yOffset=_TO_TEXT, limit=WIDTH).encode(y, alt.Text("text:N"), x=alt.XValue(0))
    return [bars, texts]


def _bars(rungs: Sequence[LadderRow], terms: Terms) -> Iterator[dict[str, object]]:
    """Yield a bar from zero for one device alone, and for every change one from where the bar before it ends."""
    start = 0.0
    for place, row in enumerate(rungs):
        end = MILLISECONDS.of(row.step_s.value)
        added = measured((row.difference_s if place else row.step_s).value, MILLISECONDS)
        shade = colour(row.strategy if place else BASELINE)
        yield {
            "place": place, "start": start, "end": end,
            "text": f"{row.adds or f'1 {terms.device} alone'}: {added}, {measured(row.share, PERCENT)}",
            "fill": shade if start <= end else "none", "stroke": shade if start <= end else QUIET,
        }  # fmt: skip
        start = end

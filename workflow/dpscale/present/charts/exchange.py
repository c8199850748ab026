"""The chart of the lecture's ladder: a step of one device, and with every way to exchange gradients."""

from collections.abc import Iterator, Sequence
from math import isfinite
from operator import attrgetter

import altair as alt

from dpscale.analyse.answer import COMPUTE
from dpscale.present.charts.bars import picture_of_bars
from dpscale.present.charts.picture import PICTURES_DRAWN, Chart, Picture
from dpscale.present.text.numbers import estimate
from dpscale.present.text.words import Terms, colour
from dpscale.strategies.known import BASELINE
from dpscale.tables.column import MILLISECONDS
from dpscale.tables.row import grouped, in_groups
from dpscale.tables.timing import TimesRow

# Each sends gradients in a better way than the one before it.
EXCHANGES = ("ddp-naive", "ddp-flat", "ddp")


def is_compared(rows: Sequence[TimesRow]) -> bool:
    """Whether one of the ways that no training takes was measured."""
    return any(row.strategy in EXCHANGES[:-1] for row in rows)


def exchange(rows: Sequence[TimesRow], terms: Terms) -> Chart:
    """Draw the time of a step without loading, in ms, with its interval: a picture for every number of devices, batch
    and environment, and a bar for one device and every way to exchange gradients."""
    timed = [row for row in rows if row.scope == COMPUTE and row.step_s.is_known]
    alone = grouped((row for row in timed if row.strategy == BASELINE), attrgetter("batch_per_gpu", "environment"))
    exchanging = [row for row in timed if row.strategy in EXCHANGES]
    pictures: list[Picture] = []
    for of_place in in_groups(exchanging, attrgetter("gpus", "batch_per_gpu", "environment"))[:PICTURES_DRAWN]:
        first = of_place[0]
        if not is_compared(of_place):
            continue
        ways = sorted(of_place, key=lambda row: EXCHANGES.index(row.strategy))
        bars = [*alone.get((first.batch_per_gpu, first.environment), ()), *ways]
        heading = (
            f"Ways to exchange: {terms.count(first.gpus)}, batch {first.batch_per_gpu:,}{terms.environment(first)}"
        )
        subtitle = f"Time of a step, with 95 % intervals where there are some. {terms.data_note}"
        texts = [f"{terms.group(row)}: {estimate(row.step_s, MILLISECONDS, with_unit=True)}" for row in bars]
        shades = [alt.Color("shade:N").scale(None)]
        entries, whiskers = map(_bar, range(len(bars)), bars), list(_whiskers(bars))
        name, title = f"exchange-{len(pictures) + 1}", "Time of a step, ms"
        pictures.append(picture_of_bars(name, heading, subtitle, title, entries, texts, shades, whiskers))
    return Chart(pictures)


def _bar(place: int, row: TimesRow) -> dict[str, object]:
    return {"place": place, "start": 0.0, "end": MILLISECONDS.of(row.step_s.value), "shade": colour(row.strategy)}


def _whiskers(rows: Sequence[TimesRow]) -> Iterator[dict[str, object]]:
    for place, row in enumerate(rows):
        if isfinite(row.step_s.low):
            ends = {"low": MILLISECONDS.of(row.step_s.low), "high": MILLISECONDS.of(row.step_s.high)}
            yield {"place": place, **ends}

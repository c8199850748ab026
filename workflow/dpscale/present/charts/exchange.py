"""The chart of the lecture's ladder: a step of one device, and with every way to exchange gradients."""

from collections.abc import Sequence
from operator import attrgetter

from dpscale.analyse.answer import COMPUTE
from dpscale.present.charts.bars import chart_of_figures
from dpscale.present.charts.picture import Chart
from dpscale.present.text.words import Terms
from dpscale.strategies.known import BASELINE
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
    baseline = grouped((row for row in timed if row.strategy == BASELINE), attrgetter("batch_per_gpu", "environment"))
    exchanging = [row for row in timed if row.strategy in EXCHANGES]
    places = []
    for of_place in in_groups(exchanging, attrgetter("gpus", "batch_per_gpu", "environment")):
        if is_compared(of_place):
            ways = sorted(of_place, key=lambda row: EXCHANGES.index(row.strategy))
            places.append([*baseline.get((ways[0].batch_per_gpu, ways[0].environment), ()), *ways])
    subtitle = "Time of a step, with 95 % intervals where there are some."
    step = TimesRow.column("step_s")
    return chart_of_figures("exchange", "Ways to exchange", subtitle, step, places, terms.group, terms)

"""Charts of communication: what makes a step longer, and bandwidth. As in `timing`."""

from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter

from dpscale.analyse.communication.bandwidth import WHOLE_GRADIENT
from dpscale.present.charts.lines import DrawnSeries, Panel, chart_of_lines, markers
from dpscale.present.charts.picture import Chart
from dpscale.present.charts.timing import at_batch
from dpscale.present.charts.waterfall import Stage, Waterfall, chart_of_waterfalls
from dpscale.present.text.numbers import binary, measured
from dpscale.present.text.words import Terms, colour, largest
from dpscale.strategies.known import BASELINE
from dpscale.tables.column import BUS_BANDWIDTH, GB_PER_S, KIB, MB, MILLISECONDS, PERCENT
from dpscale.tables.communication import CollectivesRow, LadderRow
from dpscale.tables.row import in_groups

_OPERATION_COLOURS = {
    "allreduce": "var(--ddp)",
    "broadcast": "var(--dp)",
    "reduce": "var(--single)",
    "reduce_scatter": "var(--caution)",
    "all_gather": "var(--quiet)",
}


def ladders(ladder: Sequence[LadderRow], terms: Terms) -> Chart:
    """Draw the way from the step of one device alone to the whole step, in ms: a panel per configuration."""
    panels = []
    for _, of_configuration in groupby(ladder, lambda row: row.point):
        rungs = sorted(of_configuration, key=lambda row: row.order)
        panels.append(
            Waterfall(
                heading=_ladder(rungs, terms),
                place=f"{terms.group(rungs[0])}{terms.environment(rungs[0])}, batch {rungs[0].batch_per_gpu:,}",
                quantity=(
                    "What each change adds to a step, in ms and in % of the whole step; steps without a profiler, in "
                    "turns in one job. An outline takes time away"
                ),
                x_title="Step, ms",
                stages=_stages(rungs, terms),
            )
        )
    return chart_of_waterfalls("ladder", panels)


def _stages(rungs: Sequence[LadderRow], terms: Terms) -> list[Stage]:
    stages: list[Stage] = []
    for row in rungs:
        added = measured((row.difference_s if stages else row.step_s).value, MILLISECONDS)
        text = f"{row.adds or f'1 {terms.device} alone'}: {added}, {measured(row.share, PERCENT)}"
        start, end = stages[-1].end if stages else 0.0, MILLISECONDS.of(row.step_s.value)
        stages.append(Stage(text, start, end, colour(row.strategy if stages else BASELINE)))
    return stages


def _ladder(rungs: Sequence[LadderRow], terms: Terms) -> str:
    """`dp on 2 GPUs at batch 32: 33.7 ms more than 1 GPU alone; the most is 26.3 ms, threads, contention`."""
    first, *changes = rungs
    more_s = changes[-1].beyond_alone_s.value
    more = f"{measured(abs(more_s), MILLISECONDS)} {'more' if more_s > 0 else 'less'}"
    heading = f"{at_batch(first, terms)}: {more} than 1 {terms.device} alone"
    most = largest(changes, lambda row: row.difference_s.value)
    if most.difference_s.value <= 0:
        return heading
    return f"{heading}; the most is {measured(most.difference_s.value, MILLISECONDS)}, {most.adds}"


def bus_bandwidth(collectives: Sequence[CollectivesRow], terms: Terms) -> Chart:
    """Draw the bus bandwidth of collectives alone in GB/s against message size in KiB: a panel for every number of GPUs
    and environment. The network's own sizes, which lie between those of the series, are left to the table."""
    in_series = [row for row in collectives if row.operation != "peer_copy" and not row.use]
    panels = [
        Panel(
            heading=_of_gradient(collectives, rows[0], terms) or _most_bandwidth(rows, terms),
            place=f"{terms.count(rows[0].gpus)}{terms.environment(rows[0])}",
            quantity=(
                "Bus bandwidth in GB/s against size of the message in KiB (1,024 bytes), with nothing else running; "
                "one line for each collective"
            ),
            x_title=f"Message, {KIB.shown}",
            y_title=BUS_BANDWIDTH.heading,
            unit=GB_PER_S.shown,
            series=_lines_of_collectives(rows),
        )
        for rows in in_groups(in_series, attrgetter("gpus", "environment"))
    ]
    return chart_of_lines("bus-bandwidth", panels)


def _lines_of_collectives(rows: Sequence[CollectivesRow]) -> list[DrawnSeries]:
    return [
        DrawnSeries(
            line[0].operation.replace("_", "-"),
            _OPERATION_COLOURS[line[0].operation],
            style,
            markers((KIB.of(row.message_bytes or 0), row.bus_bandwidth_gb_s) for row in line),
        )
        for style, line in enumerate(in_groups(rows, attrgetter("operation")))
    ]


def _of_gradient(collectives: Sequence[CollectivesRow], like: CollectivesRow, terms: Terms) -> str:
    """`4 GPUs: 302 GB/s with an allreduce of the whole gradient, 44.7 MB`: what a training sends, and what utilisation
    is over. "" where that was not timed."""
    place = "allreduce", like.gpus, like.environment
    allreduces = (row for row in collectives if (row.operation, row.gpus, row.environment) == place)
    row = next((row for row in allreduces if WHOLE_GRADIENT in row.use), None)
    if row is None:
        return ""
    rate, size = measured(row.bus_bandwidth_gb_s.value, GB_PER_S), measured(row.message_bytes, MB)
    return f"{terms.count(row.gpus)}: {rate} with an allreduce of the {WHOLE_GRADIENT}, {size}"


def _most_bandwidth(rows: Sequence[CollectivesRow], terms: Terms) -> str:
    """`4 GPUs: 371 GB/s at most, with reduce of 1 GiB`."""
    most = largest(rows, lambda row: row.bus_bandwidth_gb_s.value)
    operation = f"{most.operation.replace('_', '-')} of {binary(most.message_bytes or 0)}"
    return f"{terms.count(most.gpus)}: {measured(most.bus_bandwidth_gb_s.value, GB_PER_S)} at most, with {operation}"

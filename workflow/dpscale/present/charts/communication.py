"""Charts of communication: what makes a step longer, how that is estimated, and its bandwidth. As in `timing`."""

from collections.abc import Sequence
from math import isfinite

from dpscale.formulas.figure import UNKNOWN, Figure
from dpscale.present.charts.chart import (
    Chart,
    chart_of_lines,
    chart_of_waterfalls,
    joined,
)
from dpscale.present.charts.panel import DrawnSeries, Panel, level, markers
from dpscale.present.charts.timing import at_batch
from dpscale.present.charts.waterfall import Stage, Waterfall
from dpscale.present.findings.finding import largest
from dpscale.present.text.numbers import measured, whole
from dpscale.present.text.words import Terms, colour, in_order
from dpscale.strategies.known import BASELINE
from dpscale.tables.column import GB_PER_S, KIB, MILLISECONDS, PERCENT
from dpscale.tables.communication import CollectivesRow, CommunicationRow, LadderRow
from dpscale.tables.quantities import BATCH, BUS_BANDWIDTH, E1, E2, E3, E3_EXPOSED, E3_LEAST, E4_EXPOSED, E5
from dpscale.tables.row import grouped
from dpscale.vocabulary.states import DISTORTED

# One of each of the five ways: what of the communication is exposed, where a way tells that. In the table there are
# more; the heading names those that are furthest apart.
_ESTIMATE_COLOURS = {
    E1.short: "currentColor",
    E2.short: "var(--dp)",
    E3_EXPOSED.short: "var(--single)",
    E4_EXPOSED.short: "var(--caution)",
    E5.short: "var(--ddp)",
}
_OPERATION_COLOURS = {
    "allreduce": "var(--ddp)",
    "broadcast": "var(--dp)",
    "reduce": "var(--single)",
    "reduce_scatter": "var(--caution)",
    "all_gather": "var(--quiet)",
}


def ladders(table: Sequence[LadderRow], terms: Terms) -> Chart:
    """From the step of one device alone to the whole step, in ms: a panel a configuration."""
    panels = []
    for part in grouped(
        in_order(table), lambda row: (row.strategy, row.gpus, row.batch_per_gpu, row.environment)
    ).values():
        rungs = sorted(part, key=lambda row: row.order)
        panels.append(
            Waterfall(
                heading=_ladder(rungs, terms),
                place=f"{_place(rungs[0], terms)}, batch {rungs[0].batch_per_gpu:,}",
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
        part = measured((row.difference_s if stages else row.step_s).value, MILLISECONDS)
        text = f"{row.adds or f'1 {terms.device} alone'}: {part}, {measured(row.share, PERCENT)}"
        start, end = stages[-1].end if stages else 0.0, MILLISECONDS.of(row.step_s.value)
        stages.append(Stage(text, start, end, colour(row.strategy if stages else BASELINE)))
    return stages


def _ladder(rungs: Sequence[LadderRow], terms: Terms) -> str:
    """`dp on 2 GPUs at batch 32: 33.7 ms more than 1 GPU alone; the most is 26.3 ms, threads, contention`."""
    first, *others = rungs
    more_s = others[-1].beyond_alone_s.value
    more = f"{measured(abs(more_s), MILLISECONDS)} {'more' if more_s > 0 else 'less'}"
    heading = f"{at_batch(first, terms)}: {more} than 1 {terms.device} alone"
    most = largest(others, lambda row: row.difference_s.value)
    if most.difference_s.value <= 0:
        return heading
    return f"{heading}; the most is {measured(most.difference_s.value, MILLISECONDS)}, {most.adds}"


def estimates(table: Sequence[CommunicationRow], terms: Terms) -> Chart:
    """Communication of a step in ms at every batch, a line for every estimate: a panel for every strategy, GPUs and
    environment. Zero is on the axis; it is that of the strategy, as strategies differ by much."""
    estimated = in_order(row for row in table if row.training_step_s.is_known or row.isolated_step_s.is_known)
    charts = []
    for strategy, rows in grouped(estimated, lambda row: row.strategy).items():
        panels = [_estimates_of(part, terms) for part in grouped(rows, _of_strategy).values()]
        charts.append(chart_of_lines(f"estimates-{strategy}", [panel for panel in panels if panel.series]))
    return joined(charts)


def _estimates_of(part: Sequence[CommunicationRow], terms: Terms) -> Panel:
    lines = [
        DrawnSeries(name, own_colour, style, found)
        for style, (name, own_colour) in enumerate(_ESTIMATE_COLOURS.items())
        if (found := markers(((row.batch_per_gpu, _estimates(row)[name]) for row in part), E1.unit))
    ]
    return Panel(
        heading=_furthest_apart(part, terms),
        place=_place(part[0], terms),
        quantity=(
            f"Communication of a step in ms at each {terms.batch}, a line for each estimate; bars are 95 % intervals"
        ),
        x_title=terms.heading_of(BATCH),
        y_title=f"Communication of a step, {E1.unit.shown}",
        unit=E1.unit.shown,
        series=lines,
        guides=(level("zero", 0, (row.batch_per_gpu for row in part)),),
        linear_y=True,
    )


def _estimates(row: CommunicationRow) -> dict[str, Figure]:
    """By their short names. The profiler's are left out where it changes the step that it looks at."""
    distorts = row.profiler == DISTORTED
    return {
        E1.short: row.communication_step_s,
        E2.short: row.ablation_step_s,
        E3.short: UNKNOWN if distorts else row.profiler_step_s,
        E3_EXPOSED.short: UNKNOWN if distorts else row.profiler_exposed_step_s,
        E3_LEAST.short: UNKNOWN if distorts else row.profiler_least_step_s,
        E4_EXPOSED.short: row.logger_exposed_step_s,
        E5.short: row.isolated_step_s,
    }


def _furthest_apart(part: Sequence[CommunicationRow], terms: Terms) -> str:
    """`dp on 4 GPUs at batch 128: 0.436 ms (E5) to 26.3 ms (E1) per step`: where they are furthest apart.

    Of the estimates above zero with their intervals.
    """
    if not any(isfinite(row.estimates_apart) for row in part):
        return f"{terms.group(part[0])}: no estimate has an interval above zero"
    row = largest(part, lambda row: row.estimates_apart)
    above_zero = {name: figure.value for name, figure in _estimates(row).items() if figure.is_above(0)}
    ends = dict.fromkeys(choose(above_zero, key=above_zero.__getitem__) for choose in (min, max))
    named = [f"{measured(above_zero[name], MILLISECONDS)} ({name})" for name in ends]
    return f"{at_batch(row, terms)}: {' to '.join(named)} per step"


def bus_bandwidth(collectives: Sequence[CollectivesRow], terms: Terms) -> Chart:
    """Bus bandwidth of collectives alone in GB/s against message size in KiB: a panel for every number of GPUs and
    environment. The network's own sizes, which lie between those of the series, are left to the table."""
    alone = [row for row in collectives if row.operation != "peer_copy" and not row.use]
    panels = [
        Panel(
            heading=_most_bandwidth(part, terms),
            place=f"{terms.count(part[0].gpus)}{terms.environment(part[0])}",
            quantity=(
                "Bus bandwidth in GB/s against size of the message in KiB (1,024 bytes), with nothing else running; "
                "one line for each collective"
            ),
            x_title=f"Message, {KIB.shown}",
            y_title=BUS_BANDWIDTH.heading,
            unit=GB_PER_S.shown,
            series=_lines_of_collectives(part),
        )
        for part in grouped(alone, lambda row: (row.gpus, row.environment)).values()
    ]
    return chart_of_lines("bus-bandwidth", panels)


def _lines_of_collectives(part: Sequence[CollectivesRow]) -> list[DrawnSeries]:
    by_operation = grouped(sorted(part, key=lambda row: row.operation), lambda row: row.operation)
    return [
        DrawnSeries(
            operation.replace("_", "-"),
            _OPERATION_COLOURS[operation],
            style,
            markers((KIB.of(row.message_bytes or 0), row.bus_bandwidth_gb_s) for row in line),
        )
        for style, (operation, line) in enumerate(by_operation.items())
    ]


def _most_bandwidth(part: Sequence[CollectivesRow], terms: Terms) -> str:
    """`4 GPUs: 371 GB/s at most, with reduce of 1,048,576 KiB`."""
    most = largest(part, lambda row: row.bus_bandwidth_gb_s.value)
    of = f"{most.operation.replace('_', '-')} of {whole(KIB.of(most.message_bytes or 0))} {KIB.shown}"
    return f"{terms.count(most.gpus)}: {measured(most.bus_bandwidth_gb_s.value, GB_PER_S)} at most, with {of}"


def _of_strategy(row: CommunicationRow) -> tuple[str, int, str]:
    return row.strategy, row.gpus, row.environment


def _place(row: LadderRow | CommunicationRow, terms: Terms) -> str:
    return f"{terms.group(row)}{terms.environment(row)}"

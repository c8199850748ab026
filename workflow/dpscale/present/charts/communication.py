"""Charts of steps: what they are made of, how communication is estimated, and its bandwidth. As in `timing`."""

from collections.abc import Mapping, Sequence
from math import isfinite

from dpscale.formulas.figure import UNKNOWN, Figure
from dpscale.present.charts.bars import Bar, Bars, Share, Stage, Waterfall
from dpscale.present.charts.chart import (
    Chart,
    chart_of_bars,
    chart_of_lines,
    chart_of_waterfalls,
    joined,
    side_by_side,
)
from dpscale.present.charts.panel import DrawnSeries, Panel, level, markers
from dpscale.present.charts.timing import at_batch
from dpscale.present.findings.finding import largest
from dpscale.present.text.numbers import brief, measured, plain, whole
from dpscale.present.text.words import Terms, colour, headline, in_order, ok
from dpscale.strategies.known import BASELINE
from dpscale.tables.column import GB_PER_S, KIB, MILLISECONDS, PERCENT
from dpscale.tables.communication import BandwidthRow, CollectivesRow, CommunicationRow, LadderRow, StepsRow
from dpscale.tables.quantities import BATCH, BUS_BANDWIDTH, E1, E2, E3, E3_EXPOSED, E3_LEAST, E4_EXPOSED, E5
from dpscale.tables.row import grouped
from dpscale.tables.timing import TimesRow
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


def steps_beside_one(times: Sequence[TimesRow], communication: Sequence[CommunicationRow], terms: Terms) -> Chart:
    """The step of one device and of every strategy on more, in ms: a panel for every batch and environment.

    Where no ladder says what a step is made of, this says how much longer it is.
    """
    timed = [row for row in headline(ok(times)) if row.scope == "compute" and row.step_s.is_known]
    most = max((row.gpus for row in timed), default=0)
    longer = {_configuration(row): row.communication_step_s for row in communication}
    panels = [
        Waterfall(
            heading=_step_beside_one(part, terms),
            place=f"Batch {batch:,} per {terms.device}{terms.environment(part[0])}",
            quantity=(
                f"A full step in ms, without loading. Behind the sign stands what it takes longer than on 1 "
                f"{terms.device} (E1), with its 95 % interval"
            ),
            x_title="Step, ms",
            stages=[_step_stage(row, longer.get(_configuration(row), UNKNOWN), terms) for row in part],
        )
        for (batch, _), part in grouped(in_order(timed), lambda row: (row.batch_per_gpu, row.environment)).items()
        if part[0].strategy == BASELINE and part[-1].gpus == most > 1
    ]
    return chart_of_waterfalls("step-beside-one", panels)


def _configuration(row: TimesRow | CommunicationRow) -> tuple[str, int, int, str]:
    return row.strategy, row.gpus, row.batch_per_gpu, row.environment


def _step_stage(row: TimesRow, longer: Figure, terms: Terms) -> Stage:
    text = f"{terms.group(row)}: {measured(row.step_s.value, MILLISECONDS)}"
    if longer.is_known:
        text += f", {'+' if longer.value > 0 else ''}{brief(longer, E1.unit)}"
    return Stage(text, 0.0, MILLISECONDS.of(row.step_s.value), colour(row.strategy))


def _step_beside_one(part: Sequence[TimesRow], terms: Terms) -> str:
    """`A step takes 5.54 ms on 1 GPU, and 36.7 ms with dp on 4 GPUs`: the longest on the most devices."""
    most = largest((row for row in part if row.gpus == part[-1].gpus), lambda row: row.step_s.value)
    alone, longest = (measured(row.step_s.value, MILLISECONDS) for row in (part[0], most))
    return f"A step takes {alone} on 1 {terms.device}, and {longest} with {terms.group(most)}"


def steps(table: Sequence[StepsRow], terms: Terms) -> Chart:
    """Parts of a step of the first device, in % of it, by batch: a panel for every strategy, GPUs and environment."""
    whole_steps = [row for row in table if row.device == 0 and isfinite(row.idle_share)]
    panels = [
        Bars(
            heading=_largest_parts(part, terms),
            place=_place(part[0], terms),
            quantity=(
                f"Parts of a profiled step of {terms.device} 0 in %, by {terms.batch}; on the right the "
                "step in ms. Communication that compute hides is not in it"
            ),
            x_title="Share of the step, %",
            y_title=terms.heading_of(BATCH),
            bars=[Bar(f"{row.batch_per_gpu:,}", _shares(row), measured(row.parts_s, MILLISECONDS)) for row in part],
        )
        for part in grouped(in_order(whole_steps), _of_strategy).values()
    ]
    return chart_of_bars("steps", panels)


def _shares(row: StepsRow) -> list[Share]:
    parts = {
        "compute": (row.compute_share, "var(--single)"),
        "communication": (row.communication_share, "var(--dp)"),
        "copies": (row.copy_share, "var(--caution)"),
        "idle": (row.idle_share, None),
    }
    return [Share(name, own_colour, PERCENT.of(share)) for name, (share, own_colour) in parts.items()]


def _largest_parts(part: Sequence[StepsRow], terms: Terms) -> str:
    """`dp on 4 GPUs: at batch 32 idle is 92.6 % of a profiled step, at 8,192 compute is 96.8 %`."""
    return largest_shares(terms.group(part[0]), {row.batch_per_gpu: _shares(row) for row in part})


def largest_shares(of: str, shares: Mapping[int, Sequence[Share]]) -> str:
    """The largest parts of profiled steps, at the smallest batch and at the largest, `of` what they are."""
    first, last = min(shares), max(shares)
    heading = f"{of}: at batch {first:,} {_largest_share(shares[first])} of a profiled step"
    return heading if first == last else f"{heading}, at {last:,} {_largest_share(shares[last])}"


def _largest_share(shares: Sequence[Share]) -> str:
    most = max(shares, key=lambda share: share.percent)
    return f"{most.name} is {plain(most.percent, 3)} %"


def estimates(table: Sequence[CommunicationRow], terms: Terms) -> Chart:
    """Communication of a step in ms at every batch, by every estimate, as dots beside each other: a panel for every
    strategy, GPUs and environment. Zero is on the axis; it is that of the strategy, as strategies differ by much."""
    estimated = in_order(row for row in table if row.training_step_s.is_known or row.isolated_step_s.is_known)
    charts = []
    for strategy, rows in grouped(estimated, lambda row: row.strategy).items():
        panels = [_estimates_of(part, terms) for part in grouped(rows, _of_strategy).values()]
        charts.append(chart_of_lines(f"estimates-{strategy}", [panel for panel in panels if panel.series]))
    return joined(charts)


def _estimates_of(part: Sequence[CommunicationRow], terms: Terms) -> Panel:
    dots = [
        DrawnSeries(name, dot_colour, style, found, joined=False)
        for style, (name, dot_colour) in enumerate(_ESTIMATE_COLOURS.items())
        if (found := markers(((row.batch_per_gpu, _estimates(row)[name]) for row in part), E1.unit))
    ]
    return Panel(
        heading=_furthest_apart(part, terms),
        place=_place(part[0], terms),
        quantity=(
            f"Communication of a step in ms at each {terms.batch}, a dot for each estimate; bars are 95 % intervals"
        ),
        x_title=terms.heading_of(BATCH),
        y_title=f"Communication of a step, {E1.unit.shown}",
        unit=E1.unit.shown,
        series=side_by_side(dots),
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


def bus_bandwidth(collectives: Sequence[CollectivesRow], bandwidth: Sequence[BandwidthRow], terms: Terms) -> Chart:
    """Bus bandwidth of collectives alone in GB/s against message size in KiB: a panel for every number of GPUs and
    environment. The network's own sizes, which lie between those of the series, are left to the table."""
    alone = [row for row in collectives if row.operation != "peer_copy" and not row.use]
    panels = [
        Panel(
            heading=_best_bandwidth(part, bandwidth, terms),
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
        for part in grouped(alone, _on_links).values()
    ]
    return chart_of_lines("bus-bandwidth", panels)


def _on_links(row: CollectivesRow | BandwidthRow) -> tuple[int, str]:
    return row.gpus, row.environment


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


def _best_bandwidth(collectives: Sequence[CollectivesRow], bandwidth: Sequence[BandwidthRow], terms: Terms) -> str:
    """`4 GPUs: a step's bandwidth is at most 108 GB/s (ddp at batch 128), allreduce alone reaches 302 GB/s`."""
    steps = [row for row in headline(ok(bandwidth)) if _on_links(row) == _on_links(collectives[0])]
    inferred = [row for row in steps if row.bandwidth_gb_s.is_known and row.bus_bandwidth_gb_s.is_known]
    where = terms.count(collectives[0].gpus)
    if not inferred:
        most = largest(collectives, lambda row: row.bus_bandwidth_gb_s.value)
        of = f"{most.operation.replace('_', '-')} of {whole(KIB.of(most.message_bytes or 0))} {KIB.shown}"
        return f"{where}: {_rate(most.bus_bandwidth_gb_s)} at most, with {of}"
    best = largest(inferred, lambda row: row.bandwidth_gb_s.value)
    return (
        f"{where}: inferred bandwidth is at most {_rate(best.bandwidth_gb_s)} ({best.strategy} at batch "
        f"{best.batch_per_gpu:,}), allreduce alone reaches {_rate(best.bus_bandwidth_gb_s)}"
    )


def _rate(figure: Figure) -> str:
    return measured(figure.value, GB_PER_S)


def _of_strategy(row: StepsRow | CommunicationRow) -> tuple[str, int, str]:
    return row.strategy, row.gpus, row.environment


def _place(row: LadderRow | StepsRow | CommunicationRow, terms: Terms) -> str:
    return f"{terms.group(row)}{terms.environment(row)}"

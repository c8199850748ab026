"""The charts of the page: what each draws, and its heading, which says what and where. All but the bars of ladders
and of networks are lines.

What follows from a chart is for `findings`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter

import altair as alt

from dpscale.analyse.answer import COMPUTE, configuration_of
from dpscale.analyse.answer.answer import with_speedup
from dpscale.formulas.figure import Figure
from dpscale.formulas.scaling import GB
from dpscale.present.charts.bars import chart_of_figures, picture_of_bars
from dpscale.present.charts.exchange import exchange
from dpscale.present.charts.lines import DrawnLine, Marker, Panel, chart_of_lines, colour_of_style, markers
from dpscale.present.charts.memory import memory
from dpscale.present.charts.picture import PICTURES_DRAWN, QUIET, Chart, Picture
from dpscale.present.text.numbers import measured
from dpscale.present.text.words import Terms, capitalised, colour, headline, in_order, ok, on_nodes, scope
from dpscale.schemas.settings import JsonValues
from dpscale.strategies.known import BASELINE
from dpscale.tables.answer import AnswerRow
from dpscale.tables.column import (
    BATCH,
    BUS_BANDWIDTH,
    EFFICIENCY,
    EPOCH,
    EPOCH_NUMBER,
    KIB,
    MILLISECONDS,
    PERCENT,
    SPEEDUP,
    TEST_ACCURACY,
)
from dpscale.tables.communication import CollectivesRow, LadderRow
from dpscale.tables.memory import RooflineRow
from dpscale.tables.row import grouped, in_groups
from dpscale.tables.tables import Tables
from dpscale.tables.timing import BlocksRow, NetworksRow, SpeedupRow, TimesRow
from dpscale.tables.training import TrainingCurvesRow


def charts_of(study: JsonValues, tables: Tables, terms: Terms) -> dict[str, Chart]:
    """Return the charts of the page, by their names in its template."""
    training = study["training"]
    runs = grouped((row for row in tables.blocks if row.scaling == "weak"), _place)
    gains = in_order(row for row in ok(tables.speedup) if row.scaling == "weak")
    return {
        "speedup": speedup(tables.answer, gains, runs, terms),
        "epoch_time": epoch_time(in_order(ok(tables.times)), terms),
        "efficiency": efficiency(gains, runs, study["answer"]["worth_from"], terms),
        "ladders": ladders(in_order(tables.ladder), terms),
        "exchange": exchange(in_order(ok(tables.times)), terms),
        "memory": memory(in_order(tables.memory), terms),
        "roofline": roofline(in_order(tables.roofline), terms),
        "networks": networks(in_order(tables.networks), terms),
        "bus_bandwidth": bus_bandwidth(tables.collectives, terms),
        "test_accuracy": accuracy(
            tables.training_curves, training["baseline"], PERCENT.of(training["target_accuracy"]), terms
        ),
    }


# The runs of a configuration in a scope.
Runs = Mapping[tuple[object, ...], Sequence[BlocksRow]]


def _place(row: SpeedupRow | BlocksRow) -> tuple[object, ...]:
    return configuration_of(row), row.scope


def speedup(answer: Sequence[AnswerRow], gains: Sequence[SpeedupRow], runs: Runs, terms: Terms) -> Chart:
    """Draw the speedup of a weak series against number of devices, of the answer's strategy, scope and environment: a
    line per batch. That of the answer has the strategy's colour, the others are quiet. `runs` are those of the weak
    series."""
    answered = with_speedup(answer)
    if not answered:
        return Chart(())
    most = answered[-1]
    series = (most.strategy, most.scope, most.environment)
    drawn = [row for row in headline(gains) if (row.strategy, row.scope, row.environment) == series]
    lines = []
    for rows in in_groups(drawn, attrgetter("batch_per_gpu")):
        batch = rows[0].batch_per_gpu
        shade = colour(most.strategy) if batch == most.batch_per_gpu else QUIET
        of_rows = [Marker(row.gpus, row.speedup, [run.speedup for run in runs.get(_place(row), ())]) for row in rows]
        all_markers = markers([Marker(1, Figure(1.0)), *of_rows], SPEEDUP.unit)
        lines.append(DrawnLine(f"batch {batch:,}", shade, all_markers))
    panel = Panel(
        heading=f"Speedup of {most.strategy} on 1 to {terms.count(most.gpus)}",
        subtitle=f"{capitalised(terms.loading(most))}. A line for each {terms.batch}; dashed: ideal; dotted: worth it "
        "from there. Bars: 95 % intervals; circles: runs.",
        x_title=terms.heading,
        y=SPEEDUP,
        lines=lines,
        guides=[float, lambda gpus: most.worth_from * gpus],
    )
    return chart_of_lines("speedup", [panel])


def epoch_time(times: Sequence[TimesRow], terms: Terms) -> Chart:
    """Draw the time of an epoch in s against batch, without loading where that was measured: a panel for every
    environment, a line for every strategy and number of devices."""
    panels = [
        Panel(
            heading=f"Epoch time against batch{terms.environment(rows[0])}",
            subtitle=f"{capitalised(terms.loading(rows[0]))}.",
            x_title=terms.heading_of(BATCH),
            y=EPOCH,
            lines=[
                DrawnLine(
                    f"{line[0].strategy} on {gpus:,}" if gpus > 1 else f"1 {terms.device}",
                    colour(line[0].strategy),
                    markers(Marker(row.batch_per_gpu, row.epoch_s) for row in line),
                )
                for (_, gpus), line in grouped(rows, attrgetter("strategy", "gpus")).items()
            ],
        )
        for rows in in_groups((row for row in times if row.scope == times[0].scope), attrgetter("environment"))
    ]
    return chart_of_lines("epoch-time", panels)


def efficiency(gains: Sequence[SpeedupRow], runs: Runs, worth_from: float, terms: Terms) -> Chart:
    """Draw the efficiency of a weak series in % against batch: a panel for every number of devices and environment, the
    most devices first. Colour says the strategy."""
    panels = [
        Panel(
            heading=f"Efficiency on {terms.count(rows[0].gpus)}{on_nodes(row.nodes for row in rows)}"
            f"{terms.environment(rows[0])}",
            subtitle=f"A line for each strategy{_scopes_of(rows)}.",
            x_title=terms.heading_of(BATCH),
            y=EFFICIENCY,
            lines=_lines_of_efficiency(rows, runs),
            guides=[lambda _: EFFICIENCY.unit.of(1)],
            linear_y=True,
            shaded_below=EFFICIENCY.unit.of(worth_from),
        )
        for rows in reversed(in_groups(gains, attrgetter("gpus", "environment")))
    ]
    return chart_of_lines("efficiency", panels)


def _scopes_of(rows: Sequence[SpeedupRow]) -> str:
    scopes = {row.scope for row in rows}
    return ", without and with loading" if len(scopes) > 1 else f", in {scope(scopes.pop())}"


def _lines_of_efficiency(rows: Sequence[SpeedupRow], runs: Runs) -> list[DrawnLine]:
    lines = []
    for (strategy, timed), line in grouped(rows, attrgetter("strategy", "scope")).items():
        label = strategy if timed == COMPUTE else f"{strategy}, loading"
        of_rows = [
            Marker(row.batch_per_gpu, row.efficiency, [run.efficiency for run in runs.get(_place(row), ())])
            for row in line
        ]
        lines.append(DrawnLine(label, colour(strategy), markers(of_rows, EFFICIENCY.unit)))
    return lines


def bus_bandwidth(collectives: Sequence[CollectivesRow], terms: Terms) -> Chart:
    """Draw the bus bandwidth of collectives alone in GB/s against message size in KiB: a panel for every number of
    devices and environment. The network's own sizes, which lie between those of the series, are left to the table."""
    in_series = [row for row in collectives if row.operation != "peer_copy" and not row.use]
    panels = [
        Panel(
            heading=f"Bus bandwidth of {terms.count(rows[0].gpus)}{terms.environment(rows[0])}",
            subtitle="With nothing else running. A KiB is 1,024 bytes.",
            x_title=f"Message, {KIB.shown}",
            y=BUS_BANDWIDTH,
            lines=[
                DrawnLine(
                    line[0].operation.replace("_", "-"),
                    colour_of_style(style),
                    markers(Marker(KIB.of(row.message_bytes), row.bus_bandwidth_gb_s) for row in line),
                )
                for style, line in enumerate(in_groups(rows, attrgetter("operation")))
            ],
        )
        for rows in in_groups(in_series, attrgetter("gpus", "environment"))
    ]
    return chart_of_lines("bus-bandwidth", panels)


def accuracy(curves: Sequence[TrainingCurvesRow], baseline: str | None, target: float, terms: Terms) -> Chart:
    """Draw test accuracy in % against epochs, means over seeds between the least and the most of them: a panel for
    every global batch that arms start with, and environment. The baseline is in every panel, and so is what else its
    arms are compared with. The `target` is in %."""
    large = [row for row in curves if row.arm != baseline] or curves
    panels = []
    for batch, environment in sorted({(row.global_batch, row.environment) for row in large}):
        in_environment = [row for row in curves if row.environment == environment]
        bases = {baseline, *(row.compared_with for row in in_environment if row.global_batch == batch)}
        drawn = [row for row in in_environment if row.global_batch == batch or row.arm in bases]
        panel = Panel(
            heading=f"Test accuracy at global batch {batch:,}{terms.environment(drawn[0])}",
            subtitle=f"A line for each arm; dashed: the target. {terms.data_note}",
            x_title=EPOCH_NUMBER.label,
            y=TEST_ACCURACY,
            lines=_lines_of_arms(drawn, baseline),
            guides=[lambda _: target],
            linear_x=True,
            linear_y=True,
        )
        panels.append(panel)
    return chart_of_lines("test-accuracy", panels)


def _lines_of_arms(curves: Sequence[TrainingCurvesRow], baseline: str | None) -> list[DrawnLine]:
    """Return a line for every arm, up to where the first of its seeds diverged: the mean of the rest would look too
    good."""
    lines = []
    for style, (arm, rows) in enumerate(grouped(curves, attrgetter("arm")).items()):
        diverged = min((row.epoch for row in rows if row.diverged), default=None)
        finite = [row for row in rows if diverged is None or row.epoch < diverged]
        means = markers((Marker(row.epoch, row.test_accuracy) for row in finite), PERCENT)
        if means:
            label = arm if diverged is None else f"{arm}, diverged"
            lines.append(DrawnLine(label, QUIET if arm == baseline else colour_of_style(style), means))
    return lines


def ladders(ladder: Sequence[LadderRow], terms: Terms) -> Chart:
    """Draw what each change adds to a step, in ms, a bar under its words: a picture per configuration."""
    subtitle = "Steps without a profiler, in turns in one job. An outline takes time away."
    pictures: list[Picture] = []
    for rungs in list(grouped(ladder, configuration_of).values())[:PICTURES_DRAWN]:
        first, number = rungs[0], len(pictures) + 1
        heading = f"A step of {terms.group(first)}, batch {first.batch_per_gpu:,}{terms.environment(first)}"
        entries = list(_bars(sorted(rungs, key=attrgetter("order")), terms))
        texts = [str(entry["text"]) for entry in entries]
        shades = alt.Fill("fill:N", scale=None), alt.Stroke("stroke:N", scale=None)
        pictures.append(picture_of_bars(f"ladder-{number}", heading, subtitle, "Step, ms", entries, texts, shades))
    return Chart(pictures)


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


def networks(rows: Sequence[NetworksRow], terms: Terms) -> Chart:
    """Draw the speedup without loading: a picture for every number of devices, batch and environment, a bar for every
    strategy and network."""
    compared = [row for row in rows if row.scope == COMPUTE and row.speedup.is_known]
    places = in_groups(compared, attrgetter("gpus", "batch_per_gpu", "environment"))
    return chart_of_figures(
        "networks",
        "Networks",
        f"Speedup over one {terms.device} with the same network.",
        NetworksRow.column("speedup"),
        places,
        lambda row: f"{row.variant}, {row.strategy}",
        terms,
    )


def roofline(rows: Sequence[RooflineRow], terms: Terms) -> Chart:
    """Draw TFLOP/s against FLOP per byte: a panel for every precision and environment, a line for every variant over
    its batches, under the roof where the chip has a data sheet: from the first point to beyond the ridge."""
    panels = []
    for points in in_groups(rows, attrgetter("precision", "environment")):
        first, y = points[0], RooflineRow.column("flop_per_s")
        lines = grouped(points, attrgetter("variant"))
        ridge = first.peak_flop_per_s / (first.memory_gb_s * GB)
        xs = [*(row.intensity for row in points), 2 * ridge]
        corners = min(xs), ridge, max(xs)
        lines["roof"] = [replace(first, intensity=x, flop_per_s=Figure(first.roof_at(x))) for x in corners]
        panels.append(
            Panel(
                heading=f"Roofline of one {terms.device}, {first.precision}{terms.environment(first)}",
                subtitle="A line for each variant over its batches.",
                x_title=first.column("intensity").heading,
                y=y,
                lines=[
                    # Ticks of x are at the markers: with three digits each.
                    DrawnLine(
                        name,
                        colour_of_style(style),
                        markers((Marker(float(f"{row.intensity:.3g}"), row.flop_per_s) for row in line), y.unit),
                    )
                    for style, (name, line) in enumerate(lines.items())
                ],
            )
        )
    return chart_of_lines("roofline", panels)

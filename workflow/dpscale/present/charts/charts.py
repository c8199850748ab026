"""The charts of the page: what each draws, and its heading.

A heading names figures and where they were measured. Whether a difference is more than noise is for `findings`.
"""

from collections.abc import Mapping, Sequence
from operator import attrgetter

from dpscale.analyse.answer import COMPUTE, configuration_of, of_configuration
from dpscale.analyse.answer.answer import nearest, with_speedup
from dpscale.analyse.communication.bandwidth import WHOLE_GRADIENT
from dpscale.analyse.timing.points import HEADLINE_STEPS
from dpscale.formulas.figure import Figure
from dpscale.plan.study import BASE
from dpscale.present.charts.bars import Bar, Bars, chart_of_bars
from dpscale.present.charts.lines import DrawnSeries, Guide, Marker, Panel, chart_of_lines, colour_of_style, markers
from dpscale.present.charts.picture import QUIET, Chart
from dpscale.present.text.numbers import binary, estimate, measured
from dpscale.present.text.words import (
    AtBatch,
    Terms,
    capitalised,
    colour,
    headline,
    in_order,
    largest,
    ok,
    on_nodes,
    smallest,
)
from dpscale.present.text.words import scope as scope_in_words
from dpscale.schemas.settings import JsonValues
from dpscale.strategies.known import BASELINE
from dpscale.tables.answer import AnswerRow
from dpscale.tables.column import (
    BATCH,
    BUS_BANDWIDTH,
    EFFICIENCY,
    EPOCH,
    EPOCH_NUMBER,
    FASTER,
    GB_PER_S,
    KIB,
    MB,
    MILLISECONDS,
    PERCENT,
    SPEEDUP,
    TEST_ACCURACY,
)
from dpscale.tables.communication import CollectivesRow, LadderRow
from dpscale.tables.row import grouped, in_groups
from dpscale.tables.tables import Tables
from dpscale.tables.timing import BlocksRow, SpeedupRow, VariantsRow
from dpscale.tables.training import TrainingCurvesRow

NO_HEADLINE = f"No epoch has {HEADLINE_STEPS} full steps"


def charts_of(study: JsonValues, tables: Tables, terms: Terms) -> dict[str, Chart]:
    """Return the charts of the page, by their names in its template. Each is given its rows, in the order in which
    people read them."""
    training = study["training"]
    runs = grouped((row for row in tables.blocks if row.scaling == "weak"), _place)
    gains = in_order(row for row in ok(tables.speedup) if row.scaling == "weak")
    on_one = in_order(row for row in ok(tables.variants) if row.strategy == BASELINE)
    return {
        "speedup": speedup(tables.answer, gains, runs, terms),
        "efficiency": efficiency(tables.answer, gains, runs, study["answer"]["worth_from"], terms),
        "ladders": ladders(in_order(tables.ladder), terms),
        "bus_bandwidth": bus_bandwidth(tables.collectives, terms),
        "variants_on_one": variants_on_one(on_one, terms),
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
        return Chart((), "")
    most = answered[-1]
    series = (most.strategy, most.scope, most.environment)
    drawn = [row for row in headline(gains) if (row.strategy, row.scope, row.environment) == series]
    lines = []
    for style, rows in enumerate(in_groups(drawn, attrgetter("batch_per_gpu"))):
        batch = rows[0].batch_per_gpu
        shade = colour(most.strategy) if batch == most.batch_per_gpu else QUIET
        of_rows = [Marker(row.gpus, row.speedup, [run.speedup for run in runs.get(_place(row), ())]) for row in rows]
        all_markers = markers([Marker(1, Figure(1.0)), *of_rows], SPEEDUP.unit)
        lines.append(DrawnSeries(f"batch {batch:,}", shade, style, all_markers))
    panel = Panel(
        heading=f"Speedup of {most.strategy} on 1 to {terms.count(most.gpus)}",
        place=capitalised(terms.scope(most)),
        quantity=f"{SPEEDUP.label} in {SPEEDUP.unit.shown} against {terms.devices}; one line for each {terms.batch}",
        x_title=terms.heading,
        y=SPEEDUP,
        series=lines,
        guides=[Guide("ideal", lambda gpus: gpus)],
    )
    return chart_of_lines("speedup", [panel])


def efficiency(
    answer: Sequence[AnswerRow],
    gains: Sequence[SpeedupRow],
    runs: Runs,
    worth_from: float,
    terms: Terms,
) -> Chart:
    """Draw the efficiency of a weak series in % against batch: a panel for every number of devices and environment, the
    most devices first. Colour says the strategy; lines are solid without loading, dashed with it."""
    panels = [
        Panel(
            heading=_at_the_batch_of_the_answer(rows, answer, terms),
            place=f"{terms.count(rows[0].gpus)}{on_nodes(row.nodes for row in rows)}{terms.environment(rows[0])}",
            quantity=f"Efficiency in % against {terms.batch}; one line for each strategy, without and with loading",
            x_title=terms.heading_of(BATCH),
            y=EFFICIENCY,
            series=_lines_of_efficiency(rows, runs),
            guides=[Guide("100 %", lambda batch: EFFICIENCY.unit.of(1))],
            linear_y=True,
            shaded_below=EFFICIENCY.unit.of(worth_from),
        )
        for rows in reversed(in_groups(gains, attrgetter("gpus", "environment")))
    ]
    return chart_of_lines("efficiency", panels)


def _lines_of_efficiency(rows: Sequence[SpeedupRow], runs: Runs) -> list[DrawnSeries]:
    lines = []
    for (strategy, scope), line in grouped(rows, attrgetter("strategy", "scope")).items():
        label, style = (strategy, 0) if scope == COMPUTE else (f"{strategy}, loading", 1)
        of_rows = [
            Marker(row.batch_per_gpu, row.efficiency, [run.efficiency for run in runs.get(_place(row), ())])
            for row in line
        ]
        lines.append(DrawnSeries(label, colour(strategy), style, markers(of_rows, EFFICIENCY.unit)))
    return lines


def _at_the_batch_of_the_answer(rows: Sequence[SpeedupRow], answer: Sequence[AnswerRow], terms: Terms) -> str:
    """`ddp on 4 GPUs at batch 128: 91.3 %, with loading 72.6 %`: what the answer is about, or what is nearest to it."""
    shown = headline(rows)
    if not shown:
        return NO_HEADLINE
    first = min(row.scope for row in shown)
    batch = next((row.asked_batch_per_gpu for row in answer if row.asked_batch_per_gpu), shown[0].batch_per_gpu)
    answered = nearest((row for row in shown if row.scope == first and row.efficiency.is_known), batch)
    if answered is None:
        return NO_HEADLINE
    loaded = [row for row in of_configuration(shown, answered) if row.scope != first]
    with_loading = f", with loading {_percent(loaded[0].efficiency)}" if loaded else ""
    return f"{_at_batch(answered, terms)}: {_percent(answered.efficiency)}{with_loading}"


def _at_batch(row: AtBatch, terms: Terms) -> str:
    """Return `dp on 4 GPUs at batch 8,192`, as headings have it."""
    return f"{terms.group(row)} at batch {row.batch_per_gpu:,}"


def _percent(figure: Figure) -> str:
    return estimate(figure, PERCENT, with_unit=True, digits=3)


def variants_on_one(rows: Sequence[VariantsRow], terms: Terms) -> Chart:
    """Draw epochs in s on one device, a bar for every variant: a panel for every batch and environment. Without
    loading, where there are such; the table has the rest."""
    first_scope = (row for row in rows if row.scope == rows[0].scope)
    panels = [
        Bars(
            heading=_fastest_epoch(variants),
            place=f"Batch {variants[0].batch_per_gpu:,} per {terms.device}, {terms.scope(variants[0])}",
            quantity=f"Epoch on 1 {terms.device} in s, and how many times as fast it is as with {BASE}, with its 95 % "
            "interval",
            x_title=EPOCH.heading,
            bars=[_bar(row) for row in variants],
        )
        for variants in grouped(first_scope, attrgetter("batch_per_gpu", "environment")).values()
    ]
    return chart_of_bars("variant-epochs-on-one", panels)


def _bar(row: VariantsRow) -> Bar:
    faster = f", {estimate(row.faster, FASTER.unit)} times" if row.faster.is_known else ""
    shade = QUIET if row.variant == BASE else "var(--ddp)" if row.is_fastest else "var(--single)"
    return Bar(f"{row.variant}: {_epoch(row)}{faster}", 0.0, row.epoch_s.value, shade)


def _epoch(row: VariantsRow) -> str:
    return measured(row.epoch_s.value, EPOCH.unit)


def _fastest_epoch(rows: Sequence[VariantsRow]) -> str:
    """`Batch 2,048: 2.12 s with base, 0.515 s with images_on_device, the fastest`."""
    speaking = headline(rows)
    if not speaking:
        return NO_HEADLINE
    fastest = smallest(speaking, lambda row: row.epoch_s.value)
    epochs = [f"{_epoch(row)} with {BASE}" for row in speaking if row.variant == BASE]
    if fastest.variant != BASE or not epochs:
        epochs.append(f"{_epoch(fastest)} with {fastest.variant}, the fastest")
    scope = "" if fastest.scope == COMPUTE else f", {scope_in_words(fastest.scope)}"
    return f"Batch {fastest.batch_per_gpu:,}{scope}: {', '.join(epochs)}"


def ladders(ladder: Sequence[LadderRow], terms: Terms) -> Chart:
    """Draw the way from the step of one device alone to the whole step, in ms: a panel per configuration."""
    panels = [
        Bars(
            heading=_most_added(rungs, terms),
            place=f"{terms.group(rungs[0])}{terms.environment(rungs[0])}, batch {rungs[0].batch_per_gpu:,}",
            quantity=(
                "What each change adds to a step, in ms and in % of the whole step; steps without a profiler, in "
                "turns in one job. An outline takes time away"
            ),
            x_title="Step, ms",
            bars=_waterfall(rungs, terms),
        )
        for rungs in grouped(sorted(ladder, key=attrgetter("order")), configuration_of).values()
    ]
    return chart_of_bars("ladder", panels)


def _waterfall(rungs: Sequence[LadderRow], terms: Terms) -> list[Bar]:
    """Return a bar from zero for one device alone, and for every change one from where the bar before it ends."""
    bars: list[Bar] = []
    for row in rungs:
        added = measured((row.difference_s if bars else row.step_s).value, MILLISECONDS)
        text = f"{row.adds or f'1 {terms.device} alone'}: {added}, {measured(row.share, PERCENT)}"
        start, end = bars[-1].end if bars else 0.0, MILLISECONDS.of(row.step_s.value)
        bars.append(Bar(text, start, end, colour(row.strategy if bars else BASELINE)))
    return bars


def _most_added(rungs: Sequence[LadderRow], terms: Terms) -> str:
    """`dp on 2 GPUs at batch 32: 33.7 ms more than 1 GPU alone; the most is 26.3 ms, threads, contention`."""
    first, *changes = rungs
    more_s = changes[-1].beyond_alone_s.value
    more = f"{measured(abs(more_s), MILLISECONDS)} {'more' if more_s > 0 else 'less'}"
    heading = f"{_at_batch(first, terms)}: {more} than 1 {terms.device} alone"
    most = largest(changes, lambda row: row.difference_s.value)
    if most.difference_s.value <= 0:
        return heading
    return f"{heading}; the most is {measured(most.difference_s.value, MILLISECONDS)}, {most.adds}"


def bus_bandwidth(collectives: Sequence[CollectivesRow], terms: Terms) -> Chart:
    """Draw the bus bandwidth of collectives alone in GB/s against message size in KiB: a panel for every number of
    devices and environment. The network's own sizes, which lie between those of the series, are left to the table."""
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
            y=BUS_BANDWIDTH,
            series=[
                DrawnSeries(
                    _with_hyphen(line[0]),
                    colour_of_style(style),
                    style,
                    markers(Marker(KIB.of(row.message_bytes), row.bus_bandwidth_gb_s) for row in line),
                )
                for style, line in enumerate(in_groups(rows, attrgetter("operation")))
            ],
        )
        for rows in in_groups(in_series, attrgetter("gpus", "environment"))
    ]
    return chart_of_lines("bus-bandwidth", panels)


def _of_gradient(collectives: Sequence[CollectivesRow], like: CollectivesRow, terms: Terms) -> str:
    """`4 GPUs: 302 GB/s with an allreduce of the whole gradient, 44.7 MB`: what a training sends, and what utilisation
    is over. "" where that was not timed."""
    place = "allreduce", like.gpus, like.environment
    for row in collectives:
        if (row.operation, row.gpus, row.environment) == place and WHOLE_GRADIENT in row.use:
            rate, size = measured(row.bus_bandwidth_gb_s.value, GB_PER_S), measured(row.message_bytes, MB)
            return f"{terms.count(row.gpus)}: {rate} with an allreduce of the {WHOLE_GRADIENT}, {size}"
    return ""


def _most_bandwidth(rows: Sequence[CollectivesRow], terms: Terms) -> str:
    """`4 GPUs: 371 GB/s at most, with reduce of 1 GiB`."""
    most = largest(rows, lambda row: row.bus_bandwidth_gb_s.value)
    rate, size = measured(most.bus_bandwidth_gb_s.value, GB_PER_S), binary(most.message_bytes)
    return f"{terms.count(most.gpus)}: {rate} at most, with {_with_hyphen(most)} of {size}"


def _with_hyphen(row: CollectivesRow) -> str:
    """Return the operation of a row as text has it: `all-gather`."""
    return row.operation.replace("_", "-")


Arms = Mapping[str, Sequence[TrainingCurvesRow]]


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
        arms = grouped(drawn, attrgetter("arm"))
        panel = Panel(
            heading=_best_end(arms, baseline),
            place=f"Global batch {batch:,}{terms.environment(drawn[0])}",
            quantity="One line for each arm",
            x_title=EPOCH_NUMBER.label,
            y=TEST_ACCURACY,
            series=_lines_of_arms(arms, baseline),
            guides=[Guide("target", lambda epoch: target)],
            linear_x=True,
            linear_y=True,
        )
        panels.append(panel)
    return chart_of_lines("test-accuracy", panels)


def _lines_of_arms(arms: Arms, baseline: str | None) -> list[DrawnSeries]:
    """Return a line for every arm, up to where the first of its seeds diverged: the mean of the rest would look too
    good."""
    lines = []
    for style, (arm, rows) in enumerate(arms.items()):
        diverged = min((row.epoch for row in rows if row.diverged), default=None)
        finite = [row for row in rows if diverged is None or row.epoch < diverged]
        means = markers((Marker(row.epoch, row.test_accuracy) for row in finite), PERCENT)
        if means:
            label = arm if diverged is None else f"{arm}, diverged"
            shade = QUIET if arm == baseline else colour_of_style(style)
            lines.append(DrawnSeries(label, shade, style, means))
    return lines


def _best_end(arms: Arms, baseline: str | None) -> str:
    """`Test accuracy: b2048-lamb ends best, at 54.2 %; the baseline b128 at 71.3 %`: means over seeds.

    `arms` are the curves of arms and of what they are compared with: the study's `baseline`, or a tuned one. That of
    the best arm is named. Arms of which a seed diverged do not end.
    """
    ends = {arm: rows[-1].test_accuracy.value for arm, rows in arms.items() if not any(row.diverged for row in rows)}
    compared_with = {arm: rows[0].compared_with or baseline for arm, rows in arms.items()}
    large = [arm for arm in arms if arm not in (baseline, *compared_with.values())]
    best = max(filter(ends.__contains__, large), key=ends.__getitem__, default="")
    clauses = ["a seed of every arm diverged"] if large else []
    if best:
        clauses = [f"{best} ends{' best,' if len(large) > 1 else ''} at {measured(ends[best], PERCENT)}"]
    if (base := compared_with.get(best, baseline)) in ends:
        clauses.append(f"the baseline {base} at {measured(ends[base], PERCENT)}")
    return f"Test accuracy: {'; '.join(clauses) or 'a seed of every arm diverged'}"

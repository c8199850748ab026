"""Charts of times: what more devices gain, as efficiency against batch and as speedup, and variants on one device.

Colour says the strategy, or tells the study's own settings, variants, and the fastest of them. Marker shape and dashes
say whether loading is in the clock. A label stands at the end of every line. Colours are CSS variables of the page, so
that dark mode and print follow. A heading names figures and where they were measured. Whether a difference is more than
noise is for `findings`.
"""

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter

from dpscale.analyse.answer import Configuration, configuration_of, of_configuration
from dpscale.analyse.answer.answer import nearest, with_speedup
from dpscale.analyse.timing.points import HEADLINE_STEPS
from dpscale.formulas.figure import Figure
from dpscale.plan.study import BASE
from dpscale.present.charts.lines import DrawnSeries, Guide, Panel, chart_of_lines, level, markers
from dpscale.present.charts.picture import Chart
from dpscale.present.charts.waterfall import Stage, Waterfall, chart_of_waterfalls
from dpscale.present.text.numbers import estimate, measured
from dpscale.present.text.words import AtBatch, Terms, capitalised, colour, headline, on_nodes, smallest
from dpscale.present.text.words import scope as scope_in_words
from dpscale.tables.answer import AnswerRow
from dpscale.tables.column import BATCH, EFFICIENCY, EPOCH, FASTER, PERCENT, SPEEDUP
from dpscale.tables.row import grouped, in_groups
from dpscale.tables.timing import BlocksRow, SpeedupRow, VariantsRow

NO_HEADLINE = f"No epoch has {HEADLINE_STEPS} full steps"


def at_batch(row: AtBatch, terms: Terms) -> str:
    """Return `dp on 4 GPUs at batch 8,192`, as headings have it."""
    return f"{terms.group(row)} at batch {row.batch_per_gpu:,}"


def efficiency(
    answer: Sequence[AnswerRow],
    gains: Sequence[SpeedupRow],
    blocks: Sequence[BlocksRow],
    worth_from: float,
    terms: Terms,
) -> Chart:
    """Draw the efficiency of a weak series in % against batch, with and without loading: a panel for every number of
    GPUs and environment, the most GPUs first."""
    runs = _runs(blocks, "efficiency")
    panels = [
        Panel(
            heading=_at_the_batch_of_the_answer(rows, answer, terms),
            place=f"{terms.count(rows[0].gpus)}{on_nodes(row.nodes for row in rows)}{terms.environment(rows[0])}",
            quantity=f"Efficiency in % against {terms.batch}; one line for each strategy, without and with loading",
            x_title=terms.heading_of(BATCH),
            y_title=EFFICIENCY.heading,
            unit=EFFICIENCY.unit.shown,
            series=_lines_of_efficiency(rows, runs),
            guides=(level("100 %", EFFICIENCY.unit.of(1), (row.batch_per_gpu for row in rows)),),
            linear_y=True,
            shaded_below=EFFICIENCY.unit.of(worth_from),
        )
        for rows in reversed(in_groups(gains, attrgetter("gpus", "environment")))
    ]
    return chart_of_lines("efficiency", panels)


def speedup(
    answer: Sequence[AnswerRow], gains: Sequence[SpeedupRow], blocks: Sequence[BlocksRow], terms: Terms
) -> Chart:
    """Draw the speedup of a weak series against number of devices, of the answer's strategy, scope and environment: a
    line per batch."""
    answered = with_speedup(answer)
    if not answered:
        return chart_of_lines("speedup", [])
    most = answered[-1]
    series = (most.strategy, most.scope, most.environment)
    drawn = [row for row in headline(gains) if (row.strategy, row.scope, row.environment) == series]
    panel = Panel(
        heading=f"Speedup of {most.strategy} on 1 to {terms.count(most.gpus)}",
        place=capitalised(terms.scope(most)),
        quantity=f"{SPEEDUP.label} in {SPEEDUP.unit.shown} against {terms.devices}; one line for each {terms.batch}",
        x_title=terms.heading,
        y_title=SPEEDUP.heading,
        unit=SPEEDUP.unit.shown,
        series=_lines_of_speedup(drawn, _runs(blocks, "speedup"), most.batch_per_gpu),
        guides=[Guide("ideal", (1, 1), (most.gpus, most.gpus))],
    )
    return chart_of_lines("speedup", [panel])


# The figure of every run of a configuration in a scope.
Runs = Mapping[tuple[Configuration, str], Sequence[float]]


def _runs(blocks: Sequence[BlocksRow], figure: str) -> Runs:
    """Return a figure of every run of the weak series, by configuration and scope."""
    weak = (row for row in blocks if (row.scaling, row.status) == ("weak", "ok"))
    grouped_blocks = grouped(weak, lambda row: (configuration_of(row), row.scope))
    return {place: [getattr(row, figure) for row in rows] for place, rows in grouped_blocks.items()}


def _runs_of(row: SpeedupRow, runs: Runs) -> Sequence[float]:
    return runs.get((configuration_of(row), row.scope), ())


def _lines_of_speedup(rows: Sequence[SpeedupRow], runs: Runs, batch: int) -> list[DrawnSeries]:
    """Return a line per batch: that of the answer has the strategy's colour, the others are quiet."""
    return [
        DrawnSeries(
            f"batch {line[0].batch_per_gpu:,}",
            colour(line[0].strategy) if line[0].batch_per_gpu == batch else "var(--quiet)",
            style,
            markers(
                [(1.0, Figure(1.0)), *((row.gpus, row.speedup, _runs_of(row, runs)) for row in line)], SPEEDUP.unit
            ),
        )
        for style, line in enumerate(in_groups(rows, attrgetter("batch_per_gpu")))
    ]


def _lines_of_efficiency(rows: Sequence[SpeedupRow], runs: Runs) -> list[DrawnSeries]:
    """Return solid lines without loading, dashes with it; colour says the strategy."""
    return [
        DrawnSeries(
            strategy if scope == "compute" else f"{strategy}, loading",
            colour(strategy),
            0 if scope == "compute" else 1,
            markers(((row.batch_per_gpu, row.efficiency, _runs_of(row, runs)) for row in line), EFFICIENCY.unit),
        )
        for (strategy, scope), line in grouped(rows, lambda row: (row.strategy, row.scope)).items()
    ]


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
    return f"{at_batch(answered, terms)}: {_percent(answered.efficiency)}{with_loading}"


def _percent(figure: Figure) -> str:
    return estimate(figure, PERCENT, with_unit=True, digits=3)


_BASE_COLOUR, _FASTEST_COLOUR, _COLOUR = "var(--quiet)", "var(--ddp)", "var(--single)"
Variants = Sequence[VariantsRow]


def variants_on_one(rows: Variants, terms: Terms) -> Chart:
    """Draw epochs in s on one device, a bar for every variant; a panel for every batch and environment."""
    panels = [
        Waterfall(
            heading=_fastest_epoch(bars),
            place=f"Batch {bars[0].batch_per_gpu:,} per {terms.device}, {terms.scope(bars[0])}",
            quantity=f"Epoch on 1 {terms.device} in s, and how many times as fast it is as with {BASE}, with its 95 % "
            "interval",
            x_title=EPOCH.heading,
            stages=[_bar(row) for row in bars],
        )
        for bars in _variants_by_batch(rows)
    ]
    return chart_of_waterfalls("variant-epochs-on-one", panels)


def _variants_by_batch(rows: Variants) -> Iterable[Variants]:
    """Return the rows of every batch and environment; without loading, where there are such: the table has the rest."""
    first_scope = (row for row in rows if row.scope == rows[0].scope)
    return grouped(first_scope, lambda row: (row.batch_per_gpu, row.environment)).values()


def _bar(row: VariantsRow) -> Stage:
    faster = f", {estimate(row.faster, FASTER.unit)} times" if row.faster.is_known else ""
    colour = _BASE_COLOUR if row.variant == BASE else _FASTEST_COLOUR if row.is_fastest else _COLOUR
    return Stage(f"{row.variant}: {_epoch(row)}{faster}", 0.0, row.epoch_s.value, colour)


def _epoch(row: VariantsRow) -> str:
    return measured(row.epoch_s.value, EPOCH.unit)


def _fastest_epoch(rows: Variants) -> str:
    """`Batch 2,048: 2.12 s with base, 0.515 s with images_on_device, the fastest`."""
    speaking = headline(rows)
    if not speaking:
        return NO_HEADLINE
    fastest = smallest(speaking, lambda row: row.epoch_s.value)
    epochs = [f"{_epoch(row)} with {BASE}" for row in speaking if row.variant == BASE]
    if fastest.variant != BASE or not epochs:
        epochs.append(f"{_epoch(fastest)} with {fastest.variant}, the fastest")
    scope = "" if fastest.scope == "compute" else f", {scope_in_words(fastest.scope)}"
    return f"Batch {fastest.batch_per_gpu:,}{scope}: {', '.join(epochs)}"

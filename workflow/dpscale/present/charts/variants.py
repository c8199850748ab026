"""Charts of variants. Colour tells the study's own settings, variants, and the fastest of them.

As in `timing`; headings name figures and where they were measured.
"""

from collections.abc import Sequence
from itertools import cycle

from dpscale.plan.study import BASE
from dpscale.present.charts.bars import Bar, Bars, Share, Stage, Waterfall
from dpscale.present.charts.chart import Chart, chart_of_bars, chart_of_lines, chart_of_waterfalls
from dpscale.present.charts.communication import largest_shares
from dpscale.present.charts.panel import DrawnSeries, Panel, markers
from dpscale.present.charts.timing import NO_HEADLINE
from dpscale.present.findings.finding import smallest
from dpscale.present.text.numbers import brief, measured
from dpscale.present.text.words import Terms, headline, in_order, ok
from dpscale.present.text.words import scope as scope_in_words
from dpscale.strategies.known import BASELINE
from dpscale.tables.column import MILLISECONDS, PERCENT
from dpscale.tables.quantities import BATCH, EPOCH, FASTER
from dpscale.tables.row import grouped
from dpscale.tables.variants import KernelsRow, VariantsRow

_BASE_COLOUR, _FASTEST_COLOUR, _COLOUR = "var(--quiet)", "var(--ddp)", "var(--single)"
_LINE_COLOURS = ("var(--single)", "var(--dp)", "var(--caution)", "currentColor", "var(--ddp)")
# In the order of the shares; nothing happens in the last one.
_SHARES = dict(
    zip(
        ("convolution", "batch_norm", "element_wise", "copy", "other", "idle"),
        ("var(--single)", "var(--dp)", "var(--caution)", "var(--ddp)", "var(--quiet)", None),
        strict=True,
    )
)

Variants = Sequence[VariantsRow]


def epochs_on_one(rows: Variants, terms: Terms) -> Chart:
    """An epoch on one device in s, a bar for every variant: a panel for every batch, scope and environment."""
    panels = [
        Waterfall(
            heading=_fastest_epoch(part),
            place=_place(part[0], terms),
            quantity=f"Epoch on 1 {terms.device} in s, and how many times as fast it is as with {BASE}, with its 95 % "
            "interval",
            x_title=EPOCH.heading,
            stages=[_stage(row) for row in part],
        )
        for part in _by_batch([row for row in rows if row.strategy == BASELINE])
    ]
    return chart_of_waterfalls("variant-epochs-on-one", panels)


def _by_batch(rows: Variants) -> list[list[VariantsRow]]:
    """What was measured at every batch and in every environment; without loading, where there is such: the rest is in
    the table."""
    first = min((row.scope for row in rows), default="")
    known = in_order(row for row in ok(rows) if row.scope == first)
    return list(grouped(known, lambda row: (row.environment, row.batch_per_gpu)).values())


def _stage(row: VariantsRow) -> Stage:
    faster = f", {brief(row.faster, FASTER.unit)} times" if row.faster.is_known else ""
    colour = _BASE_COLOUR if row.variant == BASE else _FASTEST_COLOUR if row.is_fastest else _COLOUR
    return Stage(f"{row.variant}: {_epoch(row)}{faster}", 0.0, row.epoch_s.value, colour)


def _epoch(row: VariantsRow) -> str:
    return measured(row.epoch_s.value, EPOCH.unit)


def _fastest_epoch(part: Variants) -> str:
    """`Batch 2,048: 2.12 s with base, 0.515 s with images_on_device, the fastest`."""
    known = headline(part)
    if not known:
        return NO_HEADLINE
    fastest = smallest(known, lambda row: row.epoch_s.value)
    named = [f"{_epoch(row)} with {BASE}" for row in known if row.variant == BASE]
    if fastest.variant != BASE or not named:
        named.append(f"{_epoch(fastest)} with {fastest.variant}, the fastest")
    return f"{_batch(fastest)}: {', '.join(named)}"


def epochs(rows: Variants, terms: Terms) -> Chart:
    """Epoch time in s against number of devices, a line for every variant: a panel for every batch."""
    panels = [
        Panel(
            heading=_shortest_epochs(part, terms),
            place=_place(part[0], terms),
            quantity=(
                f"{EPOCH.label} in {EPOCH.unit.shown} against number of {terms.devices}; one line for each variant"
            ),
            x_title=f"Number of {terms.devices}",
            y_title=EPOCH.heading,
            unit=EPOCH.unit.shown,
            series=_lines_of_epochs(part),
        )
        for part in _by_batch(rows)
    ]
    return chart_of_lines("variant-epochs", panels)


def _lines_of_epochs(part: Variants) -> list[DrawnSeries]:
    """A line from one device to the most for every variant, and for every parallel strategy where there are several."""
    others = list(dict.fromkeys(row.strategy for row in part if row.strategy != BASELINE))
    lines: list[DrawnSeries] = []
    for strategy in others or [BASELINE]:
        both = [row for row in part if row.strategy in (BASELINE, strategy)]
        label = f", {strategy}" if len(others) > 1 else ""
        lines.extend(_lines(both, label, len(lines)))
    return lines


def _shortest_epochs(part: Variants, terms: Terms) -> str:
    """`Batch 2,048. 1 GPU: 2.12 s with base, 0.515 s with cuda_graph; 2 GPUs: 1.08 s with base, ...`."""
    known = headline(part)
    if not known:
        return NO_HEADLINE
    named = []
    for gpus in sorted({1, max(row.gpus for row in known)}):
        here = [row for row in known if row.gpus == gpus]
        ends = [
            smallest(some, lambda row: row.epoch_s.value)
            for some in ([row for row in here if row.variant == BASE], here)
            if some
        ]
        times = dict.fromkeys(f"{_epoch(row)} with {row.variant}" for row in ends)
        named += [f"{terms.count(gpus)}: {', '.join(times)}"] if times else []
    return f"{_batch(known[0])}. {'; '.join(named)}"


def kernels(profiled: Sequence[KernelsRow], variants: Variants, terms: Terms) -> Chart:
    """Parts of a profiled step in % of it, by batch: a panel for the first variant and one for the fastest, for every
    environment."""
    shown = {row.variant for row in profiled[:1]} | set(_fastest(variants))
    ordered = in_order(row for row in profiled if row.variant in shown)
    panels = [
        Bars(
            heading=largest_shares(part[0].variant, {row.batch_per_gpu: _shares(row) for row in part}),
            place=f"{part[0].variant} on {terms.count(1)}{terms.environment(part[0])}",
            quantity=f"Parts of a profiled step in %, by {terms.batch}; on the right the profiled step in ms",
            x_title="Share of the profiled step, %",
            y_title=terms.heading_of(BATCH),
            bars=[
                Bar(f"{row.batch_per_gpu:,}", _shares(row), measured(row.step_s.value, MILLISECONDS)) for row in part
            ],
        )
        for part in grouped(ordered, lambda row: (row.environment, row.variant)).values()
    ]
    return chart_of_bars("variant-kernels", panels)


def _fastest(variants: Variants) -> list[str]:
    """The variant with the shortest epoch on one device, if any."""
    alone = [row for part in _by_batch([row for row in variants if row.strategy == BASELINE]) for row in headline(part)]
    return [smallest(alone, lambda row: row.epoch_s.value).variant] if alone else []


def _shares(row: KernelsRow) -> list[Share]:
    return [
        Share(KernelsRow.column(f"{kind}_share").short, colour, PERCENT.of(getattr(row, f"{kind}_share").value))
        for kind, colour in _SHARES.items()
    ]


def _lines(part: Variants, label: str, first_style: int) -> list[DrawnSeries]:
    """A line for every variant, in the order of the study: that of base first."""
    groups = grouped(part, lambda row: row.variant)
    colours = dict(zip((variant for variant in groups if variant != BASE), cycle(_LINE_COLOURS), strict=False))
    return [
        DrawnSeries(
            f"{variant}{label}",
            colours.get(variant, _BASE_COLOUR),
            style,
            markers(((row.gpus, row.epoch_s) for row in rows), EPOCH.unit),
        )
        for style, (variant, rows) in enumerate(groups.items(), start=first_style)
    ]


def _batch(row: VariantsRow) -> str:
    """`Batch 2,048`, and the scope where that is not compute."""
    scope = "" if row.scope == "compute" else f", {scope_in_words(row.scope)}"
    return f"Batch {row.batch_per_gpu:,}{scope}"


def _place(row: VariantsRow, terms: Terms) -> str:
    return f"Batch {row.batch_per_gpu:,} per {terms.device}, {terms.scope(row)}"

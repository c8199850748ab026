"""Charts of variants. Colour tells the study's own settings, variants, and the fastest of them.

As in `timing`; headings name figures and where they were measured.
"""

from collections.abc import Iterable, Sequence

from dpscale.plan.study import BASE
from dpscale.present.charts.picture import Chart
from dpscale.present.charts.timing import NO_HEADLINE
from dpscale.present.charts.waterfall import Stage, Waterfall, chart_of_waterfalls
from dpscale.present.text.numbers import estimate, measured
from dpscale.present.text.words import Terms, headline, smallest
from dpscale.present.text.words import scope as scope_in_words
from dpscale.tables.quantities import EPOCH, FASTER
from dpscale.tables.row import grouped
from dpscale.tables.variants import VariantsRow

_BASE_COLOUR, _FASTEST_COLOUR, _COLOUR = "var(--quiet)", "var(--ddp)", "var(--single)"
Variants = Sequence[VariantsRow]


def epochs_on_one(rows: Variants, terms: Terms) -> Chart:
    """Of rows of one device: an epoch in s, a bar for every variant; a panel for every batch, scope and environment."""
    panels = [
        Waterfall(
            heading=_fastest_epoch(part),
            place=f"Batch {part[0].batch_per_gpu:,} per {terms.device}, {terms.scope(part[0])}",
            quantity=f"Epoch on 1 {terms.device} in s, and how many times as fast it is as with {BASE}, with its 95 % "
            "interval",
            x_title=EPOCH.heading,
            stages=[_stage(row) for row in part],
        )
        for part in _by_batch(rows)
    ]
    return chart_of_waterfalls("variant-epochs-on-one", panels)


def _by_batch(rows: Variants) -> Iterable[Variants]:
    """What was measured at every batch and in every environment; without loading, where there is such: the rest is in
    the table."""
    known = (row for row in rows if row.scope == rows[0].scope)
    return grouped(known, lambda row: (row.batch_per_gpu, row.environment)).values()


def _stage(row: VariantsRow) -> Stage:
    faster = f", {estimate(row.faster, FASTER.unit)} times" if row.faster.is_known else ""
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


def _batch(row: VariantsRow) -> str:
    """`Batch 2,048`, and the scope where that is not compute."""
    scope = "" if row.scope == "compute" else f", {scope_in_words(row.scope)}"
    return f"Batch {row.batch_per_gpu:,}{scope}"

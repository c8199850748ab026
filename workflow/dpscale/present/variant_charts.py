"""The figures of the section on variants. Colour tells the study's own settings, variants, and the fastest of them.

As in `charts`; headings name figures and where they were measured.
"""

from collections.abc import Sequence
from itertools import cycle

import pandas as pd

from dpscale.analyse.claims import is_true
from dpscale.plan.study import BASE
from dpscale.present import headings, words
from dpscale.present.charts.bars import Bar, Bars, Share, Stage, Waterfall
from dpscale.present.charts.chart import Chart, chart_of_bars, chart_of_lines, chart_of_waterfalls
from dpscale.present.charts.frames import parts, points
from dpscale.present.charts.panel import Panel, Series, level
from dpscale.present.finding import extreme, headline
from dpscale.present.words import Row, Terms
from dpscale.strategies.known import BASELINE
from dpscale.vocabulary import quantities
from dpscale.vocabulary.quantities import EPOCH, FASTER, KERNEL_SHARES, MILLISECONDS, PERCENT, SPEEDUP, STEP, quantity

_BASE_COLOUR, _FASTEST_COLOUR, _COLOUR = "var(--quiet)", "var(--ddp)", "var(--single)"
_LINE_COLOURS = ("var(--single)", "var(--dp)", "var(--caution)", "currentColor", "var(--ddp)")
# In the order of the shares; nothing happens in the last one.
_PART_COLOURS = ("var(--single)", "var(--dp)", "var(--caution)", "var(--ddp)", "var(--quiet)", None)
_BATCH = ["scope", "environment", "batch_per_gpu"]


def steps(table: pd.DataFrame, terms: Terms) -> Chart:
    """A full step on one device in ms, a bar for every variant: a panel for every batch, scope and environment."""
    panels = [
        Waterfall(
            heading=_fastest_step(part, terms),
            place=_place(key, terms),
            quantity=f"Full step on 1 {terms.device} in ms, of all runs; and how many times as fast an epoch is as "
            f"with {BASE}, of runs on the same {terms.device} where there are such, with its 95 % interval, or in "
            "parentheses the range of two runs",
            x_title=STEP.heading,
            stages=[_stage(row) for row in words.rows(words.ok(part))],
        )
        for key, part in parts(_first_scope(table[table["strategy"] == BASELINE]), _BATCH)
    ]
    return chart_of_waterfalls("variant-steps", panels)


def _first_scope(table: pd.DataFrame) -> pd.DataFrame:
    """The rows without loading, where there are any; the others are in the table."""
    first: pd.DataFrame = table[table["scope"] == min(table["scope"], default="")]
    return first


def _stage(row: Row) -> Stage:
    faster = f", {words.brief(row, FASTER.column, FASTER.unit)} times" if words.is_known(row["faster"]) else ""
    fastest = _FASTEST_COLOUR if is_true(row["is_fastest"]) else _COLOUR
    colour = _BASE_COLOUR if row["variant"] == BASE else fastest
    return Stage(f"{row['variant']}: {_step(row)}{faster}", 0.0, MILLISECONDS.of(row["step_s"]), colour)


def _fastest_step(part: pd.DataFrame, terms: Terms) -> str:
    """`Batch 2,048: 86.8 ms with base, 21.1 ms with images_on_device, the fastest`."""
    measured = headline(words.ok(part))
    if measured.empty:
        return headings.NO_HEADLINE
    fastest = extreme(measured, "epoch_s", largest=False)
    named = [f"{_step(row)} with {BASE}" for row in words.rows(measured[measured["variant"] == BASE])]
    if fastest["variant"] != BASE or not named:
        named.append(f"{_step(fastest)} with {fastest['variant']}, the fastest")
    return f"{_batch(fastest)}: {', '.join(named)}"


def _step(row: Row) -> str:
    return words.measured(row["step_s"], MILLISECONDS)


def speedups(table: pd.DataFrame, terms: Terms) -> Chart:
    """Speedup over one device within every variant, against batch: a panel for every strategy and number of devices."""
    panels = []
    known = table.dropna(subset=["speedup"])
    for key, part in parts(known, ["scope", "environment", "strategy", "gpus"]):
        gpus = float(key["gpus"])
        batches = part["batch_per_gpu"].astype(float)
        panels.append(
            Panel(
                heading=_speedup_range(words.rows(headline(part)), terms),
                place=f"{key['strategy']} on {terms.count(int(gpus))}, {terms.scope(key)}",
                quantity=(
                    f"{SPEEDUP.label} in {SPEEDUP.unit.shown} over 1 {terms.device} of the same variant against "
                    f"{terms.batch}; one line for each variant"
                ),
                x_title=terms.heading_of(quantities.BATCH),
                y_title=SPEEDUP.heading,
                unit=SPEEDUP.unit.shown,
                series=_lines(part, "batch_per_gpu", "speedup"),
                guides=(level("ideal", gpus, batches), level("1×", 1, batches)),
            )
        )
    return chart_of_lines("variant-speedup", panels)


def _speedup_range(rows: Sequence[Row], terms: Terms) -> str:
    """`ddp on 2 GPUs: from 0.829×, cuda_graph at batch 32, to 1.96×, base at 2,048`."""
    if not rows:
        return headings.NO_HEADLINE
    least, most = (extreme(rows, "speedup", largest=largest) for largest in (False, True))
    ends = [
        f"{words.measured(row['speedup'], SPEEDUP.unit)}, {row['variant']} at batch {int(row['batch_per_gpu']):,}"
        for row in (least, most)
    ]
    where = f"{least['strategy']} on {terms.count(int(least['gpus']))}"
    return f"{where}: from {ends[0]}, to {ends[1]}" if least is not most else f"{where}: {ends[0]}"


def epochs(table: pd.DataFrame, terms: Terms) -> Chart:
    """Epoch time in s against number of devices, a line for every variant: a panel for every batch."""
    panels = [
        Panel(
            heading=_shortest_epochs(part, terms),
            place=_place(key, terms),
            quantity=(
                f"{EPOCH.label} in {EPOCH.unit.shown} against number of {terms.devices}; one line for each variant"
            ),
            x_title=f"Number of {terms.devices}",
            y_title=EPOCH.heading,
            unit=EPOCH.unit.shown,
            series=_epoch_lines(words.ok(part)),
        )
        for key, part in parts(_first_scope(table), _BATCH)
    ]
    return chart_of_lines("variant-epochs", panels)


def _epoch_lines(part: pd.DataFrame) -> list[Series]:
    """A line from one device to the most for every variant, and for every parallel strategy where there are several."""
    alone = part[part["strategy"] == BASELINE]
    others = list(dict.fromkeys(part["strategy"][part["strategy"] != BASELINE]))
    if len(others) < 2:
        return _lines(part, "gpus", "epoch_s")
    lines: list[Series] = []
    for strategy in others:
        both = pd.concat([alone, part[part["strategy"] == strategy]])
        lines = [*lines, *_lines(both, "gpus", "epoch_s", f", {strategy}", first_style=len(lines))]
    return lines


def _shortest_epochs(part: pd.DataFrame, terms: Terms) -> str:
    """`Batch 2,048. 1 GPU: 2.12 s with base, 0.515 s with cuda_graph; 2 GPUs: 1.08 s with base, ...`."""
    measured = headline(words.ok(part))
    if measured.empty:
        return headings.NO_HEADLINE
    named = []
    for gpus in sorted({1, int(measured["gpus"].max())}):
        here = measured[measured["gpus"] == gpus]
        if here.empty:
            continue
        ends = [extreme(some, "epoch_s", largest=False) for some in (here[here["variant"] == BASE], here) if len(some)]
        times = dict.fromkeys(f"{words.measured(row['epoch_s'], EPOCH.unit)} with {row['variant']}" for row in ends)
        named.append(f"{terms.count(gpus)}: {', '.join(times)}")
    return f"{_batch(words.rows(measured)[0])}. {'; '.join(named)}"


def kernels(table: pd.DataFrame, variants: pd.DataFrame, terms: Terms) -> Chart:
    """Parts of a profiled step in % of it, by batch: a panel for the first variant and one for the fastest, for every
    environment."""
    table = table[table["variant"].isin([*table["variant"].head(1), *_fastest(variants)])]
    names = {share.column: share.short for share in KERNEL_SHARES}
    panels = [
        Bars(
            heading=headings.parts_of_step(part, names, str(key["variant"])),
            place=f"{key['variant']} on {terms.count(1)}{terms.environment(key)}",
            quantity=(f"Parts of a profiled step in %, by {terms.batch}; on the right the profiled step in ms"),
            x_title="Share of the profiled step, %",
            y_title=terms.heading_of(quantities.BATCH),
            bars=[_bar(row) for row in words.rows(part)],
        )
        for key, part in parts(table.assign(status="ok"), ["environment", "variant"])
    ]
    return chart_of_bars("variant-kernels", panels)


def _fastest(variants: pd.DataFrame) -> list[str]:
    """The variant with the shortest epoch on one device, if any."""
    alone = headline(words.ok(_first_scope(variants[variants["strategy"] == BASELINE])))
    return [] if alone.empty else [str(extreme(alone, "epoch_s", largest=False)["variant"])]


def _bar(row: Row) -> Bar:
    shares = [
        Share(share.short, colour, PERCENT.of(row[share.column]))
        for share, colour in zip(KERNEL_SHARES, _PART_COLOURS, strict=True)
    ]
    step = words.measured(row["step_s"], quantity("step_s", "kernels").unit)
    return Bar(f"{int(row['batch_per_gpu']):,}", shares, step)


def _lines(part: pd.DataFrame, x: str, y: str, label: str = "", first_style: int = 0) -> list[Series]:
    """A line for every variant, in the order of the study: that of base first."""
    groups = [(str(variant), rows) for variant, rows in part.groupby("variant", sort=False)]
    colours = dict(zip((variant for variant, _ in groups if variant != BASE), cycle(_LINE_COLOURS), strict=False))
    return [
        Series(f"{variant}{label}", colours.get(variant, _BASE_COLOUR), style, points(rows, x, y))
        for style, (variant, rows) in enumerate(groups, start=first_style)
    ]


def _batch(row: Row) -> str:
    """`Batch 2,048`, and the scope where that is not compute."""
    scope = "" if row["scope"] == "compute" else f", {words.scope(row['scope'])}"
    return f"Batch {int(row['batch_per_gpu']):,}{scope}"


def _place(key: Row, terms: Terms) -> str:
    return f"Batch {int(key['batch_per_gpu']):,} per {terms.device}, {terms.scope(key)}"

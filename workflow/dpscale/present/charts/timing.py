"""The figures: epoch time against batch, speedup against GPUs and the like, on logarithmic axes.

Colour says the strategy; marker shape and dashes say the number of GPUs or the batch; a label stands at the end of
every line. Colours are CSS variables of the page, so that dark mode and print follow.
"""

import pandas as pd

from dpscale.analyse.timing.times import WORTH
from dpscale.present import headings, words
from dpscale.present.charts.chart import Chart, beside, chart_of_lines
from dpscale.present.charts.frames import parts, points
from dpscale.present.charts.panel import Panel, Series, level
from dpscale.present.words import Terms
from dpscale.strategies.known import parallel_strategies
from dpscale.vocabulary import quantities
from dpscale.vocabulary.quantities import EFFICIENCY, EPOCH, GB_PER_S, KIB
from dpscale.vocabulary.states import NOT_RESOLVABLE

_OPERATION_COLOURS = {
    "allreduce": "var(--ddp)",
    "broadcast": "var(--dp)",
    "reduce": "var(--single)",
    "reduce_scatter": "var(--caution)",
    "all_gather": "var(--quiet)",
}


def epoch_time(times: pd.DataFrame, terms: Terms) -> Chart:
    """Epoch time in s against batch per GPU in images: a panel for every scope and environment."""
    quantity = f"{EPOCH.label} in {EPOCH.unit.shown} against {terms.batch}"
    panels = [
        Panel(
            heading=headings.epoch_time(part, terms),
            place=words.capitalised(terms.scope(key)),
            quantity=f"{quantity}; one line for each strategy × {terms.devices}",
            x_title=terms.heading_of(quantities.BATCH),
            y_title=EPOCH.heading,
            unit=EPOCH.unit.shown,
            series=_time_series(part),
        )
        for key, part in parts(times, ["scope", "environment"])
    ]
    return chart_of_lines("epoch-time", panels)


def efficiency(table: pd.DataFrame, terms: Terms) -> Chart:
    """Efficiency in % against batch, with and without loading: a panel for every number of GPUs and environment, the
    most GPUs first."""
    weak = table[table["scaling"] == "weak"]
    panels = [
        Panel(
            heading=headings.efficiency(words.ok(part), terms),
            place=words.capitalised(f"{terms.count(int(key['gpus']))}{words.on_nodes(part)}{terms.environment(key)}"),
            quantity=(f"Efficiency in % against {terms.batch}; one line for each strategy, without and with loading"),
            x_title=terms.heading_of(quantities.BATCH),
            y_title=EFFICIENCY.heading,
            unit=EFFICIENCY.unit.shown,
            series=_efficiency_series(words.ok(part)),
            guides=(level("100 %", _ALL, words.ok(part)["batch_per_gpu"].astype(float)),),
            linear_y=True,
            shaded_below=EFFICIENCY.unit.of(WORTH),
        )
        for key, part in parts(weak, ["gpus", "environment"])
    ]
    return chart_of_lines("efficiency", list(reversed(panels)))


_ALL = EFFICIENCY.unit.of(1)


def _first(part: pd.DataFrame) -> float:
    return float(words.ok(part)["batch_per_gpu"].min())


def _last(part: pd.DataFrame) -> float:
    return float(words.ok(part)["batch_per_gpu"].max())


def _efficiency_series(part: pd.DataFrame) -> list[Series]:
    """Solid lines without loading, dashes with it; colour says the strategy."""
    return [
        Series(
            f"{strategy}{'' if scope == 'compute' else ', loading'}",
            words.colour(str(strategy)),
            0 if scope == "compute" else 1,
            points(line, "batch_per_gpu", "efficiency", EFFICIENCY.unit),
        )
        for (strategy, scope), line in part.groupby(["strategy", "scope"], sort=False)
    ]


def bus_bandwidth(collectives: pd.DataFrame, bandwidth: pd.DataFrame, terms: Terms) -> Chart:
    """Bus bandwidth in GB/s against message size in KiB, of collectives alone, and the bandwidth inferred from steps.

    A panel for every number of GPUs and environment. The network's own sizes, which lie between those of the series,
    are left to the table.
    """
    quantity = (
        "Bus bandwidth in GB/s against size of the message in KiB (1,024 bytes); one line for each collective. Side by "
        "side at the whole gradient's size: bandwidth of steps, inferred (E1) and by the profiler (E3), one point per "
        "batch"
    )
    alone = collectives[(collectives["operation"] != "peer_copy") & collectives["use"].isna()]
    alone = alone.assign(message_kib=alone["message_bytes"].map(KIB.of))
    panels, not_drawn = [], []
    for key in words.rows(alone[["gpus", "environment"]].drop_duplicates()):
        part, steps = (
            table[(table["gpus"] == key["gpus"]) & (table["environment"] == key["environment"])]
            for table in (alone, bandwidth)
        )
        place = f"{terms.count(key['gpus'])}{terms.environment(key)}"
        panels.append(
            Panel(
                heading=headings.bandwidth(part, steps, terms),
                place=place,
                quantity=quantity,
                x_title=f"Message, {KIB.shown}",
                y_title=quantities.BANDWIDTH.heading,
                unit=GB_PER_S.shown,
                series=[*_collective_series(part), *_inferred_series(steps)],
            )
        )
        unresolved = words.in_order(steps[steps["status"] == NOT_RESOLVABLE])
        if len(unresolved):
            which = [f"{row['strategy']} at batch {row['batch_per_gpu']:,}" for row in words.rows(unresolved)]
            not_drawn.append(f"{place}: inferred bandwidth is not resolvable with {words.listed(which)}.")
    return chart_of_lines("bus-bandwidth", panels, not_drawn)


def _collective_series(part: pd.DataFrame) -> list[Series]:
    return [
        Series(
            str(operation).replace("_", "-"),
            _OPERATION_COLOURS[str(operation)],
            style,
            points(line, "message_kib", "bus_bandwidth_gb_s"),
        )
        for style, (operation, line) in enumerate(part.groupby("operation"))
    ]


def _inferred_series(steps: pd.DataFrame) -> list[Series]:
    """Columns of points side by side at the size of the whole gradient, from the least to the most over all batches."""
    measured = words.ok(steps)
    measured = measured.assign(message_kib=measured["gradient_bytes"].map(KIB.of))
    series: list[Series] = []
    for strategy in reversed(list(parallel_strategies())):
        for name, label in (("bandwidth_gb_s", "inferred"), ("profiler_bandwidth_gb_s", "profiler")):
            column = points(measured[measured["strategy"] == strategy].sort_values(name), "message_kib", name)
            if column:
                ascending = sorted(column, key=lambda point: point.y)
                series.append(Series(f"{strategy}, {label}", words.colour(strategy), 0, ascending))
    return beside(series, first_style=len(_OPERATION_COLOURS))


def _time_series(part: pd.DataFrame) -> list[Series]:
    styles = {gpus: style for style, gpus in enumerate(sorted(part["gpus"].unique()))}
    series = []
    for (strategy, gpus), line in part.groupby(["strategy", "gpus"], sort=False):
        measured = points(words.ok(line), "batch_per_gpu", "epoch_s", EPOCH.unit)
        ended = words.rows(line[line["status"].isin(["oom", "capped"])])
        # The first batch that cannot run says where the line ends; the larger ones follow from it.
        end = (float(ended[0]["batch_per_gpu"]), words.state(ended[0]["status"])) if ended else None
        if measured:
            series.append(
                Series(
                    f"{strategy} × {gpus}{words.on_nodes(line)}",
                    words.colour(str(strategy)),
                    styles[gpus],
                    measured,
                    end,
                )
            )
    return series

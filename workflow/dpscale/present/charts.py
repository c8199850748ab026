"""The figures: epoch time against batch, speedup against GPUs and the like, on logarithmic axes; curves of training.

Colour says the strategy, of curves the arm; marker shape and dashes say the number of GPUs or the batch; a label
stands at the end of every line. Colours are CSS variables of the page, so that dark mode and print follow.
"""

import pandas as pd

from dpscale.analyse.columns import NOT_RESOLVABLE
from dpscale.present import headings, words
from dpscale.present.figure import Figure, figure, parts, points
from dpscale.present.panel import Panel, Point, Reference, Series
from dpscale.present.words import Row, Words

_OPERATION_COLOURS = {
    "allreduce": "var(--ddp)",
    "broadcast": "var(--dp)",
    "reduce": "var(--single)",
    "reduce_scatter": "var(--caution)",
    "all_gather": "var(--quiet)",
}
_ARM_COLOURS = ("var(--single)", "var(--dp)", "var(--ddp)", "var(--caution)", "currentColor")
_BASELINE_COLOUR = "var(--quiet)"
# The columns of inferred bandwidth, side by side at the size of the whole gradient, in pixels.
_COLUMN_GAP = 8


def epoch_time(times: pd.DataFrame, say: Words) -> Figure:
    """Epoch time in s against batch per GPU in images: a panel for every scope and environment."""
    quantity = f"Epoch time in s against batch per {say.device} in images"
    panels = [
        Panel(
            heading=headings.epoch_time(part, say),
            place=words.capitalised(_place(key, say)),
            quantity=f"{quantity}; one line for each strategy × {say.devices}",
            x_title=f"Batch per {say.device}, images",
            y_title="Epoch time, s",
            unit="s",
            series=_time_series(part),
        )
        for key, part in parts(times, ["scope", "environment"])
    ]
    return figure("epoch-time", panels)


def speedup(table: pd.DataFrame, scaling: str, say: Words) -> Figure:
    """Speedup against GPUs, `scaling` weak or strong: a panel for every scope, environment and strategy."""
    quantity = f"Speedup in × over 1 {say.device} against number of {say.devices}"
    held = f"batch per {say.device} (b)" if scaling == "weak" else "global batch (B)"
    panels = []
    for key, part in parts(table[table["scaling"] == scaling], ["scope", "environment", "strategy"]):
        measured = words.ok(part)
        most = float(measured["gpus"].max())
        panels.append(
            Panel(
                heading=headings.speedup(measured, scaling, say),
                place=f"{key['strategy']}, {_place(key, say)}",
                quantity=f"{quantity}; one line for each {held} in images",
                x_title=f"Number of {say.devices}",
                y_title="Speedup, ×",
                unit="×",
                series=_speedup_series(measured, scaling),
                references=(Reference("ideal", most, 1, most), Reference("1×", most, 1, 1)),
            )
        )
    return figure(f"speedup-{scaling}", panels)


def bus_bandwidth(collectives: pd.DataFrame, bandwidth: pd.DataFrame, say: Words) -> Figure:
    """Bus bandwidth in GB/s against message size in KiB, of collectives alone, and the bandwidth inferred from steps.

    A panel for every number of GPUs and environment. The network's own sizes, which lie between those of the series,
    are left to the table.
    """
    quantity = (
        "Bus bandwidth in GB/s against size of the message in KiB (1,024 bytes); one line for each collective. Side by "
        "side at the whole gradient's size: bandwidth of steps, inferred (E1) and by the profiler (E3), a point a batch"
    )
    alone = collectives[(collectives["operation"] != "peer_copy") & collectives["use"].isna()]
    alone = alone.assign(message_kib=alone["message_bytes"] / 1024)
    panels, not_drawn = [], []
    for key in words.rows(alone[["gpus", "environment"]].drop_duplicates()):
        part, steps = (
            table[(table["gpus"] == key["gpus"]) & (table["environment"] == key["environment"])]
            for table in (alone, bandwidth)
        )
        place = f"{say.count(key['gpus'])}{say.environment(key)}"
        panels.append(
            Panel(
                heading=headings.bandwidth(part, steps, say),
                place=place,
                quantity=quantity,
                x_title="Message, KiB",
                y_title="Bandwidth, GB/s",
                unit="GB/s",
                series=[*_collective_series(part), *_inferred_series(steps)],
            )
        )
        unresolved = words.in_order(steps[steps["status"] == NOT_RESOLVABLE])
        if len(unresolved):
            which = [f"{row['strategy']} at batch {row['batch_per_gpu']:,}" for row in words.rows(unresolved)]
            not_drawn.append(f"{place}: inferred bandwidth is not resolvable with {words.listed(which)}.")
    return figure("bus-bandwidth", panels, not_drawn)


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
    """Columns of points, from the least to the most over all batches."""
    measured = words.ok(steps)
    gpus = measured["gpus"]
    # Of a ring's bytes the message is the part that 2(N-1)/N multiplies.
    measured = measured.assign(message_kib=measured["allreduce_bytes_per_step"] * gpus / (2 * (gpus - 1)) / 1024)
    series: list[Series] = []
    for strategy in ("ddp", "dp"):
        for name, said in (("bandwidth_gb_s", "inferred"), ("profiler_bandwidth_gb_s", "profiler")):
            place = len(series)
            column = points(measured[measured["strategy"] == strategy].sort_values(name), "message_kib", name)
            if column:
                ascending = sorted(column, key=lambda point: point.y)
                aside = _COLUMN_GAP * (place - 1.5)
                style = len(_OPERATION_COLOURS) + place
                series.append(Series(f"{strategy}, {said}", f"var(--{strategy})", style, ascending, aside=aside))
    return series


def training_loss(training: pd.DataFrame, baseline: str | None, say: Words) -> Figure:
    """Training loss after every epoch: a panel for every global batch that arms start with, and environment."""
    return _curves("training-loss", "Training loss", "", training, "training_loss", 1, baseline, say)


def test_accuracy(training: pd.DataFrame, baseline: str | None, say: Words) -> Figure:
    """Test accuracy in % after every epoch: a panel for every global batch that arms start with, and environment."""
    return _curves("test-accuracy", "Test accuracy", "%", training, "test_accuracy", 100, baseline, say)


def _curves(
    name: str,
    quantity: str,
    unit: str,
    training: pd.DataFrame,
    column: str,
    scale: float,
    baseline: str | None,
    say: Words,
) -> Figure:
    """Means over seeds against epochs, between the least and the most of all seeds. The baseline is in every panel."""
    measured = training.assign(value=training[column] * scale, batch=training["gpus"] * training["batch_per_gpu"])
    is_baseline = measured["arm"] == baseline
    panels = []
    others = measured[~is_baseline] if len(measured[~is_baseline]) else measured
    for key in words.rows(others[["batch", "environment"]].drop_duplicates().sort_values(["batch", "environment"])):
        same_place = measured["environment"] == key["environment"]
        part = measured[same_place & ((measured["batch"] == key["batch"]) | is_baseline)]
        panels.append(
            Panel(
                heading=headings.training(part, baseline, quantity, unit),
                place=f"Global batch {key['batch']:,}{say.environment(key)}",
                quantity=f"{quantity}{f' in {unit}' if unit else ''} against epoch; one line for each arm",
                x_title="Epoch",
                y_title=f"{quantity}{f', {unit}' if unit else ''}",
                unit=unit,
                series=_arm_series(part, baseline),
                linear_x=True,
                linear_y=True,
            )
        )
    return figure(name, panels)


def _arm_series(part: pd.DataFrame, baseline: str | None) -> list[Series]:
    series = []
    for style, (arm, rows) in enumerate(part.groupby("arm", sort=False)):
        diverged = rows[rows["status"] == "diverged"]["epoch"]
        # A mean over the seeds that are left when others diverged would look too good.
        whole = rows if diverged.empty else rows[rows["epoch"] < diverged.min()]
        of_epoch = whole.groupby("epoch")["value"].agg(["mean", "min", "max"]).reset_index()
        means = [
            Point(float(row["epoch"]), row["mean"], row["min"], row["max"])
            for row in words.rows(of_epoch.sort_values("epoch"))
        ]
        end = None if diverged.empty else (float(diverged.min()), "diverged")
        colour = _BASELINE_COLOUR if arm == baseline else _ARM_COLOURS[style % len(_ARM_COLOURS)]
        if means:
            series.append(Series(str(arm), colour, style, means, end))
    return series


def _place(key: Row, say: Words) -> str:
    return f"{words.scope(key['scope'])}{say.environment(key)}"


def _time_series(part: pd.DataFrame) -> list[Series]:
    styles = {gpus: style for style, gpus in enumerate(sorted(part["gpus"].unique()))}
    series = []
    for (strategy, gpus), line in part.groupby(["strategy", "gpus"], sort=False):
        measured = points(words.ok(line), "batch_per_gpu", "epoch_s")
        ended = words.rows(line[line["status"].isin(["oom", "capped"])])
        # The first batch that cannot run says where the line ends; the larger ones follow from it.
        end = (float(ended[0]["batch_per_gpu"]), words.state(ended[0]["status"])) if ended else None
        if measured:
            series.append(Series(f"{strategy} × {gpus}", f"var(--{strategy})", styles[gpus], measured, end))
    return series


def _speedup_series(part: pd.DataFrame, scaling: str) -> list[Series]:
    name, symbol = ("batch_per_gpu", "b") if scaling == "weak" else ("global_batch", "B")
    return [
        Series(
            label=f"{symbol} = {batch:,}",
            colour=f"var(--{line['strategy'].iloc[0]})",
            style=style,
            points=points(line, "gpus", "speedup"),
        )
        for style, (batch, line) in enumerate(part.groupby(name))
    ]

"""Charts: what each is headed, what is drawn of it and what is said of the rest, and that nothing covers anything."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from page_tables import (
    BASE,
    FAST,
    GPU,
    SEVERAL,
    SLOW,
    collective_row,
    environment_row,
    epoch_row,
    h200,
    ladder_rows,
    of_variants,
    place,
    speedup_row,
    study,
    tables,
    variant_row,
)

from dpscale.formulas.figure import Figure
from dpscale.present.charts import training
from dpscale.present.charts.communication import bus_bandwidth, ladders
from dpscale.present.charts.lines import LABEL_GAP, DrawnSeries, Frame, Marker, Panel, apart, chart_of_lines
from dpscale.present.charts.picture import HEIGHT, Chart
from dpscale.present.page import charts_of
from html_reader import description, headings, places, texts

# To draw charts takes longest of all.
pytestmark = pytest.mark.slow

Rows = list[dict[str, Any]]


def efficiency(*rows: dict[str, Any], **more: Rows) -> Chart:
    return charts_of(study(), tables(speedup=list(rows), **more), GPU)["efficiency"]


def on_one_gpu(*rows: dict[str, Any]) -> Chart:
    """Return the epochs of variants on one GPU, beside one on two GPUs that is none of these."""
    on_two = variant_row("graph", 1.0, strategy="ddp", gpus=2)
    return charts_of(study(), of_variants(*rows, on_two), GPU)["variants_on_one"]


def bandwidth(*rows: dict[str, Any]) -> Chart:
    return bus_bandwidth(tables(collectives=list(rows)).collectives, GPU)


def accuracy(*rows: dict[str, Any], baseline: str | None = "base", target: float = 0.65) -> Chart:
    return training.test_accuracy(tables(training=list(rows)).training_curves, baseline, target, GPU)


def curve(arm: str, *accuracies: float | None, seed: int = 1) -> Rows:
    return [epoch_row(arm, seed, epoch, accuracy) for epoch, accuracy in enumerate(accuracies, 1)]


AT_32, AT_128, AT_512, FEW_STEPS = (
    speedup_row(speedup, 2.0, **place(batch=batch))
    for batch, speedup in ((32, 0.4), (128, 2.0), (512, 3.8), (2048, 3.9))
)
LOADED = speedup_row(2.0, 2.0, **place(batch=512, scope="end_to_end"))
BY_DP = speedup_row(3.9, 2.0, **place("dp", batch=128))
REDUCE = collective_row("reduce", 4, 2**30, 371.0)
GRADIENT = collective_row("allreduce", 4, 44_695_848, 302.0, use="whole gradient")
BASELINE, GOOD, BAD = curve("base", 0.7, 0.7), curve("good", 0.2, 0.6), curve("bad", 0.9, 0.1)
WILD = [*curve("wild", 0.9, None), *curve("wild", 0.9, 0.9, seed=2)]


@pytest.mark.parametrize(
    ("chart", "rows", "heading"),
    [
        # The answer is about batch 128: what is nearest to it is headed, and not what is best.
        (efficiency, [AT_32, AT_512, AT_128, BY_DP], "ddp on 4 GPUs at batch 128: 50.0 % [49.5, 50.5]"),
        (
            efficiency,
            [AT_512, FEW_STEPS, LOADED],
            "ddp on 4 GPUs at batch 512: 95.0 % [94.0, 95.9], with loading 50.0 % [49.5, 50.5]",
        ),
        (efficiency, [FEW_STEPS], "No epoch has 10 full steps"),
        (bandwidth, [REDUCE], "4 GPUs: 371 GB/s at most, with reduce of 1 GiB"),
        (bandwidth, [REDUCE, GRADIENT], "4 GPUs: 302 GB/s with an allreduce of the whole gradient, 44.7 MB"),
        (on_one_gpu, [BASE, SLOW, FAST], "Batch 128: 3.00 s with base, 1.00 s with graph, the fastest"),
        (on_one_gpu, [BASE, SLOW], "Batch 128: 3.00 s with base"),
        (on_one_gpu, [{**BASE, "full_steps_per_epoch": 9}], "No epoch has 10 full steps"),
        (accuracy, [*BASELINE, *GOOD, *BAD], "Test accuracy: good ends best, at 60.0 %; the baseline base at 70.0 %"),
        (accuracy, [*WILD, *curve("tame", 0.3)], "Test accuracy: tame ends best, at 30.0 %"),
        (accuracy, [*WILD], "Test accuracy: a seed of every arm diverged"),
    ],
)
def test_a_heading_says_what_the_rows_show(chart: Callable[..., Chart], rows: Rows, heading: str) -> None:
    assert headings(chart(*rows)) == [heading]


def test_a_ladder_goes_from_one_alone_to_the_whole_step() -> None:
    (picture,) = ladders(tables(ladder=ladder_rows((8, 8), (26, 34), (-2, 32), (8, 40))).ladder, GPU).pictures
    assert description(picture.svg) == (
        "1 GPU alone: 8.00 ms, 20.0 %; threads, contention: 26.0 ms, 65.0 %; inputs, outputs: −2.00 ms, −5.00 %; "
        "replicate, reduce: 8.00 ms, 20.0 %."
    )


def test_the_axis_of_curves_reaches_the_target() -> None:
    low, high = (texts(accuracy(*curve("base", 0.2, 0.3), target=target).pictures[0].svg) for target in (0.65, 0.95))
    assert "target" in low and "80" not in low and "80" in high


def test_a_line_ends_where_the_first_seed_diverged() -> None:
    (picture,) = accuracy(*BASELINE, *WILD).pictures
    assert "wild, diverged: 90.0 % at 1." in description(picture.svg)
    assert "wild" not in str(accuracy(*BASELINE, *curve("wild", None))), "one that diverged at once has no line"
    assert accuracy(baseline=None).pictures == []


def test_a_panel_is_of_a_number_of_gpus_and_nodes_in_an_environment() -> None:
    on_nodes = replace(h200(), speedup=[replace(row, nodes=2 if row.gpus == 4 else 1) for row in h200().speedup])
    assert places(charts_of(study(), on_nodes, GPU)["efficiency"]) == ["4 GPUs on 2 nodes", "2 GPUs"]
    rows = [speedup_row(3.8, 2.0, **place(environment=letter)) for letter in "AB"]
    data = tables(speedup=rows, environments=[environment_row("A"), environment_row("B")])
    chart = charts_of(study(), data, SEVERAL)["efficiency"]
    assert places(chart) == ["4 GPUs in environment B", "4 GPUs in environment A"]


def test_panels_that_are_too_many_are_said_not_to_be_drawn() -> None:
    chart = efficiency(*(speedup_row(2.0, 2.0, **place(gpus=gpus)) for gpus in range(2, 30)))
    assert len(chart.pictures) == 8
    assert chart.not_drawn[0].startswith("Not drawn: 21 GPUs, ")


def test_runs_of_two_machines_are_drawn_as_circles_and_the_axis_has_room_for_them() -> None:
    runs = [{**AT_128, "block": f"run {run}", "efficiency": run / 4, "speedup": float(run)} for run in (1, 3)]
    of_two = {**AT_128, "rests_on": "two machines: efficiency"}
    drawn = [efficiency(of_two, blocks=runs), efficiency(of_two), efficiency(AT_128)]
    with_runs, without, with_bar = (chart.pictures[0] for chart in drawn)
    assert with_runs.svg != without.svg, "the runs lie further apart"
    assert without.subtitle.endswith("; small circles are runs") and "circles" not in with_bar.subtitle


@pytest.mark.parametrize("wanted", [[5, 5, 5], [235, 236, 10, 237], [0, 240, 120], [100, 107, 114, 121], []])
def test_labels_keep_their_order_and_do_not_touch(wanted: list[float]) -> None:
    places = apart(wanted, LABEL_GAP, 7, HEIGHT - 7)
    order = sorted(range(len(wanted)), key=wanted.__getitem__)
    assert all(places[after] - places[before] >= LABEL_GAP for before, after in pairwise(order))
    assert all(7 <= place <= HEIGHT - 7 for place in places)


WIDE, NARROW = Figure.of(2.0, 1.0, 4.0), Figure.of(2.0, 1.5, 2.5)
RUNS = (1.7, 2.1, 2.2)


@pytest.mark.parametrize(
    ("figure", "runs", "has_bar", "dots"),
    [
        (NARROW, RUNS, True, ()),
        (WIDE, RUNS, False, RUNS),
        (WIDE, (), True, ()),  # nothing else is known
        (Figure(2.0, 1.5, 2.5, "two machines"), (), False, (1.5, 2.5)),
        (Figure(2.0, 1.5, 2.5, "two machines"), RUNS, False, RUNS),
        (Figure(2.0, kind="one run"), (2.0,), False, ()),
    ],
)
def test_a_bar_that_tells_nothing_gives_way_to_the_runs(
    figure: Figure, runs: tuple[float, ...], has_bar: bool, dots: tuple[float, ...]
) -> None:
    marker = Marker(1, figure, runs)
    assert (marker.has_bar, tuple(marker.dots)) == (has_bar, dots)


def panel(*figures: Figure, **more: Any) -> Panel:
    line = DrawnSeries("line", "var(--ddp)", 0, [Marker(2**power, figure) for power, figure in enumerate(figures)])
    return Panel(
        heading="heading", place="Here", quantity="quantity", x_title="x", y_title="y", unit="s", series=[line], **more
    )  # fmt: skip


@pytest.mark.parametrize(
    ("linear", "second", "is_cut"),
    [
        (False, Figure.of(20, 10, 80), False),
        (False, Figure.of(20, 10, 1e9), True),
        (False, Figure.of(20, -5, 30), True),
        (True, Figure.of(20, 10, 30), False),
        (True, Figure.of(20, 10, 1e9), True),
    ],
)
def test_an_axis_has_room_for_intervals_that_lie_within_reach(linear: bool, second: Figure, is_cut: bool) -> None:
    drawn = panel(Figure.of(10, 5, 20), second, Figure(20), linear_y=linear)
    axis = Frame.around([drawn]).y
    assert (second.high > axis.high or second.low < axis.low) == is_cut
    assert axis.pixel(20) - axis.pixel(5) > HEIGHT / 12, "one that goes far beyond does not flatten the others"
    assert chart_of_lines("bars", [drawn]).pictures

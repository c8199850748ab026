"""Charts: what each is headed, what is drawn of it and what is said of the rest, and that nothing covers anything."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from page_tables import (
    GPU,
    SEVERAL,
    WORKER,
    arm_row,
    collective_row,
    environment_row,
    epoch_row,
    h200,
    ladder_rows,
    place,
    speedup_row,
    study,
    tables,
)
from variant_tables import BASE, FAST, SLOW, of_variants, variant_row, with_variants

from dpscale.formulas.figure import Figure
from dpscale.present.charts.charts import accuracy, bus_bandwidth, charts_of, ladders
from dpscale.present.charts.lines import LABEL_GAP, Axis, DrawnSeries, Guide, Marker, Panel, chart_of_lines
from dpscale.present.charts.picture import PICTURES_DRAWN, Chart
from dpscale.present.text.words import Terms
from dpscale.tables.column import SPEEDUP
from pictures import description, gaps_of_labels, headings, places, points, texts

# To draw charts takes longest of all.
pytestmark = pytest.mark.slow

Rows = list[dict[str, Any]]


def of_efficiency(*rows: dict[str, Any], terms: Terms = GPU) -> Chart:
    return charts_of(study(), tables(speedup=list(rows)), terms)["efficiency"]


def of_bandwidth(*rows: dict[str, Any]) -> Chart:
    return bus_bandwidth(tables(collectives=list(rows)).collectives, GPU)


def on_one(*rows: dict[str, Any]) -> Chart:
    """Epochs on one GPU; one on several is none of these."""
    more = variant_row("graph", 1.0, strategy="ddp", gpus=2)
    return charts_of(study(), of_variants(*rows, more), GPU)["variants_on_one"]


def of_accuracy(*rows: dict[str, Any], target: float = 65, compared_with: str = "base") -> Chart:
    summary = [arm_row("good", 0.5, compared_with=compared_with)]
    data = tables(training=list(rows), training_summary=summary)
    return accuracy(data.training_curves, "base", target, GPU)


def of_tuned(*rows: dict[str, Any]) -> Chart:
    return of_accuracy(*rows, compared_with="tuned")


def curve(arm: str, *accuracies: float | None, seed: int = 1) -> Rows:
    return [epoch_row(arm, seed, epoch, accuracy) for epoch, accuracy in enumerate(accuracies, 1)]


LOADED = speedup_row(2.0, 2.0, **place(batch=512, scope="end_to_end"))
GAINS = [speedup_row(3.8, 2.0, **place(batch=512)), speedup_row(0.4, 2.0, **place(batch=32))]
AT_128 = speedup_row(2.0, 2.0, **place(batch=128))
FEW_STEPS = speedup_row(3.9, 2.0, **place(batch=2_048))
BASELINE, GOOD, BAD = curve("base", 0.7, 0.7), curve("good", 0.2, 0.6), curve("bad", 0.9, 0.1)
WILD = [*curve("wild", 0.9, None), *curve("wild", 0.9, 0.9, seed=2)]
REDUCE = collective_row("reduce", 4, 2**30, 371.0)
OF_GRADIENT = collective_row("allreduce", 4, 44_695_848, 302.0, use="whole gradient")


@pytest.mark.parametrize(
    ("chart", "rows", "heading"),
    [
        # The answer is about batch 128: what is nearest to it is headed, and not what is best.
        (of_efficiency, [*GAINS, AT_128, LOADED], "ddp on 4 GPUs at batch 128: 50.0 % [49.5, 50.5]"),
        (of_efficiency, GAINS, "ddp on 4 GPUs at batch 32: 10.0 % [9.9, 10.1]"),
        (
            of_efficiency,
            [GAINS[0], LOADED, FEW_STEPS],
            "ddp on 4 GPUs at batch 512: 95.0 % [94.0, 95.9], with loading 50.0 % [49.5, 50.5]",
        ),
        (of_efficiency, [FEW_STEPS], "No epoch has 10 full steps"),
        (of_bandwidth, [REDUCE], "4 GPUs: 371 GB/s at most, with reduce of 1 GiB"),
        (of_bandwidth, [REDUCE, OF_GRADIENT], "4 GPUs: 302 GB/s with an allreduce of the whole gradient, 44.7 MB"),
        (on_one, [BASE, SLOW, FAST], "Batch 128: 3.00 s with base, 1.00 s with graph, the fastest"),
        (on_one, [{**BASE, "scope": "end_to_end"}], "Batch 128, end-to-end scope: 3.00 s with base"),
        (on_one, [SLOW], "Batch 128: 4.00 s with bf16, the fastest"),
        (on_one, [{**BASE, "full_steps_per_epoch": 9}], "No epoch has 10 full steps"),
        (
            of_accuracy,
            [*BASELINE, *GOOD, *BAD],
            "Test accuracy: good ends best, at 60.0 %; the baseline base at 70.0 %",
        ),
        (
            of_tuned,
            [*BASELINE, *curve("tuned", 0.6, 0.65), *GOOD],
            "Test accuracy: good ends at 60.0 %; the baseline tuned at 65.0 %",
        ),
        (of_accuracy, GOOD, "Test accuracy: good ends at 60.0 %"),
        (of_accuracy, [*WILD, *GOOD], "Test accuracy: good ends best, at 60.0 %"),
        (of_accuracy, WILD, "Test accuracy: a seed of every arm diverged"),
    ],
)
def test_a_heading_says_what_the_rows_show(chart: Callable[..., Chart], rows: Rows, heading: str) -> None:
    assert headings(chart(*rows)) == [heading]


def test_markers_are_where_the_axes_say_the_numbers_of_the_tables_are() -> None:
    data = h200()
    charts = charts_of(study(), data, GPU)
    weak = [row for row in data.speedup if (row.scaling, row.status) == ("weak", "ok")]
    by_gpus = [
        (row.gpus, row.speedup.value)
        for row in weak if (row.strategy, row.batch_per_gpu, row.scope) == ("ddp", 128, "compute")
    ]  # fmt: skip
    (speedup,) = charts["speedup"].pictures
    # The batch of the answer has the colour of its strategy, and the others have none.
    assert_near(points(speedup.svg, "var(--ddp)", log=True), [(1, 1.0), *by_gpus])
    by_batch = [
        (row.batch_per_gpu, 100 * row.efficiency.value) for row in weak if (row.strategy, row.gpus) == ("dp", 4)
    ]
    assert_near(points(charts["efficiency"].pictures[0].svg, "var(--dp)", log=False), by_batch)


def assert_near(drawn: Sequence[tuple[float, float]], stored: Sequence[tuple[float, float]]) -> None:
    assert len(drawn) == len(stored) > 1
    for point, numbers in zip(sorted(drawn), sorted(stored), strict=True):
        assert point == pytest.approx(numbers, rel=1e-3)


def test_labels_of_lines_keep_apart() -> None:
    for chart in charts_of(study(), h200(), GPU).values():
        for picture in chart.pictures:
            assert all(gap > LABEL_GAP - 0.01 for gap in gaps_of_labels(picture.svg)), picture.name


def test_a_ladder_goes_from_one_alone_to_the_whole_step() -> None:
    rungs = tables(ladder=ladder_rows((8, 8), (26, 34), (-2, 32), (8, 40))).ladder
    (picture,) = ladders(rungs, GPU).pictures
    assert description(picture.svg) == (
        "1 GPU alone: 8.00 ms, 20.0 %; threads, contention: 26.0 ms, 65.0 %; inputs, outputs: −2.00 ms, −5.00 %; "
        "replicate, reduce: 8.00 ms, 20.0 %."
    )


def test_the_axis_of_curves_reaches_the_target() -> None:
    low, high = (texts(of_accuracy(*curve("large", 0.1, 0.2), target=target).pictures[0].svg) for target in (15, 95))
    assert "target" in low and "80" not in low and "80" in high


def test_a_line_ends_where_the_first_seed_diverged() -> None:
    (picture,) = of_accuracy(*BASELINE, *WILD).pictures
    assert "wild, diverged: 90.0 % at 1." in description(picture.svg)
    assert "wild" not in str(of_accuracy(*BASELINE, *curve("wild", None))), "one that diverged at once has no line"
    assert of_accuracy(*curve("wild", None)).pictures == []


def test_a_chart_without_rows_has_no_picture() -> None:
    assert [chart.pictures for chart in charts_of(study(), tables(), GPU).values() if chart.pictures] == []


def test_efficiency_has_a_panel_for_every_number_of_devices_and_environment() -> None:
    data = h200()
    on_nodes = [replace(row, nodes=2 if row.gpus == 4 else 1) for row in data.speedup]
    efficiency = charts_of(study(), replace(data, speedup=on_nodes), GPU)["efficiency"]
    assert places(efficiency) == ["4 GPUs on 2 nodes", "2 GPUs"]
    assert {"100 %", "dp", "ddp", "dp, loading", "ddp, loading"} <= set(texts(efficiency.pictures[0].svg))
    rows = [speedup_row(3.8, 2.0, **place(environment=letter)) for letter in "AB"]
    of_two = tables(speedup=rows, environments=[environment_row("A"), environment_row("B")])
    efficiency = charts_of(study(), of_two, SEVERAL)["efficiency"]
    assert places(efficiency) == ["4 GPUs in environment B", "4 GPUs in environment A"]
    assert places(of_efficiency(AT_128, terms=WORKER)) == ["4 workers"]


def test_one_device_has_a_panel_a_batch_and_a_bar_a_variant() -> None:
    pictures = charts_of(study(), with_variants(), GPU)["variants_on_one"].pictures
    assert [re.findall("Batch ([0-9,]+)", picture.subtitle) for picture in pictures] == [
        ["32"], ["128"], ["512"], ["2,048"],
    ]  # fmt: skip
    bars = description(pictures[0].svg).split("; ")
    assert [bar.split(":")[0] for bar in bars] == ["base", "bf16", "compile", "graph", "on-device", "switches"]


def test_panels_that_are_too_many_are_said_not_to_be_drawn() -> None:
    chart = of_efficiency(*(speedup_row(2.0, 2.0, **place(gpus=gpus)) for gpus in range(2, 30)))
    assert len(chart.pictures) == PICTURES_DRAWN
    assert re.fullmatch(r"Not drawn: 17 GPUs, .* and 4 more\.", chart.not_drawn)


WIDE, NARROW = Figure.of(2.0, 1.0, 4.0), Figure.of(2.0, 1.5, 2.5)
OF_TWO = Figure(2.0, 1.5, 2.5, "two machines")
RUNS = (1.7, 2.1, 2.2)


@pytest.mark.parametrize(
    ("figure", "runs", "has_bar", "dots"),
    [
        (NARROW, RUNS, True, ()),
        (WIDE, RUNS, False, RUNS),
        (WIDE, (), True, ()),  # nothing else is known
        (OF_TWO, (), False, (1.5, 2.5)),
        (OF_TWO, RUNS, False, RUNS),
        (Figure(2.0, kind="one run"), (2.0,), False, ()),
    ],
)
def test_a_bar_that_tells_nothing_gives_way_to_the_runs(
    figure: Figure, runs: tuple[float, ...], has_bar: bool, dots: tuple[float, ...]
) -> None:
    marker = Marker(1, figure, runs)
    assert (marker.has_bar, tuple(marker.dots)) == (has_bar, dots)


def test_runs_are_drawn_and_the_axis_has_room_for_them() -> None:
    blocks = [{**AT_128, "block": f"run {run}", "efficiency": run / 4, "speedup": run} for run in (1.0, 7.0)]
    data = tables(speedup=[{**AT_128, "rests_on": "two machines: efficiency"}], blocks=blocks)
    (drawn,), (bar,) = charts_of(study(), data, GPU)["efficiency"].pictures, of_efficiency(AT_128).pictures
    assert drawn.subtitle.endswith("; small circles are runs") and "circles" not in bar.subtitle
    assert "150" in texts(drawn.svg) and "150" not in texts(bar.svg)


@pytest.mark.parametrize("linear", [True, False])
@pytest.mark.parametrize(
    ("ends", "is_cut"), [((5.0, 25.0), False), ((10.0, 1e9), True), ((-1e9, 30.0), True), ((10.0, 20.0), False)]
)
def test_an_axis_follows_intervals_but_not_far(ends: tuple[float, float], is_cut: bool, linear: bool) -> None:
    axis = Axis.around([5.0, 10.0, 20.0, 40.0], linear, ends)
    low, high = axis.value(axis.low), axis.value(axis.high)
    assert low < 5.0 and high > 40.0
    assert (ends[0] < low or ends[1] > high) == is_cut
    assert axis.high - axis.low < 2.5 * (axis.place(40.0) - axis.place(5.0)), "the others are not flattened"


@pytest.mark.parametrize("figure", [Figure.of(20, 10, 1e9), Figure.of(20, -5, 30), Figure(20)])
def test_panels_are_drawn_around_any_interval(figure: Figure) -> None:
    line = DrawnSeries("line", "var(--ddp)", 0, [Marker(1, Figure(10.0)), Marker(2, figure)])
    panel = Panel(
        heading="heading", place="Here", quantity="quantity", x_title="x", y=SPEEDUP, series=[line],
        guides=[Guide("ideal", lambda x: x)],
    )  # fmt: skip
    (picture,) = chart_of_lines("lines", [panel]).pictures
    assert_near(points(picture.svg, "var(--ddp)", log=True), [(1, 10.0), (2, 20.0)])

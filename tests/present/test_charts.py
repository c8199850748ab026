"""Charts: what each is headed, what is drawn of it and what is said of the rest, and that nothing covers anything."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from page_tables import (
    BASE,
    FAST,
    GPU,
    SEVERAL,
    SLOW,
    arm_row,
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
from dpscale.present.charts import charts
from dpscale.present.charts.charts import bus_bandwidth, charts_of, ladders
from dpscale.present.charts.lines import LABEL_GAP, Axis, DrawnSeries, Guide, Marker, Panel, chart_of_lines
from dpscale.present.charts.picture import PICTURES_DRAWN, Chart
from dpscale.tables.column import SPEEDUP
from pictures import beyond_the_plot, description, gaps_of_labels, headings, places, points, texts

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


def accuracy(*rows: dict[str, Any], target: float = 65, compared_with: str = "base") -> Chart:
    data = tables(training=list(rows), training_summary=[arm_row("good", 0.5, compared_with=compared_with)])
    return charts.accuracy(data.training_curves, "base", target, GPU)


def accuracy_of_tuned(*rows: dict[str, Any]) -> Chart:
    return accuracy(*rows, compared_with="tuned")


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
        (on_one_gpu, [{**BASE, "is_headline": False}], "No epoch has 10 full steps"),
        (accuracy, [*BASELINE, *GOOD, *BAD], "Test accuracy: good ends best, at 60.0 %; the baseline base at 70.0 %"),
        (
            accuracy_of_tuned,
            [*BASELINE, *curve("tuned", 0.6, 0.65), *GOOD],
            "Test accuracy: good ends at 60.0 %; the baseline tuned at 65.0 %",
        ),
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
    low, high = (texts(accuracy(*curve("base", 0.2, 0.3), target=target).pictures[0].svg) for target in (65, 95))
    assert "target" in low and "80" not in low and "80" in high


def test_a_line_ends_where_the_first_seed_diverged() -> None:
    (picture,) = accuracy(*BASELINE, *WILD).pictures
    assert "wild, diverged: 90.0 % at 1." in description(picture.svg)
    assert "wild" not in str(accuracy(*BASELINE, *curve("wild", None))), "one that diverged at once has no line"
    assert accuracy(*curve("wild", None)).pictures == []


def test_a_panel_is_of_a_number_of_gpus_and_nodes_in_an_environment() -> None:
    on_nodes = replace(h200(), speedup=[replace(row, nodes=2 if row.gpus == 4 else 1) for row in h200().speedup])
    assert places(charts_of(study(), on_nodes, GPU)["efficiency"]) == ["4 GPUs on 2 nodes", "2 GPUs"]
    rows = [speedup_row(3.8, 2.0, **place(environment=letter)) for letter in "AB"]
    data = tables(speedup=rows, environments=[environment_row("A"), environment_row("B")])
    chart = charts_of(study(), data, SEVERAL)["efficiency"]
    assert places(chart) == ["4 GPUs in environment B", "4 GPUs in environment A"]


def test_panels_that_are_too_many_are_said_not_to_be_drawn() -> None:
    chart = efficiency(*(speedup_row(2.0, 2.0, **place(gpus=gpus)) for gpus in range(2, 30)))
    assert len(chart.pictures) == PICTURES_DRAWN
    assert chart.not_drawn.startswith("Not drawn: 17 GPUs, ")


def test_runs_of_two_machines_are_drawn_as_circles_and_the_axis_has_room_for_them() -> None:
    runs = [{**AT_128, "block": f"run {run}", "efficiency": run / 4, "speedup": run} for run in (1.0, 7.0)]
    drawn = [efficiency({**AT_128, "rests_on": "two machines: efficiency"}, blocks=runs), efficiency(AT_128)]
    with_runs, with_bar = (chart.pictures[0] for chart in drawn)
    assert with_runs.subtitle.endswith("; small circles are runs") and "circles" not in with_bar.subtitle
    assert "150" in texts(with_runs.svg) and "150" not in texts(with_bar.svg)


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


@pytest.mark.parametrize("linear", [True, False])
@pytest.mark.parametrize(
    ("ends", "is_cut"), [((10.0, 20.0), False), ((4.0, 45.0), False), ((10.0, 1e9), True), ((-1e9, 30.0), True)]
)
def test_an_axis_has_room_for_intervals_that_lie_within_reach(
    ends: tuple[float, float], is_cut: bool, linear: bool
) -> None:
    axis = Axis.around([5.0, 10.0, 20.0, 40.0], linear, ends)
    low, high = axis.value(axis.low), axis.value(axis.high)
    assert low < 5.0 and high > 40.0
    assert (ends[0] < low or ends[1] > high) == is_cut
    values_take = axis.place(40.0) - axis.place(5.0)
    assert values_take > 0.4 * (axis.high - axis.low), "one that goes far beyond does not flatten the others"


@pytest.mark.parametrize("figure", [Figure.of(20, 10, 1e9), Figure.of(20, -5, 30), Figure(20)])
def test_any_interval_is_drawn_and_moves_no_marker(figure: Figure) -> None:
    line = DrawnSeries("line", "var(--ddp)", 0, [Marker(1, Figure(10.0)), Marker(2, figure)])
    panel = Panel(
        heading="heading", place="Here", quantity="quantity", x_title="x", y=SPEEDUP, series=[line],
        guides=[Guide("ideal", lambda x: x)],
    )  # fmt: skip
    (picture,) = chart_of_lines("lines", [panel]).pictures
    assert_near(points(picture.svg, "var(--ddp)", log=True), [(1, 10.0), (2, 20.0)])
    assert beyond_the_plot(picture.svg) == []


def test_markers_are_where_the_axes_say_the_numbers_of_the_tables_are() -> None:
    drawn = charts_of(study(), h200(), GPU)
    weak = [row for row in h200().speedup if (row.scaling, row.status) == ("weak", "ok")]
    # The batch of the answer has the colour of its strategy, and the others have none.
    speedups = [
        (row.gpus, row.speedup.value)
        for row in weak
        if (row.strategy, row.batch_per_gpu, row.scope) == ("ddp", 128, "compute")
    ]
    assert_near(points(drawn["speedup"].pictures[0].svg, "var(--ddp)", log=True), [(1, 1.0), *speedups])
    of_dp = [row for row in weak if (row.strategy, row.gpus) == ("dp", 4)]
    percents = [(row.batch_per_gpu, 100 * row.efficiency.value) for row in of_dp]
    assert_near(points(drawn["efficiency"].pictures[0].svg, "var(--dp)", log=False), percents)


def assert_near(drawn: Sequence[tuple[float, float]], stored: Sequence[tuple[float, float]]) -> None:
    assert len(drawn) == len(stored) > 1
    for point, numbers in zip(sorted(drawn), sorted(stored), strict=True):
        assert point == pytest.approx(numbers, rel=1e-3)


def test_labels_of_lines_do_not_touch() -> None:
    for chart in charts_of(study(), h200(), GPU).values():
        for picture in chart.pictures:
            assert all(gap > LABEL_GAP - 0.01 for gap in gaps_of_labels(picture.svg)), picture.name


def test_a_chart_without_rows_has_no_picture() -> None:
    assert not any(chart.pictures for chart in charts_of(study(), tables(), GPU).values())

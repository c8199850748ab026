"""Charts: what is drawn in each, and that it stands where the numbers of the tables are."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from page_tables import (
    GPU,
    SEVERAL,
    arm_row,
    environment_row,
    epoch_row,
    h200,
    ladder_rows,
    place,
    speedup_row,
    study,
    tables,
    times_row,
)

from dpscale.formulas.figure import Figure
from dpscale.present.charts import charts
from dpscale.present.charts.charts import charts_of, ladders
from dpscale.present.charts.lines import DrawnLine, Marker, Panel, apart, chart_of_lines, markers
from dpscale.present.charts.picture import Chart
from dpscale.tables.column import SPEEDUP
from dpscale.tables.tables import Tables
from pictures import beyond_the_plot, headings, points, texts
from rows import Entries, known

# To draw charts takes longest of all.
pytestmark = pytest.mark.slow

Rows = list[Entries]


def efficiency(*rows: Entries, **more: Rows) -> Chart:
    return charts_of(study(), tables(speedup=list(rows), **more), GPU)["efficiency"]


def accuracy(*rows: Entries, target: float = 65) -> Chart:
    data = tables(training=list(rows), training_summary=[arm_row("good", 0.5, compared_with="base")])
    return charts.accuracy(data.training_curves, "base", target, GPU)


def curve(arm: str, *accuracies: float | None, seed: int = 1) -> Rows:
    return [epoch_row(arm, seed, epoch, accuracy) for epoch, accuracy in enumerate(accuracies, 1)]


BASELINE = curve("base", 0.7, 0.7)
WILD = [*curve("wild", 0.9, None), *curve("wild", 0.9, 0.9, seed=2)]


def test_a_ladder_goes_from_one_alone_to_the_whole_step() -> None:
    (picture,) = ladders(tables(ladder=ladder_rows((8, 8), (26, 34), (-2, 32), (8, 40))).ladder, GPU).pictures
    assert {
        "1 GPU alone: 8.00 ms, 20.0 %",
        "threads, contention: 26.0 ms, 65.0 %",
        "inputs, outputs: −2.00 ms, −5.00 %",
        "replicate, reduce: 8.00 ms, 20.0 %",
    } < set(texts(picture.svg))


def test_a_line_ends_where_the_first_seed_diverged() -> None:
    assert "wild, diverged" in texts(accuracy(*BASELINE, *WILD).pictures[0].svg)
    assert "wild" not in str(accuracy(*BASELINE, *curve("wild", None))), "one that diverged at once has no line"
    assert accuracy(*curve("wild", None)).pictures == []


def test_a_panel_is_of_a_number_of_gpus_and_nodes_in_an_environment() -> None:
    on_nodes = Tables(speedup=[replace(row, nodes=2 if row.gpus == 4 else 1) for row in h200().speedup])
    in_rows = headings(charts_of(study(), on_nodes, GPU)["efficiency"])
    assert in_rows == ["Efficiency on 4 GPUs on 2 nodes", "Efficiency on 2 GPUs"]
    rows = [speedup_row(3.8, 2.0, **place(environment=letter)) for letter in "AB"]
    data = tables(speedup=rows, environments=[environment_row("A"), environment_row("B")])
    assert headings(charts_of(study(), data, SEVERAL)["efficiency"])[0] == "Efficiency on 4 GPUs in environment B"


@pytest.mark.parametrize("figure", [Figure.of(20, 10, 1e9), Figure.of(20, -5, 30), Figure(20)])
def test_any_interval_is_drawn_and_moves_no_marker(figure: Figure) -> None:
    line = DrawnLine("line", "var(--ddp)", [Marker(1, Figure(10.0)), Marker(2, figure)])
    panel = Panel(heading="heading", subtitle="Here", x_title="x", y=SPEEDUP, lines=[line], guides=[float])
    (picture,) = chart_of_lines("lines", [panel]).pictures
    assert_near(points(picture.svg, "var(--ddp)", log=True), [(1, 10.0), (2, 20.0)])
    assert beyond_the_plot(picture.svg) == []


def test_markers_are_where_the_axes_say_the_numbers_of_the_tables_are() -> None:
    drawn = charts_of(study(), Tables(speedup=h200().speedup, answer=h200().answer), GPU)
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


@pytest.mark.parametrize(("places", "drawn"), [((0,), 0), ((0, 4), 1)])
def test_nothing_has_no_place_on_a_logarithmic_axis(places: Sequence[int], drawn: int) -> None:
    line = DrawnLine("none", "red", markers(Marker(x, Figure(1.0)) for x in places))
    panel = Panel(heading="h", subtitle="s", x_title="x", y=SPEEDUP, lines=[line])
    assert len(chart_of_lines("c", [panel]).pictures) == drawn


@given(st.lists(st.floats(0, 100), max_size=10))
def test_names_of_lines_are_apart_and_inside(places: list[float]) -> None:
    moved = apart(sorted(places), 10, (0, 100))
    assert all(after - before > 9.99 for before, after in pairwise(moved))
    assert all(0 <= place <= 100 for place in moved)


def test_a_chart_without_rows_has_no_picture() -> None:
    assert not any(chart.pictures for chart in charts_of(study(), tables(), GPU).values())


def test_ways_to_exchange_gradients_stand_below_one_device() -> None:
    steps = {"ddp": 4.0, "ddp-flat": 5.0, "single": 3.0, "ddp-naive": 8.0}
    rows = [
        {**times_row(1.0, strategy=name, gpus=1 if name == "single" else 2, batch=32), **known("step_s", step_ms / 1e3)}
        for name, step_ms in steps.items()
    ]
    (picture,) = charts_of(study(), tables(times=rows), GPU)["exchange"].pictures
    shown = [text for text in texts(picture.svg) if " on " in text]
    assert [text.split(" on ")[0] for text in shown] == ["single", "ddp-naive", "ddp-flat", "ddp"]
    assert shown[1] == "ddp-naive on 2 GPUs: 8.00 ms [7.92, 8.08]"
    without = [row for row in rows if row["strategy"] in ("single", "ddp")]
    assert not charts_of(study(), tables(times=without), GPU)["exchange"].pictures


def test_a_roofline_is_under_the_roof_of_the_chip_if_that_is_known() -> None:
    one_gpu = times_row(1.0, strategy="single", gpus=1, batch=32)
    row = {**one_gpu, "variant": "base", "precision": "float32", "intensity": 9.0, **known("flop_per_s", 2e13)}
    roofs = {"peak_flop_per_s": 4.945e14, "memory_gb_s": 4800.0}
    for entries, names in (({**row, **roofs}, {"base", "roof"}), (row, {"base"})):
        (picture,) = charts.roofline(tables(roofline=[entries]).roofline, GPU).pictures
        assert names == {*texts(picture.svg)} & {"base", "roof"}

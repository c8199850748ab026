"""Charts of times, and what all charts share: what is drawn, what is said of it, and that nothing covers anything."""

import re
from dataclasses import replace
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree

import pytest
from page_tables import GPU, SEVERAL, WORKER, absent_row, environment_row, h200, place, speedup_row, tables, times_row

from dpscale.formulas.figure import Figure
from dpscale.present.charts.axes import HEIGHT, Frame
from dpscale.present.charts.chart import chart_of_lines
from dpscale.present.charts.lines import draw, spread
from dpscale.present.charts.panel import DrawnSeries, Marker, Panel
from dpscale.present.charts.svg import LABEL_X
from dpscale.present.charts.timing import efficiency, epoch_time, speedup
from dpscale.present.handin import assignment
from dpscale.present.study.coverage import coverage
from dpscale.present.text.view import point
from dpscale.tables.timing import SpeedupRow, TimesRow
from pictures import SVG, description, headings, paths, places, texts

# To draw charts takes longest of all.
pytestmark = pytest.mark.slow


def test_the_batch_of_the_answer_has_the_colour_of_its_strategy_and_the_others_none() -> None:
    data = h200()
    (picture,) = speedup(data.answer, data.speedup, GPU).pictures
    assert re.findall(r'fill="var\(--ddp\)"><text[^>]*>([^<]*)<', picture.svg) == ["batch 128"]
    assert {"ideal", "batch 32", "batch 512"} < set(texts(picture.svg))
    assert "var(--dp)" not in picture.svg
    assert speedup([], data.speedup, GPU).pictures == []


def times(*rows: dict[str, Any]) -> list[TimesRow]:
    return list(tables(times=list(rows)).times)


def speedups(*rows: dict[str, Any]) -> list[SpeedupRow]:
    return list(tables(speedup=list(rows)).speedup)


def test_epoch_time_has_a_panel_a_scope_and_a_label_a_line() -> None:
    chart = epoch_time(h200().times, GPU)
    assert places(chart) == ["Compute scope", "End-to-end scope"]
    first = chart.pictures[0]
    assert {"single × 1", "dp × 2", "dp × 4", "ddp × 2", "ddp × 4", "OOM", "> dataset"} <= set(texts(first.svg))
    assert "Epoch time in s" in first.subtitle
    assert "single × 1: 7.74 s at 32, 2.13 s at 8,192, OOM at 32,768." in description(first.svg)
    for picture in chart.pictures:
        heights = sorted(float(y) for y in re.findall(rf'<text[^>]* x="{LABEL_X}" y="([\d.]+)"', picture.svg))
        assert len(heights) == 7
        assert min(after - before for before, after in pairwise(heights)) > 13.8, "labels do not touch"


def test_svg_is_a_named_image_in_the_colours_of_the_page() -> None:
    svg = epoch_time(h200().times, GPU).pictures[0].svg
    root = ElementTree.fromstring(svg)
    by_id = {element.get("id"): element.tag for element in root.iter() if element.get("id")}
    assert root.get("role") == "img"
    assert by_id[root.get("aria-labelledby")] == f"{SVG}title"
    assert by_id[root.get("aria-describedby")] == f"{SVG}desc"
    assert "style=" not in svg
    assert set(re.findall(r'(?:fill|stroke)="([^"]+)"', svg)) <= {
        "none", "currentColor", "var(--quiet)", "var(--grid)", "var(--single)", "var(--dp)", "var(--ddp)",
    }  # fmt: skip


def test_shortest_epoch_stands_beside_that_of_one_device() -> None:
    alone = [times_row(2.13, **place("single", 1, 512)), times_row(7.74, **place("single", 1, 32))]
    more = [times_row(0.548, **place("ddp", 4, 512)), absent_row("oom", "", **place("ddp", 4, 32_768))]
    shortest = "Shortest epoch: 0.548 s, ddp on 4 GPUs at batch 512"
    assert headings(epoch_time(times(*alone, *more), GPU)) == [f"{shortest}; on 1 GPU 2.13 s"]
    assert headings(epoch_time(times(*more), GPU)) == [shortest]
    slower = times(*alone, times_row(9.0, **place("ddp", 4, 512)))
    assert headings(epoch_time(slower, WORKER)) == ["Shortest epoch: 2.13 s, single on 1 worker at batch 512"]


def test_efficiency_has_a_panel_a_number_of_gpus_with_and_without_loading() -> None:
    chart = efficiency(h200().speedup, GPU)
    assert places(chart) == ["4 GPUs", "2 GPUs"]
    assert {"100 %", "dp", "ddp", "dp, loading", "ddp, loading"} <= set(texts(chart.pictures[0].svg))


def test_efficiency_names_the_best_and_the_same_with_loading() -> None:
    loaded = place("ddp", 4, 512, scope="end_to_end")
    found = ((3.8, place("ddp", 4, 512)), (0.4, place("ddp", 4, 32)), (2.0, loaded))
    rows = speedups(*(speedup_row(speedup, 2.0, **where) for speedup, where in found))
    best = "ddp on 4 GPUs at batch 512: 95.0 %"
    assert headings(efficiency(rows, GPU)) == [f"{best}, with loading 50.0 %"]
    assert headings(efficiency(rows[:2], GPU)) == [best]
    assert headings(efficiency(rows[1:], GPU)) == ["ddp on 4 GPUs at batch 32: 10.0 %"]


def test_epochs_of_few_steps_are_in_no_heading() -> None:
    long, short = times(*(times_row(s, **place("ddp", 4, batch)) for s, batch in ((0.9, 512), (0.5, 2_048))))
    shortest = "Shortest epoch of 10 full steps: 0.900 s, ddp on 4 GPUs at batch 512"
    assert headings(epoch_time([long, short], GPU)) == [shortest]
    assert headings(epoch_time([short], GPU)) == ["No epoch has 10 full steps"]
    rows = speedups(*(speedup_row(s, 2.0, **place("ddp", 4, batch)) for s, batch in ((3.5, 512), (3.9, 2_048))))
    assert headings(efficiency(rows, GPU)) == ["ddp on 4 GPUs at batch 512: 87.5 %"]
    assert headings(efficiency(rows[1:], GPU)) == ["No epoch has 10 full steps"]


def test_where_there_are_several_nodes_charts_coverage_tables_and_sheets_say_so() -> None:
    data = h200()
    most = max(row.gpus for row in data.speedup)
    on_nodes = [replace(row, nodes=2 if row.gpus == most else 1) for row in data.speedup]
    assert places(efficiency(on_nodes, GPU)) == [f"{most} GPUs on 2 nodes", "2 GPUs"]
    timed = [replace(row, nodes=2 if row.gpus == most else 1) for row in data.times]
    labels = [label for label, _ in coverage(timed, GPU).rows if "nodes" in label]
    assert labels == [f"dp, {most} GPUs on 2 nodes", f"ddp, {most} GPUs on 2 nodes"]
    for rows, has_column in ((on_nodes, True), ([replace(row, nodes=1) for row in on_nodes], False)):
        assert ("Nodes" in [column.heading for column in point(SpeedupRow, rows, GPU)]) == has_column
    sheets = assignment.sheets(replace(data, times=timed), GPU)
    columns = [column for sheet in sheets for column in sheet.columns if "nodes" in column]
    assert f"{most} GPUs on 2 nodes: time, s" in columns
    assert all(column.startswith(f"{most} GPUs on 2 nodes") for column in columns)


def panel(line: DrawnSeries, linear_y: bool = False) -> Panel:
    return Panel(
        heading="heading", place="Here", quantity="quantity", x_title="x", y_title="y", unit="s", series=[line],
        linear_y=linear_y,
    )  # fmt: skip


def test_the_area_in_which_more_gpus_are_not_worth_it_is_grey_from_zero_to_half() -> None:
    plain = panel(DrawnSeries("ddp", "var(--ddp)", 0, [Marker(32, Figure(70)), Marker(128, Figure(90))]), linear_y=True)
    assert 'opacity="0.15"' not in draw(plain, Frame.around([plain]))
    shaded = replace(plain, shaded_below=50.0)
    frame = Frame.around([shaded])
    assert frame.y.low <= 0 and frame.y.high >= 50
    assert draw(shaded, frame).count('opacity="0.15"') == 1


def test_environments_have_their_own_panels() -> None:
    timed = [times_row(2.13, **place("single", 1, 32, environment=letter)) for letter in "AB"]
    timed.append(absent_row("capped", "no full step", **place("ddp", 4, 65_536, environment=None)))
    data = tables(times=timed, environments=[environment_row("A"), environment_row("B")])
    chart = epoch_time(data.times, SEVERAL)
    assert places(chart) == ["Compute scope in environment A", "Compute scope in environment B"]


def test_nothing_measured_is_nothing_drawn_and_one_point_without_interval_is() -> None:
    assert epoch_time(times(absent_row("missing", None, **place("single", 1, 32))), GPU).pictures == []
    assert efficiency([], GPU).pictures == []
    row = {**times_row(2.13, **place("single", 1, 32)), "epoch_s_low": None, "epoch_s_high": None}
    (picture,) = epoch_time(times(row), GPU).pictures
    assert "NaN" not in picture.svg


def test_too_many_lines_are_thinned_and_said_to_be() -> None:
    rows = [times_row(9 / gpus, **place("ddp", gpus, batch)) for gpus in range(1, 41) for batch in (32, 128)]
    chart = epoch_time(times(*rows), GPU)
    labels = [text for text in texts(chart.pictures[0].svg) if text.startswith("ddp × ")]
    assert len(labels) == 10
    assert {"ddp × 1", "ddp × 40"} <= set(labels)
    assert chart.not_drawn == ["Compute scope: 20 of 80 points are drawn."]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ([10, 50], [10, 50]),
        ([20, 20], [15, 25]),
        ([20, 20, 20], [10, 20, 30]),
        ([0, 1], [0, 10]),
        ([100, 99], [100, 90]),
    ],
)
def test_spread_moves_as_little_as_it_must(wanted: list[float], found: list[float]) -> None:
    assert spread(wanted, gap=10, low=0, high=100) == pytest.approx(found)


def bars(*figures: Figure) -> tuple[list[str], list[float]]:
    """What a logarithmic chart of one line says of its intervals, and how long their bars are, in pixels."""
    line = DrawnSeries("line", "var(--ddp)", 0, [Marker(2**power, figure) for power, figure in enumerate(figures)])
    chart = chart_of_lines("bars", [panel(line)])
    (way,) = paths(chart.pictures[0].svg, stroke="var(--ddp)", stroke_width="1.5")
    return list(chart.not_drawn), [abs(float(length)) for length in re.findall(r"l0,(-?[\d.]+)", way)]


def test_bars_are_as_long_as_their_intervals() -> None:
    not_drawn, (first, second) = bars(Figure.of(10, 5, 20), Figure.of(20, 10, 80), Figure(20))
    assert not_drawn == []
    assert second == pytest.approx(first * 3 / 2, rel=0.01)


def test_an_interval_that_goes_far_beyond_the_lines_does_not_flatten_them() -> None:
    not_drawn, (near, far) = bars(Figure.of(10, 5, 20), Figure.of(20, 10, 1e9), Figure(20))
    assert not_drawn == ["Here: intervals reach beyond the axis, and their bars its edge: line at 2."]
    assert far < HEIGHT and near > HEIGHT / 8
    not_drawn, _ = bars(Figure.of(10, -5, 20), Figure.of(20, 10, 80), Figure.of(20, 1e-9, 30))
    assert not_drawn == ["Here: intervals reach beyond the axis, and their bars its edge: line at 1, 4."]

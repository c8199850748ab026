"""The figures: what is drawn, what is said of it, and that nothing covers anything."""

import re
from dataclasses import replace
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree

import pytest
from page_tables import absent_row, arm_row, environment_row, epoch_row, h200, tables, times_row

from dpscale.formulas.figure import Figure
from dpscale.present import training_charts
from dpscale.present.charts import timing
from dpscale.present.charts.axes import HEIGHT, Frame
from dpscale.present.charts.chart import Chart, chart_of_lines
from dpscale.present.charts.lines import draw, spread
from dpscale.present.charts.panel import Marker, Panel, Series
from dpscale.present.charts.vega import LABEL_X
from dpscale.present.handin import assignment
from dpscale.present.study.coverage import coverage
from dpscale.present.view import point
from dpscale.present.words import Terms

# To draw charts takes longest of all.
pytestmark = pytest.mark.slow

GPU = Terms(device="GPU", several_environments=False, synthetic=False)
SVG = "{http://www.w3.org/2000/svg}"


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def panel(line: Series, linear_y: bool = False) -> Panel:
    return Panel(
        heading="heading", place="Here", quantity="quantity", x_title="x", y_title="y", unit="s", series=[line],
        linear_y=linear_y,
    )  # fmt: skip


def place(strategy: str, gpus: int, batch: int, **more: Any) -> dict[str, Any]:
    return {"strategy": strategy, "gpus": gpus, "batch": batch, **more}


def test_a_panel_of_several_nodes_says_so() -> None:
    speedup = h200()["speedup"]
    most = speedup["gpus"].max()
    speedup["nodes"] = (speedup["gpus"] == most).map({True: 2, False: 1})
    captions = [chart.subtitle for chart in timing.efficiency(speedup, GPU).pictures]
    assert f"{most} GPUs on 2 nodes" in captions[0]
    assert not [caption for caption in captions[1:] if "nodes" in caption]


def test_coverage_and_tables_to_hand_in_say_where_there_are_several_nodes() -> None:
    tables = h200()
    most = max(row.gpus for row in tables.times)
    tables = replace(tables, times=[replace(row, nodes=1 + (row.gpus == most)) for row in tables.times])
    labels = [label for label, _ in coverage(tables.times, GPU).rows]
    assert [label for label in labels if "nodes" in label] == [
        f"dp, {most} GPUs on 2 nodes",
        f"ddp, {most} GPUs on 2 nodes",
    ]
    headings = [heading for sheet in assignment.sheets(tables, GPU) for heading in sheet.columns]
    assert f"{most} GPUs on 2 nodes: time, s" in headings
    assert {f"{most} GPUs" in heading for heading in headings if "nodes" in heading} == {True}


def test_a_table_shows_nodes_only_where_a_configuration_has_several() -> None:
    speedup = h200()["speedup"]
    for nodes in (1, 2):
        speedup["nodes"] = nodes
        assert ("Nodes" in [column.heading for column in point(speedup, GPU)]) == (nodes > 1)


def test_epoch_time_has_a_panel_a_scope_and_a_label_a_line() -> None:
    figure = timing.epoch_time(h200()["times"], GPU)
    assert [chart.subtitle.split(".")[0] for chart in figure.pictures] == ["Compute scope", "End-to-end scope"]
    assert {"single × 1", "dp × 2", "dp × 4", "ddp × 2", "ddp × 4", "OOM", "capped"} <= set(
        texts(figure.pictures[0].svg)
    )
    assert "Epoch time in s" in figure.pictures[0].subtitle


def test_efficiency_has_a_panel_a_number_of_gpus_with_and_without_loading() -> None:
    figure = timing.efficiency(h200()["speedup"], GPU)
    assert [chart.subtitle.split(".")[0] for chart in figure.pictures] == ["4 GPUs", "2 GPUs"]
    assert {"100 %", "dp", "ddp", "dp, loading", "ddp, loading"} <= set(texts(figure.pictures[0].svg))


def test_the_area_in_which_more_gpus_are_not_worth_it_is_grey_from_zero_to_half() -> None:
    line = Series("ddp", "var(--ddp)", 0, [Marker(32, Figure(70.0)), Marker(128, Figure(90.0))])
    plain = panel(line, linear_y=True)
    assert 'opacity="0.15"' not in draw(plain, Frame.around([plain]))
    shaded = replace(plain, shaded_below=50.0)
    frame = Frame.around([shaded])
    assert frame.y.low <= 0 and frame.y.high >= 50
    assert draw(shaded, frame).count('opacity="0.15"') == 1


def test_svg_is_a_named_image_with_its_numbers_in_words() -> None:
    svg = timing.epoch_time(h200()["times"], GPU).pictures[0].svg
    root = ElementTree.fromstring(svg)
    by_id = {element.get("id"): element for element in root.iter() if element.get("id")}
    title, description = by_id[root.get("aria-labelledby")], by_id[root.get("aria-describedby")]
    assert root.get("role") == "img"
    assert (title.tag, description.tag) == (f"{SVG}title", f"{SVG}desc")
    assert "single × 1: 7.74 s at 32, 2.13 s at 8,192, OOM at 32,768." in (description.text or "")


def test_svg_has_neither_styles_nor_fixed_colours() -> None:
    svg = timing.epoch_time(h200()["times"], GPU).pictures[0].svg
    assert "style=" not in svg
    assert set(re.findall(r'(?:fill|stroke)="([^"]+)"', svg)) <= {
        "none", "currentColor", "var(--quiet)", "var(--grid)", "var(--single)", "var(--dp)", "var(--ddp)",
    }  # fmt: skip


def test_labels_of_a_panel_do_not_touch() -> None:
    for chart in timing.epoch_time(h200()["times"], GPU).pictures:
        places = re.findall(rf'<text[^>]* x="({LABEL_X})" y="([\d.]+)"', chart.svg)
        heights = sorted(float(y) for _, y in places)
        assert len(heights) == 7
        assert min(after - before for before, after in pairwise(heights)) > 13.8


def test_environments_have_their_own_panels() -> None:
    times = [times_row(2.13, **place("single", 1, 32, environment=letter)) for letter in "AB"]
    times.append(absent_row("capped", "no full step", **place("ddp", 4, 65_536, environment=None)))
    data = tables(times=times, environments=[environment_row("A"), environment_row("B")])
    several = Terms(device="GPU", several_environments=True, synthetic=False)
    places = [chart.subtitle.split(".")[0] for chart in timing.epoch_time(data["times"], several).pictures]
    assert places == ["Compute scope in environment A", "Compute scope in environment B"]


def test_one_point_without_interval_can_be_drawn() -> None:
    row = {**times_row(2.13, **place("single", 1, 32)), "epoch_s_low": None, "epoch_s_high": None}
    (chart,) = timing.epoch_time(tables(times=[row])["times"], GPU).pictures
    assert "NaN" not in chart.svg


def test_nothing_measured_is_nothing_drawn() -> None:
    row = absent_row("missing", None, **place("single", 1, 32))
    assert timing.epoch_time(tables(times=[row])["times"], GPU).pictures == []
    assert timing.efficiency(tables()["speedup"], GPU).pictures == []


def test_too_many_lines_are_thinned_and_said_to_be() -> None:
    rows = [times_row(9 / gpus, **place("ddp", gpus, batch)) for gpus in range(1, 41) for batch in (32, 128)]
    figure = timing.epoch_time(tables(times=rows)["times"], GPU)
    labels = [text for text in texts(figure.pictures[0].svg) if text.startswith("ddp × ")]
    assert len(labels) == 10
    assert {"ddp × 1", "ddp × 40"} <= set(labels)
    assert figure.not_drawn == ["Compute scope: 20 of 80 points are drawn."]


@pytest.mark.parametrize(
    ("wanted", "places"),
    [
        ([10, 50], [10, 50]),
        ([20, 20], [15, 25]),
        ([20, 20, 20], [10, 20, 30]),
        ([0, 1], [0, 10]),
        ([100, 99], [100, 90]),
    ],
)
def test_spread_moves_as_little_as_it_must(wanted: list[float], places: list[float]) -> None:
    assert spread(wanted, gap=10, low=0, high=100) == pytest.approx(places)


def curves(*more: dict[str, Any]) -> list[dict[str, Any]]:
    rows = [epoch_row("small", seed, epoch, 0.3 + epoch / 10, 32) for seed in (1, 2, 3) for epoch in (1, 2, 3)]
    return [*rows, *(epoch_row("large", seed, epoch, seed / 10) for seed in (1, 2) for epoch in (1, 2)), *more]


def accuracy(rows: list[dict[str, Any]], baseline: str | None = "small", target: float = 0.65) -> Chart:
    made = tables(training=rows)
    return training_charts.test_accuracy(made["training_curves"], made["training"], baseline, target, GPU)


def test_a_dot_stands_for_every_seed_where_its_line_ends() -> None:
    (chart,) = accuracy(curves()).pictures
    assert "a dot for each seed after the last epoch" in chart.subtitle
    assert dots(chart.svg) == [2, 3]
    fewer = [row for row in curves() if (row["arm"], row["seed"]) != ("small", 3)]
    assert dots(accuracy(fewer).pictures[0].svg) == [2, 2]


def dots(svg: str) -> list[int]:
    """How many open circles there are of each colour."""
    circles = [path for path in ElementTree.fromstring(svg).iter(f"{SVG}path") if not path.get("fill")]
    return sorted(len(re.findall("M[^M]*a", path.get("d", ""))) for path in circles if "a" in path.get("d", ""))


def test_the_target_has_a_line_at_its_accuracy() -> None:
    (chart,) = accuracy(curves()).pictures
    assert "target" in texts(chart.svg)
    (loss,) = training_charts.training_loss(tables(training=curves())["training_curves"], "small", GPU).pictures
    assert "target" not in texts(loss.svg)
    # The axis reaches so far that the target is on it.
    assert "80" in texts(accuracy(curves(), target=0.95).pictures[0].svg)
    assert "80" not in texts(chart.svg)


def test_curves_have_a_panel_a_global_batch_each_with_the_baseline() -> None:
    other = [epoch_row("huge", 1, epoch, 0.1, 2048) for epoch in (1, 2)]
    figure = accuracy(curves(*other))
    places = [chart.subtitle.split(".")[0] for chart in figure.pictures]
    assert places == ["Global batch 2,048", "Global batch 8,192"]
    assert {"small", "large"} <= set(texts(figure.pictures[0].svg))
    assert {"small", "huge"} <= set(texts(figure.pictures[1].svg))
    assert "large: 15.0 % at 1, 15.0 % at 2." in figure.pictures[0].svg


def test_a_panel_has_what_its_arms_are_compared_with() -> None:
    tuned = [
        epoch_row(name, 1, epoch, 0.5, batch)
        for name, batch in (("small-tuned", 32), ("tuned", 512))
        for epoch in (1, 2)
    ]
    summary = [arm_row("large", 0.5), arm_row("tuned", 0.5, compared_with="small-tuned")]
    made = tables(training=curves(*tuned), training_summary=summary)
    figure = training_charts.test_accuracy(made["training_curves"], made["training"], "small", 0.65, GPU)
    drawn = [{"small", "small-tuned", "large", "tuned"} & set(texts(chart.svg)) for chart in figure.pictures]
    assert drawn == [{"small", "small-tuned"}, {"small", "small-tuned", "large", "tuned"}]


def test_bands_hold_all_seeds() -> None:
    (chart,) = training_charts.training_loss(tables(training=curves())["training_curves"], "small", GPU).pictures
    fills = [
        e
        for e in ElementTree.fromstring(chart.svg).iter(f"{SVG}path")
        if e.get("fill-opacity", "1") != "1" or e.get("opacity", "1") != "1"
    ]
    assert len(fills) == 2
    assert "NaN" not in chart.svg


def test_a_line_ends_where_the_first_seed_diverged() -> None:
    wild = [epoch_row("wild", 1, 1, 0.2), epoch_row("wild", 1, 2, None)]
    wild += [epoch_row("wild", 2, epoch, 0.2) for epoch in (1, 2, 3)]
    (chart,) = accuracy(curves(*wild)).pictures
    assert "wild: 20.0 % at 1, diverged at 2." in chart.svg
    assert "diverged" in texts(chart.svg)


def test_arms_that_diverged_at_once_are_not_drawn() -> None:
    rows = [epoch_row("wild", 1, 1, None)]
    assert "wild" not in str(accuracy(curves(*rows)))
    assert accuracy([], None).pictures == []


def bars(*figures: Figure) -> tuple[list[str], list[float]]:
    """What a logarithmic figure of one line says of its intervals, and how long their bars are, in pixels."""
    line = Series("line", "var(--ddp)", 0, [Marker(2**place, figure) for place, figure in enumerate(figures)])
    drawn = chart_of_lines("bars", [panel(line)])
    (path,) = re.findall(r'<path stroke="var\(--ddp\)" stroke-width="1.5" d="([^"]+)"', drawn.pictures[0].svg)
    return list(drawn.not_drawn), [abs(float(length)) for length in re.findall(r"l0,(-?[\d.]+)", path)]


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

"""The figures of steps, estimates and the forecast: what is drawn, and what is said of what cannot be."""

import re
from typing import Any
from xml.etree import ElementTree

import pytest
from page_tables import (
    around,
    bandwidth_row,
    collective_row,
    empty,
    estimates_row,
    extrapolated_row,
    h200,
    h200_with_steps,
    held_out_row,
    speedup_row,
    step_row,
    table,
    tables,
)

from dpscale.present.charts import communication as communication_charts
from dpscale.present.charts import timing as timing_charts
from dpscale.present.charts.axes import WIDTH
from dpscale.present.charts.chart import Picture
from dpscale.present.study import views
from dpscale.present.words import Terms, rows

# To draw charts takes longest of all.
pytestmark = pytest.mark.slow

GPU = Terms(device="GPU", several_environments=False, synthetic=False)
SVG = "{http://www.w3.org/2000/svg}"
AT: dict[str, Any] = {"strategy": "ddp", "gpus": 4}


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def description(svg: str) -> str:
    return next(ElementTree.fromstring(svg).iter(f"{SVG}desc")).text or ""


def test_parts_of_a_step_are_shares_with_its_time_beside_them() -> None:
    rows = [step_row(2, 3, 0.5, 4.5, batch=32, **AT), step_row(90, 5, 4, 1, batch=2048, **AT)]
    (chart,) = communication_charts.steps(table("steps", rows), GPU).pictures
    assert description(chart.svg) == (
        "32: compute 20.0 %, communication 30.0 %, copies 5.00 %, idle 45.0 % of 10.0 ms. "
        "2,048: compute 90.0 %, communication 5.00 %, copies 4.00 %, idle 1.00 % of 100 ms."
    )
    assert {"compute", "communication", "copies", "idle", "10.0 ms", "100 ms", "idle 45.0 %"} <= set(texts(chart.svg))
    widths = [float(width) for width in re.findall(r"h([\d.]+)v", chart.svg)]
    shares = [20, 30, 5, 45, 90]
    assert all(any(width == pytest.approx(WIDTH * share / 100, abs=0.1) for width in widths) for share in shares)


def test_steps_of_other_devices_and_phases_are_left_to_the_table() -> None:
    rows = [step_row(2, 3, 0, 5, batch=32, device=1, **AT), step_row(2, 3, 0, 5, batch=32, phase="forward", **AT)]
    assert communication_charts.steps(table("steps", rows), GPU).pictures == []


def test_too_many_bars_are_thinned_and_said_to_be() -> None:
    rows = [step_row(2, 3, 0, 5, batch=batch, **AT) for batch in range(1, 31)]
    figure = communication_charts.steps(table("steps", rows), GPU)
    assert len(re.findall("10.0 ms<", figure.pictures[0].svg)) == 10
    assert figure.not_drawn == ["ddp on 4 GPUs: 10 of 30 bars are drawn."]


def test_estimates_stand_in_one_panel_a_configuration() -> None:
    figure = communication_charts.estimates(h200_with_steps()["communication"], GPU)
    places = [chart.subtitle.split(".")[0] for chart in figure.pictures]
    assert places == ["dp on 2 GPUs", "dp on 4 GPUs", "ddp on 2 GPUs", "ddp on 4 GPUs"]
    assert {"E1 subtraction", "E2 ablation", "E4 logger", "E5 alone", "zero"} <= set(texts(figure.pictures[3].svg))
    assert "E2 ablation" not in texts(figure.pictures[0].svg)


def test_estimates_are_dots_beside_each_other_on_an_axis_with_zero() -> None:
    rows = [
        estimates_row(0.1, ablation_step_s=-0.5, profiler_exposed_step_s=0.4, batch=batch, **AT) for batch in (32, 2048)
    ]
    (chart,) = communication_charts.estimates(table("communication", rows), GPU).pictures
    assert "E2 ablation: −0.500 ms at 32, −0.500 ms at 2,048." in description(chart.svg)
    assert {"0", "32", "2,048"} <= set(texts(chart.svg))
    # No line joins the dots: of a colour there are intervals, upright, and filled marks.
    assert re.findall(r'<path fill="none" stroke="var\(--dp\)"[^>]*stroke-width="1.8"', chart.svg) == []
    drawn = ElementTree.fromstring(chart.svg)
    places = {
        path.get("fill"): [float(x) for x in re.findall(r"M(-?[\d.]+),", path.get("d", ""))]
        for path in drawn.iter(f"{SVG}path")
        if path.get("fill") in ("var(--dp)", "var(--single)", "var(--ddp)")
    }
    (left, _), (middle, _), (right, _) = (places[colour] for colour in ("var(--dp)", "var(--single)", "var(--ddp)"))
    assert left < middle < right
    assert all(0 < x < WIDTH for xs in places.values() for x in xs)


def test_an_interval_that_reaches_far_is_cut_at_the_axis_and_said_to_be() -> None:
    wide = {**estimates_row(0.1, ablation_step_s=0.2, batch=32, **AT), "ablation_step_s_high": 9.0}
    figure = communication_charts.estimates(table("communication", [wide]), GPU)
    assert figure.not_drawn == [
        "ddp on 4 GPUs: intervals reach beyond the axis, and their bars its edge: E2 ablation at 32."
    ]
    near = estimates_row(0.1, ablation_step_s=0.2, batch=32, **AT)
    assert communication_charts.estimates(table("communication", [near]), GPU).not_drawn == []


def test_prediction_is_drawn_beside_no_prediction_at_all() -> None:
    (chart,) = communication_charts.held_out(table("forecast", [held_out_row(512, -0.01)]), GPU).pictures
    assert description(chart.svg) == "predicted: −1.00 % at 512. unchanged: −2.00 % at 512."
    (alone,) = communication_charts.held_out(table("forecast", [held_out_row(512, -0.01, None)]), GPU).pictures
    assert "unchanged" not in texts(alone.svg)


def forecast(*measured: dict[str, Any], images: int = 50_000) -> Picture:
    ahead = [extrapolated_row(gpus, 32, 0.8, gpus_at_most=images // 32) for gpus in (8, 64, 1024)]
    # A row without a batch makes the column one of floats.
    ahead.append({**ahead[0], "batch_per_gpu": None, "status": "missing"})
    speedup = table("speedup", list(measured))
    (chart,) = communication_charts.forecast(table("forecast", ahead), speedup, images, GPU).pictures
    return chart


def test_forecast_is_a_dashed_line_and_measurements_are_marks() -> None:
    svg = forecast(*(speedup_row(0.9 * gpus, 2.0, batch=32, strategy="ddp", gpus=gpus) for gpus in (2, 4))).svg
    assert description(svg) == "b = 32: 100 % at 1, 80.0 % at 1,024."
    assert {"forecast", "b = 32"} <= set(texts(svg))
    (squares,) = re.findall(r'<path d="([^"]+)" fill="var\(--single\)"/>', svg)
    assert squares.count("M") == 3
    (line,) = re.findall(r'<path d="([^"]+)" stroke="var\(--single\)" stroke-width="1.8" stroke-dasharray="7,3"/>', svg)
    assert line.count("l") == 5


def test_forecast_without_measurement_starts_from_one_device() -> None:
    other = speedup_row(1.9, 2.0, batch=32, strategy="dp", gpus=2)
    end_to_end = speedup_row(1.9, 2.0, batch=32, strategy="ddp", gpus=2, scope="end_to_end")
    assert forecast() == forecast(other, end_to_end)


def test_forecast_says_where_a_step_takes_more_images_than_there_are() -> None:
    assert "images of an epoch" not in forecast(images=1024 * 32).subtitle
    sentence = (
        "The 32,767 images of an epoch make a step on at most 1,023 GPUs at b = 32: more suppose a larger dataset"
    )
    assert forecast(images=1024 * 32 - 1).subtitle.endswith(sentence)


def test_forecast_says_from_where_on_it_is_a_scenario() -> None:
    assert "From 64 GPUs on a scenario: links between nodes were not measured" in forecast().subtitle
    inside = table("forecast", [extrapolated_row(8, 32, 0.8)])
    (chart,) = communication_charts.forecast(inside, table("speedup", []), 50_000, GPU).pictures
    assert "scenario" not in chart.subtitle


def test_bandwidth_that_is_not_resolvable_is_said_to_be() -> None:
    data = h200_with_steps()
    rows = [bandwidth_row(0.1, False, batch=batch, **AT) for batch in (32, 512)]
    figure = timing_charts.bus_bandwidth(data["collectives"], table("bandwidth", rows), GPU)
    sentences = [sentence for sentence in figure.not_drawn if "resolvable" in sentence]
    assert sentences == ["4 GPUs: inferred bandwidth is not resolvable with ddp at batch 32, ddp at batch 512."]
    assert "ddp, inferred" not in texts(figure.pictures[1].svg)


def test_inferred_bandwidth_stands_beside_the_links() -> None:
    data = h200_with_steps()
    figure = timing_charts.bus_bandwidth(data["collectives"], data["bandwidth"], GPU)
    labels = {"ddp, inferred", "ddp, profiler", "dp, inferred", "dp, profiler", "allreduce"}
    assert all(labels <= set(texts(chart.svg)) for chart in figure.pictures)
    assert "43,648" not in "".join(texts(figure.pictures[0].svg))
    assert "at 43,648" in description(figure.pictures[0].svg)
    alone = timing_charts.bus_bandwidth(data["collectives"], data["bandwidth"].head(0), GPU)
    assert not labels & set(texts(alone.pictures[0].svg)) - {"allreduce"}


@pytest.mark.parametrize("name", ["steps", "estimates", "held_out", "forecast"])
def test_nothing_measured_is_nothing_drawn(name: str) -> None:
    none = empty()
    drawn = {
        "steps": lambda: communication_charts.steps(none["steps"], GPU),
        "estimates": lambda: communication_charts.estimates(none["communication"], GPU),
        "held_out": lambda: communication_charts.held_out(none["forecast"], GPU),
        "forecast": lambda: communication_charts.forecast(none["forecast"], none["speedup"], 50_000, GPU),
    }[name]()
    assert (drawn.pictures, drawn.not_drawn) == ([], [])


def test_panels_beyond_the_eighth_are_named_in_one_sentence() -> None:
    rows = [estimates_row(ablation_step_s=-0.5, strategy="ddp", gpus=gpus, batch=32) for gpus in range(2, 30)]
    figure = communication_charts.estimates(table("communication", rows), GPU)
    assert len(figure.pictures) == 8
    assert figure.not_drawn[0].startswith("Not drawn: ddp on 10 GPUs, ddp on 11 GPUs, ")
    assert figure.not_drawn[0].endswith(" and 8 more.")


def rung_row(order: int, part_ms: float, reached_ms: float, **more: Any) -> dict[str, Any]:
    names = ["alone", "threads", "scattered", "training"]
    adds = ["", "threads, contention", "inputs, outputs", "replicate, reduce"][order] or None
    return {
        "strategy": "dp", "gpus": 2, "batch_per_gpu": 32, "global_batch": 64, "environment": "A",
        "rung": names[order], "order": order, "adds": adds, "share": part_ms / 40, "step_s": reached_ms * 1e-3,
        "headline_step_s": 0.04, "part_of_headline_s": part_ms * 1e-3, "reached_of_headline_s": reached_ms * 1e-3,
        "beyond_alone_s": (reached_ms - 8) * 1e-3, **more,
    }  # fmt: skip


LADDER = [rung_row(0, 8, 8), rung_row(1, 26, 34), rung_row(2, -2, 32), rung_row(3, 8, 40)]


def test_a_ladder_goes_from_one_alone_to_the_headline_step() -> None:
    (chart,) = communication_charts.ladders(table("ladder", LADDER), GPU).pictures
    assert chart.heading.replace("\u00a0", " ") == (
        "dp on 2 GPUs at batch 32: 32.0 ms more than 1 GPU alone; the most is 26.0 ms, threads, contention"
    )
    assert description(chart.svg) == (
        "1 GPU alone: 8.00 ms, 20.0 %; threads, contention: 26.0 ms, 65.0 %; inputs, outputs: −2.00 ms, −5.00 %; "
        "replicate, reduce: 8.00 ms, 20.0 %."
    )
    starts = [float(x) for x in re.findall(r"M([\d.]+),[\d.]+h[\d.]+v", chart.svg)]
    widths = [float(width) for width in re.findall(r"h([\d.]+)v", chart.svg)]
    scale = WIDTH / (1.02 * 40)
    assert widths == pytest.approx([8 * scale, 26 * scale, 2 * scale, 8 * scale], abs=0.1)
    assert starts == pytest.approx([0, 8 * scale, 32 * scale, 32 * scale], abs=0.1)
    assert chart.svg.count('fill="none"') >= 1, "what takes time away is an outline"


def test_a_ladder_without_a_headline_step_is_left_to_the_table() -> None:
    rows = [{**row, "part_of_headline_s": None} for row in LADDER]
    assert communication_charts.ladders(table("ladder", rows), GPU).pictures == []


def test_a_step_that_takes_no_longer_than_alone_has_no_largest_part() -> None:
    rows = [rung_row(0, 40, 40), rung_row(1, 0, 40), rung_row(2, 0, 40), rung_row(3, -1, 39, beyond_alone_s=-0.001)]
    (chart,) = communication_charts.ladders(table("ladder", rows), GPU).pictures
    assert chart.heading.replace("\u00a0", " ") == "dp on 2 GPUs at batch 32: 1.00 ms less than 1 GPU alone"


def test_steps_on_more_devices_stand_beside_the_step_of_one() -> None:
    data = h200()
    figure = communication_charts.steps_beside_one(data["times"], data["communication"], GPU)
    places = [chart.subtitle.split(".")[0] for chart in figure.pictures]
    assert places == ["Batch 32 per GPU", "Batch 128 per GPU", "Batch 512 per GPU"], "those with steps enough"
    first = figure.pictures[0]
    compute = data["times"].query("scope == 'compute' & batch_per_gpu == 32")
    steps = {(row["strategy"], row["gpus"]): 1e3 * row["step_s"] for row in rows(compute)}
    assert first.heading.replace("\u00a0", " ") == (
        f"A step takes {steps['single', 1]:.2f} ms on 1 GPU, and {steps['dp', 4]:.1f} ms with dp on 4 GPUs"
    )
    assert [text.split(":")[0] for text in description(first.svg).rstrip(".").split("; ")] == [
        "single on 1 GPU", "dp on 2 GPUs", "dp on 4 GPUs", "ddp on 2 GPUs", "ddp on 4 GPUs",
    ]  # fmt: skip
    assert f"ddp on 4 GPUs: {steps['ddp', 4]:.2f} ms" in description(first.svg)


def test_what_a_step_is_longer_has_its_sign_and_its_interval() -> None:
    data = h200()
    ddp = (data["communication"]["strategy"] == "ddp") & (data["communication"]["batch_per_gpu"] == 32)
    for more_s, text in ((0.002, ", +2.000 [1.980, 2.020]"), (-0.0005, ", −0.500 [−0.505, −0.495]")):
        for end, value in around("communication_step_s", more_s).items():
            data["communication"].loc[ddp, end] = value
        shown = description(
            communication_charts.steps_beside_one(data["times"], data["communication"], GPU).pictures[0].svg
        )
        assert shown.count(text) == 2
    data["communication"].loc[ddp, "communication_step_s"] = None
    shown = description(
        communication_charts.steps_beside_one(data["times"], data["communication"], GPU).pictures[0].svg
    )
    assert re.search(r"ddp on 4 GPUs: [\d.]+ ms\.$", shown)


def test_without_one_device_no_step_stands_beside_it() -> None:
    data = h200()
    several = data["times"][data["times"]["gpus"] > 1]
    assert communication_charts.steps_beside_one(several, data["communication"], GPU).pictures == []


@pytest.mark.parametrize(("state", "is_drawn"), [("ok", True), ("distorts", False)])
def test_a_profiler_that_distorts_is_left_out(state: str, is_drawn: bool) -> None:
    row = {**estimates_row(0.1, profiler_exposed_step_s=0.5, batch=32, **AT), "profiler": state}
    figure = communication_charts.estimates(table("communication", [row]), GPU)
    assert ("E3 exposed" in texts(figure.pictures[0].svg)) == is_drawn
    step = {**step_row(3, 1, 0, 6, batch=32, **AT), "profiler": state}
    assert bool(communication_charts.steps(table("steps", [step]), GPU).pictures) == is_drawn
    assert bool(views.steps(tables(steps=[step]).steps, GPU).cells) == is_drawn


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ([(3, 1), (3, 1)], "3 runs on 1 server"),
        ([(1, 1), (4, 2)], "1 to 4 runs on 1 to 2 servers"),
        ([(3, 3)], "3 runs on 3 servers"),
    ],
)
def test_tables_of_collectives_say_on_how_many_servers_they_ran(counts: list[tuple[int, int]], said: str) -> None:
    for use, view in (("", views.bus_bandwidth), ("whole gradient", views.collectives)):
        timed = [
            {**collective_row("allreduce", 4, 2**power, 9.0), "runs": runs, "servers": servers, "use": use}
            for power, (runs, servers) in enumerate(counts)
        ]
        assert view(tables(collectives=timed).collectives, GPU).caption.endswith(f"with nothing else running: {said}")

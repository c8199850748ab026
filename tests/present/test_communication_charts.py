"""Charts of steps, estimates and bandwidth: what is drawn, and what is said of what cannot be."""

import re
from dataclasses import replace
from typing import Any

import pytest
from page_tables import (
    GPU,
    around,
    bandwidth_row,
    collective_row,
    estimates_row,
    h200,
    h200_with_steps,
    step_row,
    tables,
)

from dpscale.formulas.figure import UNKNOWN, Figure
from dpscale.present.charts.axes import WIDTH
from dpscale.present.charts.chart import Chart
from dpscale.present.charts.communication import bus_bandwidth, estimates, ladders, steps, steps_beside_one
from dpscale.present.study import views
from dpscale.tables.communication import StepsRow
from pictures import description, headings, paths, places, starts, texts

# To draw charts takes longest of all.
pytestmark = pytest.mark.slow

AT: dict[str, Any] = {"strategy": "ddp", "gpus": 4}


def profiled(*rows: dict[str, Any]) -> list[StepsRow]:
    return list(tables(steps=list(rows)).steps)


def estimated(*rows: dict[str, Any]) -> Chart:
    return estimates(tables(communication=list(rows)).communication, GPU)


def widths(svg: str) -> list[float]:
    return [float(width) for width in re.findall(r"h([\d.]+)v", svg)]


def test_parts_of_a_step_are_shares_with_its_time_beside_them() -> None:
    rows = profiled(step_row(90, 5, 4, 1, batch=2048, **AT), step_row(2, 3, 0.5, 4.5, batch=32, **AT))
    chart = steps(rows, GPU)
    svg = chart.pictures[0].svg
    assert headings(chart) == [
        "ddp on 4 GPUs: at batch 32 idle is 45.0 % of a profiled step, at 2,048 compute is 90.0 %"
    ]
    assert headings(steps(rows[1:], GPU)) == ["ddp on 4 GPUs: at batch 32 idle is 45.0 % of a profiled step"]
    assert description(svg) == (
        "32: compute 20.0 %, communication 30.0 %, copies 5.00 %, idle 45.0 % of 10.0 ms. "
        "2,048: compute 90.0 %, communication 5.00 %, copies 4.00 %, idle 1.00 % of 100 ms."
    )
    assert {"compute", "communication", "copies", "idle", "10.0 ms", "100 ms", "idle 45.0 %"} <= set(texts(svg))
    for share in (20, 30, 5, 45, 90):
        assert any(width == pytest.approx(WIDTH * share / 100, abs=0.1) for width in widths(svg))


def test_steps_of_other_devices_are_left_to_the_table() -> None:
    assert steps(profiled(step_row(2, 3, 0, 5, batch=32, device=1, **AT)), GPU).pictures == []


def test_too_many_bars_are_thinned_and_said_to_be() -> None:
    chart = steps(profiled(*(step_row(2, 3, 0, 5, batch=batch, **AT) for batch in range(1, 31))), GPU)
    assert len(re.findall("10.0 ms<", chart.pictures[0].svg)) == 10
    assert chart.not_drawn == ["ddp on 4 GPUs: 10 of 30 bars are drawn."]


@pytest.mark.parametrize(("state", "is_drawn"), [("ok", True), ("distorts", False)])
def test_a_profiler_that_distorts_is_left_out(state: str, is_drawn: bool) -> None:
    found = {"communication_step_s": 0.3, "profiler_step_s": 5.0, "profiler_exposed_step_s": 0.5}
    chart = estimated({**estimates_row(0.1, batch=32, **found, **AT), "profiler": state})
    assert ("E3 exposed" in texts(chart.pictures[0].svg)) == is_drawn
    assert ("5.00 ms (E3 all)" in headings(chart)[0]) == is_drawn
    rows = profiled({**step_row(3, 1, 0, 6, batch=32, **AT), "profiler": state})
    assert bool(steps(rows, GPU).pictures) == bool(views.SHOWN["steps"].view(rows, GPU).cells) == is_drawn


def test_estimates_stand_in_one_panel_a_configuration() -> None:
    chart = estimates(h200_with_steps().communication, GPU)
    assert places(chart) == ["dp on 2 GPUs", "dp on 4 GPUs", "ddp on 2 GPUs", "ddp on 4 GPUs"]
    assert {"E1 subtraction", "E2 ablation", "E4 logger", "E5 alone", "zero"} <= set(texts(chart.pictures[3].svg))
    assert "E2 ablation" not in texts(chart.pictures[0].svg)


def test_estimates_are_dots_beside_each_other_on_an_axis_with_zero() -> None:
    found = {"ablation_step_s": -0.5, "profiler_exposed_step_s": 0.4}
    (picture,) = estimated(*(estimates_row(0.1, batch=batch, **found, **AT) for batch in (32, 2048))).pictures
    assert "E2 ablation: −0.500 ms at 32, −0.500 ms at 2,048." in description(picture.svg)
    assert {"0", "32", "2,048"} <= set(texts(picture.svg))
    # No line joins the dots: of a colour there are intervals, upright, and filled marks.
    assert paths(picture.svg, stroke="var(--dp)", stroke_width="1.8") == []
    drawn = [starts(paths(picture.svg, fill=f"var(--{name})")[0]) for name in ("dp", "single", "ddp")]
    (left, _), (middle, _), (right, _) = drawn
    assert left < middle < right
    assert all(0 < x < WIDTH for xs in drawn for x in xs)


def test_estimates_are_named_where_they_are_furthest_apart() -> None:
    near = estimates_row(communication_step_s=0.30, batch=512, **AT)
    far = estimates_row(communication_step_s=27.0, ablation_step_s=-1.0, batch=32, **AT)
    assert headings(estimated(near, far)) == [
        "ddp on 4 GPUs at batch 32: 0.270 ms (E5 alone) to 27.0 ms (E1 subtraction) per step"
    ]
    assert headings(estimated(near)) == [
        "ddp on 4 GPUs at batch 512: 0.270 ms (E5 alone) to 0.300 ms (E1 subtraction) per step"
    ]


def test_estimates_that_may_be_zero_are_not_named() -> None:
    assert headings(estimated(estimates_row(2.0, batch=32, **AT))) == [
        "ddp on 4 GPUs: no estimate has an interval above zero"
    ]
    assert headings(estimated(estimates_row(batch=32, **AT))) == [
        "ddp on 4 GPUs at batch 32: 0.270 ms (E5 alone) per step"
    ]


def test_an_interval_that_reaches_far_is_cut_at_the_axis_and_said_to_be() -> None:
    near = estimates_row(0.1, ablation_step_s=0.2, batch=32, **AT)
    assert estimated({**near, "ablation_step_s_high": 9.0}).not_drawn == [
        "ddp on 4 GPUs: intervals reach beyond the axis, and their bars its edge: E2 ablation at 32."
    ]
    assert estimated(near).not_drawn == []


def test_panels_beyond_the_eighth_are_named_in_one_sentence() -> None:
    rows = [estimates_row(ablation_step_s=-0.5, strategy="ddp", gpus=gpus, batch=32) for gpus in range(2, 30)]
    chart = estimated(*rows)
    assert len(chart.pictures) == 8
    assert chart.not_drawn[0].startswith("Not drawn: ddp on 10 GPUs, ddp on 11 GPUs, ")
    assert chart.not_drawn[0].endswith(" and 8 more.")


def test_bandwidth_sets_the_best_step_beside_the_links() -> None:
    alone = [collective_row("reduce", 4, 2**30, 371.0), collective_row("allreduce", 4, 2**20, 9.0)]
    rows = [bandwidth_row(0.1, batch=512, **AT), bandwidth_row(10.0, batch=32, **AT)]
    known = [{**row, **around("bus_bandwidth_gb_s", 302.0)} for row in rows]
    for bandwidth, heading in (
        (rows, "4 GPUs: 371 GB/s at most, with reduce of 1,048,576 KiB"),
        (known, "4 GPUs: inferred bandwidth is at most 16.8 GB/s (ddp at batch 512), allreduce alone reaches 302 GB/s"),
    ):
        data = tables(collectives=alone, bandwidth=bandwidth)
        assert headings(bus_bandwidth(data.collectives, data.bandwidth, GPU)) == [heading]


def test_nothing_measured_is_nothing_drawn() -> None:
    for chart in (steps([], GPU), estimates([], GPU), ladders([], GPU), bus_bandwidth([], [], GPU)):
        assert (chart.pictures, chart.not_drawn) == ([], [])


def rung_row(order: int, part_ms: float, reached_ms: float) -> dict[str, Any]:
    names = ["alone", "threads", "scattered", "training"]
    adds = ["", "threads, contention", "inputs, outputs", "replicate, reduce"][order] or None
    return {
        "strategy": "dp", "gpus": 2, "batch_per_gpu": 32, "global_batch": 64, "environment": "A",
        "rung": names[order], "order": order, "adds": adds, "share": part_ms / 40, "step_s": reached_ms * 1e-3,
        "difference_s": part_ms * 1e-3 if order else None, "beyond_alone_s": (reached_ms - 8) * 1e-3,
    }  # fmt: skip


def climbed(*rows: dict[str, Any]) -> Chart:
    return ladders(tables(ladder=list(rows)).ladder, GPU)


def test_a_ladder_goes_from_one_alone_to_the_whole_step() -> None:
    chart = climbed(rung_row(0, 8, 8), rung_row(1, 26, 34), rung_row(2, -2, 32), rung_row(3, 8, 40))
    svg = chart.pictures[0].svg
    assert headings(chart) == [
        "dp on 2 GPUs at batch 32: 32.0 ms more than 1 GPU alone; the most is 26.0 ms, threads, contention"
    ]
    assert description(svg) == (
        "1 GPU alone: 8.00 ms, 20.0 %; threads, contention: 26.0 ms, 65.0 %; inputs, outputs: −2.00 ms, −5.00 %; "
        "replicate, reduce: 8.00 ms, 20.0 %."
    )
    scale = WIDTH / (1.02 * 40)
    begin = [float(x) for x in re.findall(r"M([\d.]+),[\d.]+h[\d.]+v", svg)]
    assert begin == pytest.approx([0, 8 * scale, 32 * scale, 32 * scale], abs=0.1)
    assert widths(svg) == pytest.approx([8 * scale, 26 * scale, 2 * scale, 8 * scale], abs=0.1)
    assert svg.count('fill="none"') >= 1, "what takes time away is an outline"


def test_a_step_that_takes_no_longer_than_alone_has_no_largest_part() -> None:
    chart = climbed(rung_row(0, 8, 8), rung_row(1, 0, 8), rung_row(2, 0, 8), rung_row(3, -1, 7))
    assert headings(chart) == ["dp on 2 GPUs at batch 32: 1.00 ms less than 1 GPU alone"]


def test_steps_on_more_devices_stand_beside_the_step_of_one() -> None:
    data = h200()
    chart = steps_beside_one(data.times, data.communication, GPU)
    assert places(chart) == ["Batch 32 per GPU", "Batch 128 per GPU", "Batch 512 per GPU"], "those with steps enough"
    ms = {
        (row.strategy, row.gpus): 1e3 * row.step_s.value
        for row in data.times
        if row.scope == "compute" and row.batch_per_gpu == 32
    }
    assert headings(chart)[0] == (
        f"A step takes {ms['single', 1]:.2f} ms on 1 GPU, and {ms['dp', 4]:.1f} ms with dp on 4 GPUs"
    )
    described = description(chart.pictures[0].svg)
    assert [text.split(":")[0] for text in described.rstrip(".").split("; ")] == [
        "single on 1 GPU", "dp on 2 GPUs", "dp on 4 GPUs", "ddp on 2 GPUs", "ddp on 4 GPUs",
    ]  # fmt: skip
    assert f"ddp on 4 GPUs: {ms['ddp', 4]:.2f} ms" in described


@pytest.mark.parametrize(
    ("longer", "shown"),
    [
        (Figure.of(0.002, 0.00198, 0.00202), ", +2.000 [1.980, 2.020]"),
        (Figure.of(-0.0005, -0.000505, -0.000495), ", −0.500 [−0.505, −0.495]"),
        (UNKNOWN, ""),
    ],
)
def test_what_a_step_is_longer_has_its_sign_and_its_interval(longer: Figure, shown: str) -> None:
    data = h200()
    changed = [replace(row, communication_step_s=longer) for row in data.communication]
    described = description(steps_beside_one(data.times, changed, GPU).pictures[0].svg)
    assert re.search(rf"ddp on 4 GPUs: [\d.]+ ms{re.escape(shown)}\.$", described)


def test_without_one_device_no_step_stands_beside_it() -> None:
    data = h200()
    several = [row for row in data.times if row.gpus > 1]
    assert steps_beside_one(several, data.communication, GPU).pictures == []


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ([(3, 1), (3, 1)], "3 runs on 1 server"),
        ([(1, 1), (4, 2)], "1 to 4 runs on 1 to 2 servers"),
        ([(3, 3)], "3 runs on 3 servers"),
    ],
)
def test_tables_of_collectives_say_on_how_many_servers_they_ran(counts: list[tuple[int, int]], said: str) -> None:
    for use, view in ((None, views.bus_bandwidth), ("whole gradient", views.collectives)):
        timed = [
            {**collective_row("allreduce", 4, 2**power, 9.0), "runs": runs, "servers": servers, "use": use}
            for power, (runs, servers) in enumerate(counts)
        ]
        assert view(tables(collectives=timed).collectives, GPU).caption.endswith(f"with nothing else running: {said}")

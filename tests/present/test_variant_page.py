"""The section on variants, and accuracy against cost: what is drawn, what it says, and when it is there."""

import re
from typing import Any
from xml.etree import ElementTree

import pytest
from page_tables import GPU, WORKER, around, bare_page, study, tables
from variant_tables import (
    BASE,
    FAST,
    NEVER,
    PAYS,
    SLOW,
    beside,
    frontier_row,
    kernels_row,
    of_variants,
    variant_row,
    with_variants,
)

import variant_study
from dpscale.present.charts import training as training_charts
from dpscale.present.charts import variants as variant_charts
from dpscale.present.charts.axes import WIDTH
from dpscale.present.charts.svg import RIGHT
from dpscale.present.study.page import render
from dpscale.present.study.views import SHOWN
from pictures import SVG, description, headings, texts

# Whole pages and their charts.
pytestmark = pytest.mark.slow

NAMES = ["base", *variant_study.VARIANTS]
SHARES = {"convolution", "batch-norm", "element-wise", "copies", "other", "idle"}
HEADING = ">One GPU, used well</h2>"
WEIGHS_MORE = "Faster compute makes communication weigh more"


def test_one_device_has_a_panel_a_batch_and_a_bar_a_variant() -> None:
    charts = variant_charts.epochs_on_one(with_variants().variants, GPU).pictures
    assert [chart.subtitle.split(" per GPU")[0] for chart in charts] == [
        "Batch 32", "Batch 128", "Batch 512", "Batch 2,048",
    ]  # fmt: skip
    bars = description(charts[0].svg).rstrip(".").split("; ")
    assert [bar.split(":")[0] for bar in bars] == NAMES
    assert bars[0] == "base: 12.0 s"
    assert re.fullmatch(r"cuda_graph: 2\.10 s, 5\.7\d+ \[5\.\d+, 5\.\d+\] times", bars[3])
    assert {"base: 12.0 s"} <= set(texts(charts[0].svg))


def test_colours_of_bars_tell_base_and_the_fastest() -> None:
    (chart,) = variant_charts.epochs_on_one(of_variants(BASE, SLOW, FAST).variants, GPU).pictures
    fills = re.findall(r'fill="(var\(--\w+\))"', chart.svg)
    assert fills == ["var(--quiet)", "var(--single)", "var(--ddp)"]


@pytest.mark.parametrize(
    ("rows", "heading"),
    [
        ([BASE, SLOW, FAST], "Batch 128: 3.00 s with base, 1.00 s with graph, the fastest"),
        ([BASE, SLOW], "Batch 128: 3.00 s with base"),
        ([SLOW], "Batch 128: 4.00 s with bf16, the fastest"),
        ([{**BASE, "full_steps_per_epoch": 9}], "No epoch has 10 full steps"),
        ([{**BASE, "scope": "end_to_end"}], "Batch 128, end-to-end scope: 3.00 s with base"),
    ],
)
def test_the_heading_names_base_and_the_fastest(rows: list[dict[str, Any]], heading: str) -> None:
    more_gpus = variant_row("graph", 1.0, strategy="ddp", gpus=2)
    assert headings(variant_charts.epochs_on_one(of_variants(*rows, more_gpus).variants, GPU)) == [heading]


def test_epochs_are_drawn_against_the_number_of_gpus() -> None:
    charts = variant_charts.epochs(with_variants().variants, GPU).pictures
    assert len(charts) == len(variant_study.BATCHES)
    assert description(charts[0].svg).startswith("base: 12.0 s at 1, 9.38 s at 2. ")
    title = charts[-1].heading.replace("\u00a0", " ")
    assert re.fullmatch(
        r"Batch 2,048\. 1 GPU: 2\.12 s with base, 0\.515 s with images_on_device; "
        r"2 GPUs: 1\.08 s with base, 0\.270 s with images_on_device",
        title,
    )


def test_two_parallel_strategies_have_lines_of_their_own() -> None:
    rows = [
        BASE,
        *(variant_row("base", seconds, strategy=name, gpus=2) for name, seconds in (("dp", 4.0), ("ddp", 2.0))),
    ]
    (chart,) = variant_charts.epochs(of_variants(*rows).variants, GPU).pictures
    assert description(chart.svg) == "base, dp: 3.00 s at 1, 4.00 s at 2. base, ddp: 3.00 s at 1, 2.00 s at 2."
    few_steps = {**BASE, "full_steps_per_epoch": 9}
    for row, heading in ((BASE, "Batch 128. 1 GPU: 3.00 s with base"), (few_steps, "No epoch has 10 full steps")):
        assert headings(variant_charts.epochs(of_variants(row).variants, GPU)) == [heading]


def test_kernels_are_shares_of_the_profiled_step() -> None:
    rows = [kernels_row(0.01, 32, convolution=0.25), kernels_row(0.01, 512, convolution=0.5, copy=0.25)]
    (chart,) = variant_charts.kernels(tables(kernels=rows).kernels, of_variants(BASE).variants, GPU).pictures
    assert description(chart.svg) == (
        "32: convolution 25.0 %, batch-norm 0 %, element-wise 0 %, copies 0 %, other 0 %, idle 75.0 % of "
        "10.0 ms. 512: convolution 50.0 %, batch-norm 0 %, element-wise 0 %, copies 25.0 %, other 0 %, idle "
        "25.0 % of 10.0 ms."
    )
    assert chart.heading.replace("\u00a0", " ") == (
        "base: at batch 32 idle is 75.0 % of a profiled step, at 512 convolution is 50.0 %"
    )
    assert set(texts(chart.svg)) >= SHARES


def test_a_legend_that_is_too_long_for_a_row_has_two() -> None:
    (chart,) = variant_charts.kernels(
        tables(kernels=[kernels_row(0.01, convolution=0.5)]).kernels, of_variants(BASE).variants, GPU
    ).pictures
    places = {}
    for group in ElementTree.fromstring(chart.svg).iter():
        if group.tag == f"{SVG}text" and group.text in SHARES:
            places[group.text] = float(group.get("x", "nan")), float(group.get("y", "nan"))
    first, last = places["convolution"], places["idle"]
    assert last[1] - first[1] == pytest.approx(17)
    assert max(x for x, _ in places.values()) < WIDTH + RIGHT - 7 * len("copies")


@pytest.mark.parametrize(
    ("row", "text"),
    [
        (PAYS, "15 [14, 16]"),
        (NEVER, "never"),
        ({**PAYS, "pays": "undecided"}, "undecided"),
        (BASE, "–"),
    ],
)
def test_from_how_many_epochs_preparation_pays(row: dict[str, Any], text: str) -> None:
    view = SHOWN["variants"].view(of_variants(row).variants, GPU)
    column = [column.heading for column in view.columns].index("Preparation pays from, epochs")
    assert view.cells[0][column] == text


def test_a_variant_without_a_record_has_its_state_in_the_table() -> None:
    missing = {"variant": "graph", **{name: BASE[name] for name in ("strategy", "gpus", "batch_per_gpu", "scope")}}
    view = SHOWN["variants"].view(of_variants(BASE, {**missing, "status": "failed", "reason": "x"}).variants, GPU)
    assert [row[4] for row in view.cells] == ["ok", "failed"]


def test_the_section_and_its_parts_are_where_there_is_something_to_show() -> None:
    for text in (HEADING, 'href="#variants"', "define-variants"):
        assert text not in bare_page()
    few = render(study(), of_variants(BASE, FAST))
    for text in (HEADING, 'href="#variants"', 'id="define-limit-of-a-gpu"'):
        assert text in few
    parts = (">What fills a step<", 'id="table-one_gpu"')
    full = render(variant_study.study().values, with_variants())
    assert [part for part in parts if part in few] == []
    assert [part for part in parts if part not in full] == []
    for name in ("variants", "variant_limits", "one_gpu", "kernels"):
        assert f'<table id="table-{name}"' in full


def test_communication_is_said_to_weigh_more_only_where_it_does() -> None:
    known: dict[str, Any] = {"strategy": "ddp", "gpus": 2, "faster": 2.0, "base_speedup": 1.8}
    weighs: dict[str, Any] = {**known, "alone_faster": 3.0, "speedup": 1.25}
    others = ({"speedup": 1.8}, {"speedup": 1.95}, {"alone_faster": 1.0}, {"alone_faster": 0.7})
    light = [variant_row("graph", 0.8, **{**weighs, **other}, batch=128 + at) for at, other in enumerate(others)]
    assert WEIGHS_MORE not in render(study(), of_variants(BASE, *light))
    # Among all findings, and where it is the first finding of all on variants.
    assert render(study(), of_variants(BASE, variant_row("graph", 0.8, **weighs))).count(WEIGHS_MORE) == 2


def test_workers_are_no_gpus() -> None:
    view = SHOWN["variants"].view(of_variants(BASE).variants, WORKER)
    assert "Speedup over 1 worker, ×" in [column.heading for column in view.columns]


def test_one_gpu_beside_more_names_both_variants() -> None:
    view = SHOWN["one_gpu"].view(tables(one_gpu=[beside(1.5, "holds", "bf16")]).one_gpu, GPU)
    assert view.cells[0][:1] == ["graph"]
    assert {"bf16", "holds", "ddp"} <= set(view.cells[0])


def arms() -> list[dict[str, Any]]:
    return [
        frontier_row("quick", 0.6, 2.0, "best", **around("gpu_s", 8.0)),
        frontier_row("good", 0.71, 8.0, "best"),
        frontier_row("poor", 0.5, 3.0, "beaten"),
    ]


def test_the_frontier_has_the_names_of_the_best() -> None:
    figure = training_charts.frontier(tables(frontier=arms()).frontier, 0.65, GPU)
    assert headings(figure) == ["Pareto-best: from quick, 60.0 % for 2.00 s, to good, 71.0 % for 8.00 s"]
    (picture,) = figure.pictures
    assert {"quick", "good", "other arms", "target"} <= set(texts(picture.svg))
    assert "poor" not in texts(picture.svg)
    assert 'stroke-width="1.8"' not in picture.svg, "points that belong to no line are not joined"
    assert description(picture.svg) == "other arms: 50.0 % at 3.00. quick: 60.0 % at 2.00. good: 71.0 % at 8.00."


def test_one_best_arm_is_no_range() -> None:
    rows = [frontier_row("good", 0.71, 2.0, "best"), frontier_row("poor", 0.5, 3.0, "beaten")]
    figure = training_charts.frontier(tables(frontier=rows).frontier, 0.65, GPU)
    assert headings(figure)[0].startswith("Pareto-best: good, 71.0")


def test_the_frontier_is_on_the_page_of_a_study_that_trained() -> None:
    trained = {"arms": {"good": {"strategy": "single", "gpus": 1, "batch_per_gpu": 128}}}
    shown = render(study(training=trained), tables(frontier=arms()))
    assert ">Accuracy against time</h3>" in shown
    assert '<table id="table-frontier"' in shown
    assert ">Accuracy against time</h3>" not in render(study(training=trained), tables())
    assert len(SHOWN["frontier"].view(tables(frontier=arms()).frontier, GPU).cells) == 3

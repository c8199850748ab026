"""Charts: what each is headed, what is drawn of it and what is said of the rest, and that nothing covers anything."""

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree

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
from dpscale.present.charts import training
from dpscale.present.charts.communication import bus_bandwidth, ladders
from dpscale.present.charts.lines import LABEL_GAP, DrawnSeries, Frame, Marker, Panel, apart, chart_of_lines
from dpscale.present.charts.picture import HEIGHT, Chart
from dpscale.present.study.page import charts_of
from dpscale.present.text.words import Terms
from dpscale.tables.tables import Tables
from html_reader import SVG, description, headings, places, texts

# To draw charts takes longest of all.
pytestmark = pytest.mark.slow

AT: dict[str, Any] = {"strategy": "ddp", "gpus": 4}
Rows = list[dict[str, Any]]


def efficiency(data: Tables, terms: Terms = GPU) -> Chart:
    return charts_of(study(), data, terms)["efficiency"]


def of_efficiency(*rows: dict[str, Any], terms: Terms = GPU) -> Chart:
    return efficiency(tables(speedup=list(rows)), terms)


def of_ladder(*rungs: tuple[float, float]) -> Chart:
    return ladders(tables(ladder=ladder_rows(*rungs)).ladder, GPU)


def of_bandwidth(*rows: dict[str, Any]) -> Chart:
    return bus_bandwidth(tables(collectives=list(rows)).collectives, GPU)


def on_one(*rows: dict[str, Any]) -> Chart:
    """Epochs on one GPU; one on several is none of these."""
    more = variant_row("graph", 1.0, strategy="ddp", gpus=2)
    return charts_of(study(), of_variants(*rows, more), GPU)["variants_on_one"]


def of_accuracy(
    *rows: dict[str, Any], baseline: str | None = "base", target: float = 0.65, **compared_with: str
) -> Chart:
    summary = [arm_row(arm.replace("_", "-"), 0.5, compared_with=of) for arm, of in compared_with.items()]
    made = tables(training=list(rows), training_summary=summary)
    return training.test_accuracy(made.training_curves, baseline, target, GPU)


def curve(arm: str, *accuracies: float | None, seed: int = 1, batch: int = 512) -> Rows:
    return [epoch_row(arm, seed, epoch, accuracy, batch) for epoch, accuracy in enumerate(accuracies, 1)]


LOADED = speedup_row(2.0, 2.0, **place(batch=512, scope="end_to_end"))
GAINS = [speedup_row(3.8, 2.0, **place(batch=512)), speedup_row(0.4, 2.0, **place(batch=32))]
AT_128 = speedup_row(2.0, 2.0, **place(batch=128))
BY_DP = speedup_row(3.9, 2.0, **place("dp", batch=128))
FEW_STEPS = speedup_row(3.9, 2.0, **place(batch=2_048))
BASELINE, GOOD, BAD = curve("base", 0.7, 0.7), curve("good", 0.2, 0.6), curve("bad", 0.9, 0.1)
WILD = [*curve("wild", 0.9, None), *curve("wild", 0.9, 0.9, seed=2)]


def head(chart: Callable[..., Chart], *cases: tuple[Rows, str]) -> list[Any]:
    return [pytest.param(chart, rows, heading, id=f"{chart.__name__}: {heading}") for rows, heading in cases]


@pytest.mark.parametrize(
    ("chart", "rows", "heading"),
    [
        *head(
            of_efficiency,
            # The answer is about batch 128: what is nearest to it is headed, and not what is best.
            ([*GAINS, AT_128, LOADED], "ddp on 4 GPUs at batch 128: 50.0 % [49.5, 50.5]"),
            (GAINS, "ddp on 4 GPUs at batch 32: 10.0 % [9.9, 10.1]"),
            ([GAINS[0], LOADED], "ddp on 4 GPUs at batch 512: 95.0 % [94.0, 95.9], with loading 50.0 % [49.5, 50.5]"),
            ([AT_128, BY_DP], "ddp on 4 GPUs at batch 128: 50.0 % [49.5, 50.5]"),
            ([GAINS[0], FEW_STEPS], "ddp on 4 GPUs at batch 512: 95.0 % [94.0, 95.9]"),
            ([FEW_STEPS], "No epoch has 10 full steps"),
        ),
        *head(
            of_bandwidth,
            (
                [collective_row("reduce", 4, 2**30, 371.0), collective_row("allreduce", 4, 2**20, 9.0)],
                "4 GPUs: 371 GB/s at most, with reduce of 1 GiB",
            ),
            (
                [
                    collective_row("reduce", 4, 2**30, 371.0),
                    collective_row("allreduce", 4, 44_695_848, 302.0, use="whole gradient"),
                ],
                "4 GPUs: 302 GB/s with an allreduce of the whole gradient, 44.7 MB",
            ),
        ),
        *head(
            on_one,
            ([BASE, SLOW, FAST], "Batch 128: 3.00 s with base, 1.00 s with graph, the fastest"),
            ([BASE, SLOW], "Batch 128: 3.00 s with base"),
            ([SLOW], "Batch 128: 4.00 s with bf16, the fastest"),
            ([{**BASE, "full_steps_per_epoch": 9}], "No epoch has 10 full steps"),
            ([{**BASE, "scope": "end_to_end"}], "Batch 128, end-to-end scope: 3.00 s with base"),
        ),
        *head(
            of_accuracy,
            ([*BASELINE, *GOOD, *BAD], "Test accuracy: good ends best, at 60.0 %; the baseline base at 70.0 %"),
            ([*GOOD, *BAD], "Test accuracy: good ends best, at 60.0 %"),
            ([*BASELINE, *GOOD], "Test accuracy: good ends at 60.0 %; the baseline base at 70.0 %"),
            (BASELINE, "Test accuracy: the baseline base at 70.0 %"),
            (WILD, "Test accuracy: a seed of every arm diverged"),
            ([*WILD, *curve("tame", 0.3)], "Test accuracy: tame ends best, at 30.0 %"),
        ),
    ],
)
def test_a_heading_says_what_the_rows_show(chart: Callable[..., Chart], rows: Rows, heading: str) -> None:
    assert headings(chart(*rows)) == [heading]


def test_a_ladder_goes_from_one_alone_to_the_whole_step() -> None:
    (picture,) = of_ladder((8, 8), (26, 34), (-2, 32), (8, 40)).pictures
    assert description(picture.svg) == (
        "1 GPU alone: 8.00 ms, 20.0 %; threads, contention: 26.0 ms, 65.0 %; inputs, outputs: −2.00 ms, −5.00 %; "
        "replicate, reduce: 8.00 ms, 20.0 %."
    )


def test_the_axis_of_curves_reaches_the_target() -> None:
    rows = [row for seed in (1, 2) for row in curve("large", 0.2, seed / 10, seed=seed)]
    (picture,) = of_accuracy(*rows, *BASELINE).pictures
    assert "target" in texts(picture.svg)
    # The axis reaches so far that the target is on it.
    assert "80" not in texts(picture.svg) and "80" in texts(of_accuracy(*rows, target=0.95).pictures[0].svg)


def test_a_line_ends_where_the_first_seed_diverged() -> None:
    (picture,) = of_accuracy(*BASELINE, *WILD).pictures
    assert "wild, diverged: 90.0 % at 1." in description(picture.svg)
    assert "wild" not in str(of_accuracy(*BASELINE, *curve("wild", None))), "one that diverged at once has no line"
    assert of_accuracy(baseline=None).pictures == []


def test_the_batch_of_the_answer_has_the_colour_of_its_strategy_and_the_others_none() -> None:
    data = h200()
    (picture,) = charts_of(study(), data, GPU)["speedup"].pictures
    labels = (
        text for text in ElementTree.fromstring(picture.svg).iter(f"{SVG}text") if text.get("fill") == "var(--ddp)"
    )
    assert [label.text for label in labels] == ["batch 128"]
    assert {"ideal", "batch 32", "batch 512"} < set(texts(picture.svg))
    assert "var(--dp)" not in picture.svg
    assert charts_of(study(), replace(data, answer=[]), GPU)["speedup"].pictures == []


def test_efficiency_has_a_panel_a_number_of_gpus_with_and_without_loading() -> None:
    data = h200()
    chart = efficiency(data)
    assert places(chart) == ["4 GPUs", "2 GPUs"]
    svg = chart.pictures[0].svg
    assert {"100 %", "dp", "ddp", "dp, loading", "ddp, loading"} <= set(texts(svg))
    on_nodes = [replace(row, nodes=2 if row.gpus == 4 else 1) for row in h200().speedup]
    assert places(efficiency(replace(data, speedup=on_nodes))) == ["4 GPUs on 2 nodes", "2 GPUs"]


def test_environments_and_workers_have_their_names() -> None:
    rows = [speedup_row(3.8, 2.0, **place(environment=letter)) for letter in "AB"]
    data = tables(speedup=rows, environments=[environment_row("A"), environment_row("B")])
    assert places(efficiency(data, SEVERAL)) == ["4 GPUs in environment B", "4 GPUs in environment A"]
    assert headings(of_efficiency(*GAINS[:1], terms=WORKER)) == ["ddp on 4 workers at batch 512: 95.0 % [94.0, 95.9]"]


def test_one_device_has_a_panel_a_batch_and_a_bar_a_variant() -> None:
    charts = charts_of(study(), with_variants(), GPU)["variants_on_one"].pictures
    assert [chart.subtitle.split(" per GPU")[0] for chart in charts] == [
        "Batch 32", "Batch 128", "Batch 512", "Batch 2,048",
    ]  # fmt: skip
    bars = description(charts[0].svg).rstrip(".").split("; ")
    assert [bar.split(":")[0] for bar in bars] == ["base", "bf16", "compile", "graph", "on-device", "switches"]
    assert (bars[0], bars[3]) == ("base: 12.5 s", "graph: 2.35 s, 5.32 [3.78, 7.48] times")


@pytest.mark.parametrize("wanted", [[5, 5, 5], [235, 236, 10, 237], [0, 240, 120], [100, 107, 114, 121], []])
def test_labels_keep_their_order_and_do_not_touch(wanted: list[float]) -> None:
    places = apart(wanted, LABEL_GAP, 7, HEIGHT - 7)
    order = sorted(range(len(wanted)), key=wanted.__getitem__)
    assert all(places[after] - places[before] >= LABEL_GAP for before, after in pairwise(order))
    assert all(7 <= place <= HEIGHT - 7 for place in places)


def test_panels_that_are_too_many_are_said_not_to_be_drawn() -> None:
    chart = of_efficiency(*(speedup_row(2.0, 2.0, **place(gpus=gpus)) for gpus in range(2, 30)))
    assert len(chart.pictures) == 8
    assert re.fullmatch(r"Not drawn: 21 GPUs, .* and 8 more\.", chart.not_drawn[0])


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


def test_runs_are_drawn_as_rings_and_the_axis_has_room_for_them() -> None:
    blocks = [
        {
            **speedup_row(3.0, 2.0, **place(batch=128)),
            "block": f"run {run}",
            "efficiency": run / 4,
            "speedup": float(run),
        }
        for run in (1, 3)
    ]
    of_two = {**AT_128, "rests_on": "two machines: efficiency"}
    with_runs, alone = (efficiency(tables(speedup=[of_two], blocks=some)).pictures[0] for some in (blocks, []))
    assert with_runs.svg != alone.svg, "the runs lie further apart"
    (drawn,), (bar,) = efficiency(tables(speedup=[of_two])).pictures, of_efficiency(AT_128).pictures
    assert drawn.subtitle.endswith("; small circles are runs") and "circles" not in bar.subtitle


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
    of = panel(Figure.of(10, 5, 20), second, Figure(20), linear_y=linear)
    axis = Frame.around([of]).y
    assert (second.high > axis.high or second.low < axis.low) == is_cut
    assert axis.pixel(20) - axis.pixel(5) > HEIGHT / 12, "one that goes far beyond does not flatten the others"
    assert chart_of_lines("bars", [of]).pictures

"""Charts of trainings: curves with their seeds, the target, and where a line ends."""

import re
from typing import Any
from xml.etree import ElementTree

import pytest
from page_tables import GPU, arm_row, epoch_row, tables

from dpscale.present.charts import training as training_charts
from dpscale.present.charts.chart import Chart
from pictures import SVG, headings, texts

# To draw charts takes longest of all.
pytestmark = pytest.mark.slow


def curves(*more: dict[str, Any]) -> list[dict[str, Any]]:
    rows = [epoch_row("small", seed, epoch, 0.3 + epoch / 10, 32) for seed in (1, 2, 3) for epoch in (1, 2, 3)]
    return [*rows, *(epoch_row("large", seed, epoch, seed / 10) for seed in (1, 2) for epoch in (1, 2)), *more]


def accuracy(
    rows: list[dict[str, Any]], baseline: str | None = "small", target: float = 0.65, **compared_with: str
) -> Chart:
    summary = [arm_row(arm.replace("_", "-"), 0.5, compared_with=of) for arm, of in compared_with.items()]
    made = tables(training=rows, training_summary=summary)
    return training_charts.test_accuracy(made.training_curves, made.training, baseline, target, GPU)


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
    figure = accuracy(curves(*tuned), large="small", tuned="small-tuned")
    drawn = [{"small", "small-tuned", "large", "tuned"} & set(texts(chart.svg)) for chart in figure.pictures]
    assert drawn == [{"small", "small-tuned"}, {"small", "small-tuned", "large", "tuned"}]


def test_bands_hold_all_seeds() -> None:
    (chart,) = accuracy(curves()).pictures
    looks = [path.attrib for path in ElementTree.fromstring(chart.svg).iter(f"{SVG}path")]
    assert sum(look.get("fill-opacity", "1") != "1" or look.get("opacity", "1") != "1" for look in looks) == 2
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


BASE = [epoch_row("base", 1, epoch, 0.7) for epoch in (1, 2)]
GOOD = [epoch_row("good", 1, 1, 0.2), epoch_row("good", 1, 2, 0.6)]
BAD = [epoch_row("bad", 1, 1, 0.9), epoch_row("bad", 1, 2, 0.1)]
WILD = [epoch_row("wild", 1, 1, 0.9), epoch_row("wild", 1, 2, None), epoch_row("wild", 2, 2, 0.9)]


@pytest.mark.parametrize(
    ("rows", "heading"),
    [
        ([*BASE, *GOOD, *BAD], "good ends best, at 60.0 %; the baseline base at 70.0 %"),
        ([*GOOD, *BAD], "good ends best, at 60.0 %"),
        ([*BASE, *GOOD], "good ends at 60.0 %; the baseline base at 70.0 %"),
        (BASE, "the baseline base at 70.0 %"),
        (WILD, "a seed of every arm diverged"),
        ([*WILD, epoch_row("tame", 1, 2, 0.3)], "tame ends best, at 30.0 %"),
    ],
)
def test_the_heading_names_the_best_arm_and_the_baseline(rows: list[dict[str, Any]], heading: str) -> None:
    """Arms of which a seed diverged end nowhere."""
    assert headings(accuracy(rows, "base")) == [f"Test accuracy: {heading}"]


def test_the_heading_names_the_baseline_of_the_best_arm() -> None:
    """A tuned arm's is the tuned baseline, which does not end best itself."""
    ends = {"base": 0.7, "base-tuned": 0.8, "plain": 0.4, "tuned": 0.6}
    found = [epoch_row(name, 1, 1, end) for name, end in ends.items()]
    assert headings(accuracy(found, "base", plain="base", tuned="base-tuned")) == [
        "Test accuracy: tuned ends best, at 60.0 %; the baseline base-tuned at 80.0 %"
    ]

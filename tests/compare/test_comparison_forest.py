"""A forest plot: what is drawn where, what is cut, and that both are said."""

import re
from collections.abc import Sequence
from math import nan
from xml.etree import ElementTree

import pytest

from dpscale.compare.forest import POOLED, Forest, ForestGroup, ForestMark, chart_of_forests
from dpscale.formulas.figure import Figure
from dpscale.present.charts.chart import Chart

# To draw charts takes longest of all.
pytestmark = pytest.mark.slow

SVG = "{http://www.w3.org/2000/svg}"


def group(
    name: str, change: float, low: float = nan, high: float = nan, batches: Sequence[ForestMark] = ()
) -> ForestGroup:
    return ForestGroup(name, "text", "var(--ddp)", [ForestMark(POOLED, Figure.of(change, low, high)), *batches])


def forest(*groups: ForestGroup, limit: float | None = None) -> Forest:
    return Forest(
        heading="Heading", place="place", quantity="quantity", x_title="Change, %", groups=groups, limit=limit
    )


def drawn(*groups: ForestGroup, limit: float | None = None) -> tuple[Chart, ElementTree.Element]:
    figure = chart_of_forests("changes", [forest(*groups, limit=limit)])
    return figure, ElementTree.fromstring(figure.pictures[0].svg)


def texts(chart: ElementTree.Element) -> list[str]:
    return [text.text or "" for text in chart.iter(f"{SVG}text")]


def marks(chart: ElementTree.Element, colour: str) -> list[float]:
    """The middles of filled marks of a colour, in pixels from the left of the plot."""
    found = []
    for path in chart.iter(f"{SVG}path"):
        if path.get("fill") == colour:
            for outline in path.get("d", "").split("M")[1:]:
                found.append(float(re.split(r"[,a-zA-Z]", outline)[0]))
    return found


BATCHES = [ForestMark("32", Figure.of(4.0, 2.0, 6.0)), ForestMark("2,048", Figure.of(16.0, 15.0, 17.0))]


def test_every_group_has_its_text_a_pooled_mark_and_its_batches() -> None:
    figure, chart = drawn(group("ddp on 4 GPUs", 10, 8, 12, BATCHES), group("dp on 2 GPUs", -5))
    found = texts(chart)
    assert [text for text in found if "GPUs" in text] == ["ddp on 4 GPUs: text", "dp on 2 GPUs: text"]
    assert found.count(POOLED) == 2
    assert {"32", "2,048"} <= set(found)
    assert figure.not_drawn == []


def test_marks_stand_where_the_changes_are() -> None:
    """Of three batches evenly apart, the marks are evenly apart too, in their order."""
    batches = [ForestMark(str(change), Figure.of(change, nan, nan)) for change in (30.0, -10.0, 10.0)]
    _, chart = drawn(group("ddp on 4 GPUs", 0.0, batches=batches))
    highest, lowest, middle = marks(chart, "var(--quiet)")
    assert lowest < middle < highest
    assert middle - lowest == pytest.approx(highest - middle, abs=0.2)


def test_a_mark_without_an_interval_has_no_bar() -> None:
    with_bar = drawn(group("ddp on 4 GPUs", 10, 8, 12))[1]
    without = drawn(group("ddp on 4 GPUs", 10))[1]

    def bars(chart: ElementTree.Element) -> int:
        return sum(path.get("stroke") == "var(--ddp)" for path in chart.iter(f"{SVG}path"))

    assert (bars(with_bar), bars(without)) == (1, 0)


def test_zero_is_always_on_the_axis_and_signed_numbers_beside_it() -> None:
    found = texts(drawn(group("ddp on 4 GPUs", 900, 850, 950))[1])
    assert "0" in found
    assert any(re.fullmatch(r"\+[\d,]+", text) for text in found)


def test_a_limit_is_a_second_line() -> None:
    def dashed(chart: ElementTree.Element) -> int:
        return sum("stroke-dasharray" in path.attrib for path in chart.iter(f"{SVG}path"))

    assert dashed(drawn(group("ddp on 4 GPUs", 10, 8, 12), limit=5.0)[1]) == 1
    assert dashed(drawn(group("ddp on 4 GPUs", 10, 8, 12))[1]) == 0


def test_intervals_beyond_reach_end_at_the_edge_and_are_named() -> None:
    wide = [ForestMark("32", Figure.of(10.0, -90.0, 1e6))]
    figure, chart = drawn(group("ddp on 4 GPUs", 10, 8, 12, wide), group("dp on 2 GPUs", 10, -95.0, 1e9))
    plot, bars = 266, [path.get("d", "") for path in chart.iter(f"{SVG}path") if "stroke" in path.attrib]
    assert sum(f"l{plot},0" in bar for bar in bars) == 3, "the axis, the batch's bar and one of the pooled ones"
    assert not [bar for bar in bars if re.search(r"M-|l\d{4}", bar)]
    assert figure.not_drawn == [
        "place: intervals reach beyond the axis: ddp on 4 GPUs at 32, dp on 2 GPUs, pooled."
    ]  # fmt: skip


def test_of_too_many_rows_batches_are_left_out_and_that_is_said() -> None:
    batches = [ForestMark(str(batch), Figure.of(1.0, 0.5, 1.5)) for batch in range(12)]
    figure, chart = drawn(*(group(f"ddp on {gpus} GPUs", 1.0, batches=batches) for gpus in range(2, 8)))
    assert texts(chart).count(POOLED) == 6
    assert "11" not in texts(chart)
    assert figure.not_drawn == ["place: changes at each batch are not drawn."]


def test_of_too_many_groups_the_first_are_drawn_and_that_is_said() -> None:
    figure, chart = drawn(*(group(f"ddp on {gpus} GPUs", 1.0) for gpus in range(2, 32)))
    assert texts(chart).count(POOLED) == 20
    assert figure.not_drawn == ["place: 20 of 30 groups are drawn."]


def test_the_chart_says_in_words_what_it_shows() -> None:
    _, chart = drawn(group("ddp on 4 GPUs", 10, 8, 12), group("dp on 2 GPUs", -5))
    (described,) = (element.text for element in chart if element.tag == f"{SVG}desc")
    assert described == "ddp on 4 GPUs: text. dp on 2 GPUs: text."


def test_it_is_as_narrow_as_a_phone() -> None:
    """On a page of 390 pixels with margins of 16, text of 11 pixels is shown as large or larger."""
    _, chart = drawn(group("ddp on 4 GPUs", 10, 8, 12))
    width = float(chart.attrib["viewBox"].split()[2])
    assert width <= 390 - 2 * 16

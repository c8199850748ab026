"""A forest plot: what is drawn where, and what is cut."""

import re
from collections.abc import Mapping
from xml.etree import ElementTree

import pytest

from dpscale.compare.forest import POOLED, Forest, ForestGroup, draw
from dpscale.formulas.figure import Figure
from dpscale.present.charts.chart import Picture
from pictures import description, texts

# To draw charts takes longest of all.
pytestmark = pytest.mark.slow

WIDTH = 266
SURE = Figure.of(10, 8, 12)
NONE: Mapping[str, Figure] = {}


def group(name: str, change: Figure = SURE, batches: Mapping[str, Figure] = NONE) -> ForestGroup:
    return ForestGroup(f"{name}: text", "var(--ddp)", {POOLED: change, **batches})


def drawn(*groups: ForestGroup) -> str:
    forest = Forest(heading="Heading", place="place", quantity="q", x_title="Change, %", groups=groups)
    return Picture.of("changes-1", forest, draw(forest)).svg


def test_every_group_is_drawn_and_told_in_words() -> None:
    batches = {"32": Figure.of(4, 2, 6), "2,048": Figure.of(16, 15, 17)}
    chart = drawn(group("ddp on 4 GPUs", SURE, batches), group("dp on 2 GPUs", Figure(-5)))
    found = texts(chart)
    assert [text for text in found if "GPUs" in text] == ["ddp on 4 GPUs: text", "dp on 2 GPUs: text"]
    assert found.count(POOLED) == 2
    assert {"32", "2,048"} <= set(found)
    assert description(chart) == "ddp on 4 GPUs: text. dp on 2 GPUs: text."


def test_marks_stand_where_the_changes_are() -> None:
    """Of three batches evenly apart, the marks are evenly apart too, in their order."""
    batches = {str(change): Figure(change) for change in (30.0, -10.0, 10.0)}
    chart = drawn(group("ddp on 4 GPUs", Figure(0), batches))
    marks = re.findall(r'translate\(([\d.]+),[^>]*A[^>]*fill="var\(--quiet\)"', chart)
    highest, lowest, middle = map(float, marks)
    assert lowest < middle < highest
    assert middle - lowest == pytest.approx(highest - middle, abs=0.2)


@pytest.mark.parametrize(("change", "bars"), [(SURE, 1), (Figure(10), 0)])
def test_a_mark_without_an_interval_has_no_bar(change: Figure, bars: int) -> None:
    assert drawn(group("ddp", change)).count('stroke="var(--ddp)"') == bars


def test_intervals_beyond_reach_end_at_the_edge() -> None:
    wide = group("ddp on 4 GPUs", SURE, {"32": Figure.of(10, -90, 1e6)})
    chart = drawn(wide, group("dp on 2 GPUs", Figure.of(10, -95, 1e9)))
    bars = [float(width) for width in re.findall(r' x2="([\d.]+)"', chart)]
    assert bars.count(WIDTH) == 3, "the axis, the batch's bar and one of the pooled ones"
    assert max(bars) == WIDTH


def test_it_is_as_narrow_as_a_phone() -> None:
    """On a page of 390 pixels with margins of 16, text of 11 pixels is shown as large or larger."""
    assert float(ElementTree.fromstring(drawn(group("ddp"))).attrib["viewBox"].split()[2]) <= 390 - 2 * 16

"""The page's charts as files of their own; and that the same tables give the same bytes."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import altair as alt
import pytest
from altair.utils.schemapi import SchemaValidationError
from markupsafe import escape
from page_tables import audited, h200, h200_with_steps, study

from command_line import must
from dpscale.present.charts.bars import Stage, Waterfall
from dpscale.present.charts.files import charts_of, heading_of, write_charts
from dpscale.present.charts.vega import over, svg_of
from dpscale.present.study.page import render

# Whole pages, again and again.
pytestmark = pytest.mark.slow

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def page() -> str:
    data = h200()
    data["records"]["synthetic"] = True
    return render(study(strong_scaling_global_batch=[128, 2_048]), data)


def test_every_chart_of_the_page_is_a_file(page: str, tmp_path: Path) -> None:
    stale = tmp_path / "charts/stale-1.svg"
    stale.parent.mkdir()
    stale.write_text("<svg/>")
    write_charts(page, tmp_path / "charts")
    names = {path.stem for path in (tmp_path / "charts").iterdir()}
    assert names == set(re.findall(r'<svg [^>]*aria-labelledby="([^"]*)-title"', page))
    assert {"epoch-time-1", "efficiency-1"} <= names


def test_a_page_without_charts_leaves_an_empty_folder(tmp_path: Path) -> None:
    write_charts("<style>:root { --ink: #000; }</style>", tmp_path / "charts")
    assert list((tmp_path / "charts").iterdir()) == []


def test_a_file_needs_no_page_for_its_colours_and_says_what_it_shows(page: str, tmp_path: Path) -> None:
    for name, svg in charts_of(page).items():
        assert "var(" not in svg and "currentColor" not in svg
        chart = ElementTree.fromstring(svg)
        lines = list(chart.iter(f"{SVG}text"))
        heading = " ".join(line.text or "" for line in lines if line.get("font-weight") == "bold")
        assert heading and f">{escape(heading)}</h" in page
        file = tmp_path / f"{name}.svg"
        file.write_text(svg)
        assert f"{heading_of(file)}." in page
        assert "Synthetic images." in " ".join(line.text or "" for line in lines), "as wherever data are shown"
        paper = chart.find(f"{SVG}rect")
        assert paper is not None
        left, top, width, height = chart.attrib["viewBox"].split()
        assert [paper.attrib[key] for key in ("x", "y", "width", "height")] == [left, top, width, height]
        assert (chart.attrib["width"], chart.attrib["height"]) == (width, height)


def test_text_of_others_is_text_in_a_file_too(page: str) -> None:
    evil = re.sub(r"(<figcaption\b[^>]*>\s*<h\d[^>]*>)[^<]*", r"\1&lt;script&gt;&amp;amp;", page)
    (svg,) = [svg for name, svg in charts_of(evil).items() if name == "epoch-time-1"]
    assert "&lt;script&gt;&amp;amp;" in svg


def test_what_vega_lite_is_given_is_valid_by_its_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines with their intervals, bars, and a waterfall: a page does not check what it draws."""
    as_dict = alt.LayerChart.to_dict
    checked: list[set[str]] = []

    def check(chart: alt.LayerChart, **_: Any) -> dict[str, Any]:
        spec = as_dict(chart, validate=True)
        checked.append({layer["mark"]["type"] for layer in spec["layer"]})
        return spec

    monkeypatch.setattr(alt.LayerChart, "to_dict", check)
    page = render(study(strong_scaling_global_batch=[128, 2_048]), h200_with_steps())
    assert len(checked) == len(charts_of(page)) > 12
    assert set.union(*checked) == {"area", "bar", "line", "point", "rect", "rule", "text"}
    stages = [Stage("more", 0, 2, "red"), Stage("less", 2, 1, "red")]
    Waterfall(heading="heading", place="place", quantity="quantity", x_title="ms", stages=stages).draw()
    assert checked[-1] == {"bar", "text"}
    wrong = over([]).mark_line()
    wrong["description"] = 5
    with pytest.raises(SchemaValidationError):
        svg_of([wrong])


@pytest.mark.processes
def test_the_same_tables_give_the_same_bytes(root: Path, tmp_path: Path) -> None:
    """In processes that order sets differently: this one at random."""
    for name, table in audited(root, h200()).items():
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    (tmp_path / "study.yaml").write_text("study: h200\nstrong_scaling_global_batch: [128, 2048]\n")
    words = ["report", "--study", "study.yaml", "--tables", "."]
    must(*words, "--out", "here/page.html", "--charts", "here/charts", folder=tmp_path)
    environment = {
        **os.environ,
        "PYTHONHASHSEED": "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1",
        "PYTHONPATH": str(root / "workflow"),
    }
    places = ["--out", "there/page.html", "--charts", "there/charts"]
    command = [sys.executable, "-m", "dpscale", *words, *places]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, stdout=subprocess.DEVNULL)
    made = []
    for folder in (tmp_path / "here", tmp_path / "there"):
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        made.append({path.relative_to(folder): path.read_bytes() for path in files})
    assert len(made[0]) == 8
    assert made[0] == made[1]

"""The page's charts as files of their own; and that the same tables give the same bytes."""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import altair as alt
import pytest
from altair.utils.schemapi import SchemaValidationError
from markupsafe import escape
from page_tables import audited, h200, h200_with_steps, study

from command_line import must
from dpscale.present.charts.chart import Chart, Picture
from dpscale.present.charts.files import heading_of, write_charts
from dpscale.present.charts.svg import over, svg_of
from dpscale.present.study.charts import charts_of
from dpscale.present.study.page import render
from dpscale.present.text.words import Terms
from dpscale.tables.tables import TABLES, Tables, written
from pictures import SVG

# Whole pages, again and again.
pytestmark = pytest.mark.slow

NOTE = "Synthetic images."


@cache
def drawn() -> tuple[Sequence[Chart], str]:
    """The charts of a study on synthetic images, and its page."""
    data = h200()
    data = replace(data, records=[replace(row, synthetic=True) for row in data.records])
    of = study(strong_scaling_global_batch=[128, 2_048])
    terms = Terms.of(of, data)
    assert terms.data_note == NOTE
    charts = charts_of(of, data, terms)
    return list(charts.values()), render(of, data, charts=charts)


def files(folder: Path, *charts: Chart) -> dict[str, str]:
    write_charts(charts, NOTE, folder)
    return {path.stem: path.read_text() for path in folder.iterdir()}


def test_every_chart_of_the_page_is_a_file_and_no_other(tmp_path: Path) -> None:
    charts, page = drawn()
    (tmp_path / "stale-1.svg").write_text("<svg/>")
    names = set(files(tmp_path, *charts))
    assert names == set(re.findall(r'<svg [^>]*aria-labelledby="([^"]*)-title"', page))
    assert {"speedup-1", "efficiency-1"} <= names
    assert files(tmp_path) == {}


def test_a_file_needs_no_page_for_its_colours_and_says_what_it_shows(tmp_path: Path) -> None:
    charts, page = drawn()
    for name, svg in files(tmp_path, *charts).items():
        assert "var(" not in svg and "currentColor" not in svg
        root = ElementTree.fromstring(svg)
        lines = [line.text or "" for line in root.iter(f"{SVG}text")]
        heading = heading_of(tmp_path / f"{name}.svg")
        assert heading and f">{escape(heading)}</h" in page.replace("\u00a0", " ")
        assert NOTE in " ".join(lines), "as wherever data are shown"
        paper = root.find(f"{SVG}rect")
        assert paper is not None
        left, top, width, height = root.attrib["viewBox"].split()
        assert [paper.attrib[key] for key in ("x", "y", "width", "height")] == [left, top, width, height]
        assert (root.attrib["width"], root.attrib["height"]) == (width, height)


def test_text_of_others_is_text_in_a_file_too(tmp_path: Path) -> None:
    evil = Picture("evil-1", "<script>&amp;", "place", drawn()[0][0].pictures[0].svg)
    assert "&lt;script&gt;&amp;amp;" in files(tmp_path, Chart([evil], []))["evil-1"]
    assert heading_of(tmp_path / "evil-1.svg") == "<script>&amp;"


def test_what_vega_is_given_is_valid_by_its_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines with their intervals, and a waterfall: a page does not check what it draws."""
    as_dict = alt.LayerChart.to_dict
    checked: list[set[str]] = []

    def check(chart: alt.LayerChart, **_: Any) -> dict[str, Any]:
        spec = as_dict(chart, validate=True)
        checked.append({layer["mark"]["type"] for layer in spec["layer"]})
        return spec

    monkeypatch.setattr(alt.LayerChart, "to_dict", check)
    data, of = h200_with_steps(), study()
    charts = charts_of(of, data, Terms.of(of, data))
    assert len(checked) == sum(len(chart.pictures) for chart in charts.values()) > 8
    assert set.union(*checked) == {"bar", "line", "point", "rect", "rule", "text"}
    wrong = over([]).mark_line()
    wrong["description"] = 5
    with pytest.raises(SchemaValidationError):
        svg_of([wrong])


@pytest.mark.processes
def test_the_same_tables_give_the_same_bytes(root: Path, tmp_path: Path) -> None:
    """In processes that order sets differently: this one at random."""
    data: Tables = audited(root, h200())
    for name, kind in TABLES.items():
        (tmp_path / f"{name}.csv").write_text(written(kind, getattr(data, name)))
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
        found = sorted(path for path in folder.rglob("*") if path.is_file())
        made.append({path.relative_to(folder): path.read_bytes() for path in found})
    assert len(made[0]) == 4
    assert made[0] == made[1]

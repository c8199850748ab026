"""The page's charts as files of their own; and that the same tables give the same bytes."""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import pytest
from markupsafe import escape
from page_tables import ROOT, h200, plain_page

from command_line import must
from dpscale.plan.study import Study
from dpscale.present.charts.chart import Chart, Picture
from dpscale.present.charts.files import heading_of, write_charts
from dpscale.present.study.charts import charts_of
from dpscale.present.text.words import Terms
from dpscale.tables.tables import TABLES, written
from pictures import SVG

# Whole pages, again and again.
pytestmark = pytest.mark.slow

NOTE = "Synthetic images."


@cache
def drawn() -> tuple[Sequence[Chart], str]:
    """The charts of the study on record, and its page."""
    study = Study.read(ROOT / "config/recorded.yaml").values
    return list(charts_of(study, h200(), Terms.of(study, h200())).values()), plain_page()


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


@pytest.mark.processes
def test_the_same_tables_give_the_same_bytes(root: Path, tmp_path: Path) -> None:
    """In processes that order sets differently: this one at random."""
    data = h200()
    few = replace(data, communication=[], collectives=[], training_curves=[], frontier=[])
    for name, kind in TABLES.items():
        (tmp_path / f"{name}.csv").write_text(written(kind, getattr(few, name)))
    (tmp_path / "study.yaml").write_text("study: h200\n")
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

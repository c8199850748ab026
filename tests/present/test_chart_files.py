"""The page's charts as files of their own; and that the same tables give the same bytes."""

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import pytest
from markupsafe import escape
from page_tables import ROOT, audited, h200, plain_page

from dpscale.plan.study import Study
from dpscale.present.charts.picture import Chart, Picture, heading_of, write_charts
from dpscale.present.page import charts_of, render
from dpscale.present.text.words import Terms
from html_reader import SVG

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
        assert root.attrib["viewBox"] == f"0 0 {paper.attrib['width']} {paper.attrib['height']}"


def test_text_of_others_is_text_in_a_file_too(tmp_path: Path) -> None:
    evil = Picture("evil-1", "<script>&amp;", "place", drawn()[0][0].pictures[0].svg)
    assert "&lt;script&gt;&amp;amp;" in files(tmp_path, Chart([evil], []))["evil-1"]
    assert heading_of(tmp_path / "evil-1.svg") == "<script>&amp;"


def test_the_same_tables_give_the_same_bytes(root: Path, example: Path) -> None:
    """Here and in the process of `make example`, which orders sets differently."""
    study = Study.read(root / "config/recorded.yaml").values
    page = render(study, audited(root, h200()), "recorded-audit.html")
    assert (example / "report/recorded.html").read_text() == page

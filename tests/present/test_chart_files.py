"""The page's charts as files of their own; and that the same tables give the same bytes."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from page_tables import audited, h200, plain_page

from dpscale.plan.study import Study
from dpscale.present.charts.charts import charts_of
from dpscale.present.charts.picture import Chart, write_charts
from dpscale.present.page import render
from dpscale.present.text.words import Terms
from pictures import texts

# Whole pages, again and again.
pytestmark = pytest.mark.slow


def files(folder: Path, *charts: Chart) -> dict[str, str]:
    write_charts(charts, folder)
    return {path.stem: path.read_text() for path in folder.iterdir()}


def test_every_picture_of_the_page_is_a_file_that_needs_no_page(root: Path, tmp_path: Path) -> None:
    study, page = Study.read(root / "config/recorded.yaml").values, plain_page()
    (tmp_path / "stale-1.svg").write_text("<svg/>")
    written = files(tmp_path, *charts_of(study, h200(), Terms.of(study, h200())).values())
    assert set(written) == set(re.findall(r'<figure id="([^"]*)"', page))
    for svg in written.values():
        assert "var(" not in svg and "currentColor" not in svg
        assert " ".join(texts(svg)).count(ElementTree.fromstring(svg).attrib["aria-label"]) == 1
    assert files(tmp_path) == {}


def test_the_same_tables_give_the_same_bytes(root: Path, example: Path) -> None:
    """Here and in the process of `make example`, which orders sets differently."""
    study = Study.read(root / "config/recorded.yaml").values
    page = render(study, audited(root, h200()), "recorded-audit.html")
    assert (example / "report/recorded.html").read_text() == page

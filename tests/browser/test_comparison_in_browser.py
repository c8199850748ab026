"""The page of two studies in a real browser: offline, light and dark, wide and narrow."""

from pathlib import Path

import pytest
from offline import loaded_offline, wider_than
from playwright.sync_api import Browser
from test_page import LABELS_THAT_OVERLAP, TEXT_OUTSIDE_ITS_CHART

from dpscale.analyse.comparison import compare
from dpscale.present.comparison import render
from two_studies import side, slower, study

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study against one with a name that fits nowhere, fewer batches, and long facts about where it ran."""

    def change(cell, record):
        slower(1.5, "ddp")(cell, record)
        record["hardware"]["host"] = "node-" + "x" * 120
        record["provenance"]["git_dirty"] = True

    other = side("a_study_with_a_very_long_name_" * 3, change, study(batch_per_gpu=[32, 128]))
    file = tmp_path_factory.mktemp("report") / "compared.html"
    file.write_text(render(compare(side("before"), other)))
    return file


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no-scripts"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_asks_for_nothing_and_fits(
    browser: Browser,
    page_file: Path,
    width: int,
    scheme: str,
    scripts: bool,
) -> None:
    with loaded_offline(browser, page_file, width, scheme, scripts) as page:
        assert wider_than(page, width, "body, header, nav, section, figure, svg, h1, li, dd") == []
        assert page.locator("svg[role=img]").count() == 1 + 5


def test_ids_are_unique_links_lead_somewhere_and_text_stays_in_its_chart(
    browser: Browser,
    page_file: Path,
    width: int,
) -> None:
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme="dark")
    page.goto(page_file.as_uri())
    page.evaluate("document.querySelectorAll('details').forEach(details => details.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(element => element.id)")
    assert len(ids) == len(set(ids))
    links = page.evaluate("[...document.querySelectorAll('a[href^=\"#\"]')].map(link => link.hash.slice(1))")
    assert set(links) <= set(ids)
    assert page.evaluate(TEXT_OUTSIDE_ITS_CHART) == []
    assert page.evaluate(LABELS_THAT_OVERLAP) == []
    page.close()

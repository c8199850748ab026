"""The page in a real browser, from a file: offline, scripts on and off, light and dark, wide and narrow."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from page_tables import audited, h200
from playwright.sync_api import Browser, Page
from variant_tables import with_variants

from dpscale.plan.study import Study
from dpscale.present.study.page import render
from dpscale.tables.study import RejectedRow
from offline import (
    IN_PAIRS,
    LABELS_THAT_OVERLAP,
    OPEN_ALL,
    TEXT_OUTSIDE_ITS_CHART,
    Scheme,
    loaded_offline,
    opened,
    wider_than,
)


@pytest.fixture(scope="module")
def page_file(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    data, others = audited(root, h200()), with_variants()
    data = replace(
        data,
        variants=others.variants,
        one_gpu=others.one_gpu,
        records=[replace(row, throttle_reasons="software power cap") for row in data.records],
        rejected=[RejectedRow(path="a.json", reason="long " * 60 + "x" * 200)],
    )
    file = tmp_path_factory.mktemp("report") / "h200.html"
    file.write_text(render(Study.read(root / "config/recorded.yaml").values, data))
    return file


@pytest.mark.parametrize(("width", "scheme", "scripts"), IN_PAIRS)
def test_page_asks_for_nothing_and_fits(
    browser: Browser, page_file: Path, width: int, scheme: Scheme, scripts: bool
) -> None:
    with loaded_offline(browser, page_file, width, scheme, scripts) as page:
        # Of the elements only the tables' own containers may be wider than the window.
        assert wider_than(page, width, "body, header, nav, section, figure, svg") == []
        assert page.locator("svg[role=img]").count() == 12


def test_other_peoples_figures_are_one_click_away_and_lead_back(
    browser: Browser, recorded_file: Path, published_file: Path, width: int
) -> None:
    with loaded_offline(browser, published_file, width, "light", scripts=False) as page:
        assert wider_than(page, width, "body, header, nav, article, li") == []
    page = browser.new_page()
    page.goto(recorded_file.as_uri())
    page.get_by_role("link", name="Other people's figures").click()
    assert page.url == published_file.as_uri()
    page.get_by_role("link", name="recorded", exact=True).click()
    assert page.url == recorded_file.as_uri()
    page.close()


@pytest.fixture(scope="module")
def page(browser: Browser, page_file: Path, width: int) -> Iterator[Page]:
    """No test changes it."""
    page = opened(browser, page_file, width, "dark")
    yield page
    page.close()


def test_it_does_not_scroll_sideways_and_ids_are_unique_and_references_resolve(page: Page, width: int) -> None:
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(element => element.id)")
    assert len(ids) == len(set(ids))
    links = page.evaluate("[...document.querySelectorAll('a[href^=\"#\"]')].map(link => link.hash.slice(1))")
    labels = page.evaluate(
        "[...document.querySelectorAll('[aria-labelledby]')].map(one => one.getAttribute('aria-labelledby'))"
    )
    assert set(links) | set(labels) <= set(ids)


@pytest.fixture(scope="module", params=["page_file", "recorded_file"])
def resized(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Page]:
    """A page that is opened once, and then shown at every width."""
    page = opened(browser, request.getfixturevalue(request.param))
    yield page
    page.close()


def test_text_of_charts_is_inside_and_apart(resized: Page, width: int) -> None:
    resized.set_viewport_size({"width": width, "height": 900})
    assert resized.evaluate(TEXT_OUTSIDE_ITS_CHART) == []
    assert resized.evaluate(LABELS_THAT_OVERLAP) == []


SMALL_TEXT = """
() => [...document.querySelectorAll('svg text')].filter(text => {
  const svg = text.closest('svg');
  return 11 * svg.getBoundingClientRect().width / svg.viewBox.baseVal.width < 10.99;
}).map(text => text.textContent)
"""


def test_text_of_charts_is_11_px_or_more_on_a_phone(resized: Page) -> None:
    resized.set_viewport_size({"width": 390, "height": 900})
    assert resized.evaluate(SMALL_TEXT) == []
    resized.set_viewport_size({"width": 320, "height": 900})
    assert resized.evaluate(SMALL_TEXT) != [], "what is too small is found"


def test_the_first_screen_has_the_answer_a_chart_and_what_to_do_first(browser: Browser, recorded_file: Path) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.goto(recorded_file.as_uri())
    for part in (".answer", "#table-answer", ".first figure", ".why", ".advice li:first-child"):
        box = page.locator(part).first.bounding_box()
        assert box and box["y"] > 0 and box["y"] + box["height"] <= 800, part
    page.close()


CUT = """
() => [...document.querySelectorAll('main *')].filter(element => {
  const look = getComputedStyle(element);
  const shown = element.checkVisibility() && !element.closest('svg') && look.clipPath === 'none';
  return shown && look.overflowX !== 'visible' && element.scrollWidth > element.clientWidth
    || shown && look.overflowY !== 'visible' && element.scrollHeight > element.clientHeight + 1;
}).map(element => element.getAttribute('aria-label') || element.outerHTML.slice(0, 80))
"""


def test_nothing_is_cut_of_what_is_not_folded(browser: Browser, recorded_file: Path) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(recorded_file.as_uri())
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate(CUT) == [], width
    page.evaluate(OPEN_ALL)
    assert page.evaluate(CUT) != [], "what is cut is found"
    page.close()


@pytest.mark.slow
def test_what_is_open_is_printed(browser: Browser, recorded_file: Path) -> None:
    page = browser.new_page()
    page.goto(recorded_file.as_uri())
    folded = printed_pages(page)
    assert 4 < folded <= 10
    page.evaluate(OPEN_ALL)
    assert printed_pages(page) > folded
    page.close()


def printed_pages(page: Page) -> int:
    return len(re.findall(rb"/Type\s*/Page\b", page.pdf(prefer_css_page_size=True)))


def test_charts_are_images_with_a_name(page: Page) -> None:
    assert page.get_by_role("img", name="4 GPUs. Efficiency in % against batch").count() == 1

"""Every page in a real browser, from its file: offline, scripts on and off, light and dark, wide and narrow."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from page_tables import audited, h200
from playwright.sync_api import Browser

from dpscale.tables.study import RejectedRow
from offline import (
    BROKEN_WORDS,
    IN_PAIRS,
    LABELS_THAT_OVERLAP,
    REACHING_BEYOND,
    TEXT_OUTSIDE_ITS_CHART,
    WRONG_IDS,
    Scheme,
    loaded_offline,
    opened,
)
from recorded import recorded_study, recorded_tables, without_charts

# Of the elements only the tables' own containers may be wider than the window.
FITTING = "body, header, nav, section, article, figure, svg, h1, li, dd"


@pytest.fixture(scope="module")
def page_file(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    data, variants = audited(root, h200()), recorded_tables(root, "recorded-h200-4")
    data = replace(
        data,
        variants=variants.variants,
        one_gpu=variants.one_gpu,
        rejected=[RejectedRow(path="a.json", reason="long " * 60 + "x" * 200)],
    )
    file = tmp_path_factory.mktemp("report") / "h200.html"
    file.write_text(without_charts(recorded_study(root, "recorded").values, data))
    return file


@pytest.mark.parametrize(("kind", "width", "scheme", "scripts"), IN_PAIRS)
def test_a_page_asks_for_nothing_fits_and_its_references_resolve(
    browser: Browser, request: pytest.FixtureRequest, kind: str, width: int, scheme: Scheme, scripts: bool
) -> None:
    with loaded_offline(browser, request.getfixturevalue(kind), width, scheme, scripts) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(REACHING_BEYOND, [width, FITTING]) == []
        assert page.evaluate(WRONG_IDS) == []


@pytest.mark.parametrize("width", [1280, 390])
def test_text_of_charts_is_inside_and_apart(browser: Browser, recorded_file: Path, width: int) -> None:
    page = opened(browser, recorded_file, width)
    assert page.evaluate(TEXT_OUTSIDE_ITS_CHART) == []
    assert page.evaluate(LABELS_THAT_OVERLAP) == []
    page.close()


def test_the_first_screen_has_the_answer_a_chart_and_what_to_do_first(browser: Browser, recorded_file: Path) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.goto(recorded_file.as_uri())
    for selector in (".answer", "#table-answer", ".first figure", ".why", ".advice li:first-child"):
        box = page.locator(selector).first.bounding_box()
        assert box and box["y"] > 0 and box["y"] + box["height"] <= 800, selector
    page.close()


def test_on_a_phone_tables_scroll_under_their_first_column_and_no_word_is_broken(
    browser: Browser, recorded_file: Path
) -> None:
    page = opened(browser, recorded_file)
    page.set_viewport_size({"width": 390, "height": 900})
    table, first = page.locator(".scroll:has(#table-1)"), page.locator("#table-1 tr:nth-child(2) th").first
    before = first.bounding_box()
    assert table.evaluate("region => { region.scrollLeft = 200; return region.scrollLeft }") == 200
    assert first.bounding_box() == before
    assert page.evaluate(BROKEN_WORDS) == []
    page.close()


@pytest.mark.slow
def test_the_recorded_study_is_printed_on_10_pages_at_most(browser: Browser, recorded_file: Path) -> None:
    page = browser.new_page()
    page.goto(recorded_file.as_uri())
    assert 4 < len(re.findall(rb"/Type\s*/Page\b", page.pdf(prefer_css_page_size=True))) <= 10
    page.close()

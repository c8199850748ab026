"""The page of two studies in a real browser: offline, light and dark, wide and narrow."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from offline import IN_PAIRS, LABELS_THAT_OVERLAP, TEXT_OUTSIDE_ITS_CHART, Scheme, loaded_offline, opened, wider_than


@pytest.mark.parametrize(("width", "scheme", "scripts"), IN_PAIRS)
def test_page_asks_for_nothing_and_fits(
    browser: Browser,
    compared_file: Path,
    width: int,
    scheme: Scheme,
    scripts: bool,
) -> None:
    with loaded_offline(browser, compared_file, width, scheme, scripts) as page:
        assert wider_than(page, width, "body, header, nav, section, figure, svg, h1, li, dd") == []
        assert page.locator("svg[role=img]").count() == 1


def test_ids_are_unique_links_lead_somewhere_and_text_stays_in_its_chart(
    browser: Browser,
    compared_file: Path,
    width: int,
) -> None:
    page = opened(browser, compared_file, width, "dark")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(element => element.id)")
    assert len(ids) == len(set(ids))
    links = page.evaluate("[...document.querySelectorAll('a[href^=\"#\"]')].map(link => link.hash.slice(1))")
    assert set(links) <= set(ids)
    assert page.evaluate(TEXT_OUTSIDE_ITS_CHART) == []
    assert page.evaluate(LABELS_THAT_OVERLAP) == []
    page.close()


LETTERS_IN_PIXELS = """
() => [...document.querySelectorAll('figure svg text')]
  .map(text => [parseFloat(getComputedStyle(text).fontSize), text.getScreenCTM()])
  .map(([size, matrix]) => size * Math.hypot(matrix.a, matrix.b))
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("file", ["compared_file", "compared_studies_file"])
def test_charts_can_be_read_at_every_width(
    browser: Browser,
    request: pytest.FixtureRequest,
    file: str,
    width: int,
    scheme: Scheme,
) -> None:
    with loaded_offline(browser, request.getfixturevalue(file), width, scheme, scripts=False) as page:
        letters = page.evaluate(LETTERS_IN_PIXELS)
        assert letters
        assert 10.99 <= min(letters) <= max(letters) <= 16
        assert page.evaluate(TEXT_OUTSIDE_ITS_CHART) == []
        assert page.evaluate(LABELS_THAT_OVERLAP) == []
        assert wider_than(page, width, "body, header, nav, section, figure, svg, h1, li, dd") == []

"""The page of two studies in a real browser: offline, light and dark, wide and narrow."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from offline import IN_PAIRS, Scheme, loaded_offline, opened, wider_than


@pytest.mark.parametrize(("width", "scheme", "scripts"), IN_PAIRS)
def test_page_asks_for_nothing_and_fits(
    browser: Browser,
    compared_file: Path,
    width: int,
    scheme: Scheme,
    scripts: bool,
) -> None:
    with loaded_offline(browser, compared_file, width, scheme, scripts) as page:
        assert wider_than(page, width, "body, header, nav, section, h1, li, dd") == []


def test_ids_are_unique_links_lead_somewhere(
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
    page.close()

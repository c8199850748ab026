"""What the page adds where scripts are on: the general table is sorted. And what it holds where they are off."""

from base64 import b64decode
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import pytest
from playwright.sync_api import Browser, Page

from offline import loaded_offline


@pytest.fixture(scope="module")
def page(browser: Browser, recorded_file: Path) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, offline=True)
    page = context.new_page()
    page.goto(recorded_file.as_uri())
    yield page
    context.close()


def test_without_scripts_what_is_handed_in_is_a_link_that_holds_it(browser: Browser, recorded_file: Path) -> None:
    with loaded_offline(browser, recorded_file, 1280, "light", scripts=False) as page:
        assert page.locator("button").count() == 0
        link = page.locator("a[download='handin.zip']").get_attribute("href") or ""
        with ZipFile(BytesIO(b64decode(link.partition(",")[2]))) as archive:
            assert archive.namelist() == ["report.tex", "report.md", "tables.csv"]


def column(page: Page, number: int) -> list[str]:
    return page.locator(f"#table-general tbody td:nth-child({number})").all_inner_texts()


def test_the_general_table_is_sorted_by_a_click_and_words_stand_last(page: Page) -> None:
    before = column(page, 5)
    efficiency = page.locator("#table-general th", has_text="Efficiency")
    efficiency.get_by_role("button").click()
    known = [float(cell) for cell in before if cell != "–"]
    assert [float(cell) for cell in column(page, 5)[: len(known)]] == sorted(known, reverse=True)
    assert set(column(page, 5)[len(known) :]) == {"–"}
    assert efficiency.get_attribute("aria-sort") == "descending"
    efficiency.get_by_role("button").click()
    assert [float(cell) for cell in column(page, 5)[: len(known)]] == sorted(known)
    assert set(column(page, 5)[len(known) :]) == {"–"}
    batch = page.locator("#table-general th", has_text="Batch")
    batch.get_by_role("button").click()
    batches = [int(cell.replace(",", "")) for cell in column(page, 3)]
    assert batches == sorted(batches, reverse=True)
    assert [efficiency.get_attribute("aria-sort"), batch.get_attribute("aria-sort")] == [None, "descending"]

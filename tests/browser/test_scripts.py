"""What the page adds where scripts are on: a table is copied with one click, and the general table is sorted."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from offline import loaded_offline


@pytest.fixture(scope="module")
def page(browser: Browser, recorded_file: Path) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, offline=True)
    context.grant_permissions(["clipboard-read"])
    page = context.new_page()
    page.goto(recorded_file.as_uri())
    yield page
    context.close()


@pytest.mark.parametrize("form", ["Markdown", "LaTeX", "CSV"])
def test_a_table_is_copied_with_one_click(page: Page, form: str) -> None:
    copies = page.locator(".copies").first
    copies.get_by_role("button", name=f"Copy {form}").click()
    assert copies.get_by_role("button", name=f"Copied {form}").count() == 1
    shown = copies.locator("details", has_text=form).locator("pre").text_content()
    assert shown and len(shown.splitlines()) > 10
    assert page.evaluate("navigator.clipboard.readText()") == shown


def test_without_scripts_a_table_is_selected_with_one_click_and_its_csv_is_a_link(
    browser: Browser, recorded_file: Path
) -> None:
    with loaded_offline(browser, recorded_file, 1280, "light", scripts=False) as page:
        assert page.locator("button").count() == 0
        text = page.locator(".copies pre").first
        text.click()
        assert page.evaluate("getSelection().toString().trim()") == (text.text_content() or "").strip()
        link = page.locator(".copies a").first
        assert link.get_attribute("download") == "table-1.csv"
        assert (link.get_attribute("href") or "").startswith("data:text/csv")


def column(page: Page, number: int) -> list[str]:
    return page.locator(f"#table-general tbody td:nth-child({number})").all_inner_texts()


def test_the_general_table_is_sorted_by_a_click_and_words_stand_last(page: Page) -> None:
    before = column(page, 6)
    efficiency = page.locator("#table-general th", has_text="Efficiency")
    efficiency.get_by_role("button").click()
    known = [float(cell) for cell in before if cell != "–"]
    assert [float(cell) for cell in column(page, 6)[: len(known)]] == sorted(known, reverse=True)
    assert set(column(page, 6)[len(known) :]) == {"–"}
    assert efficiency.get_attribute("aria-sort") == "descending"
    efficiency.get_by_role("button").click()
    assert [float(cell) for cell in column(page, 6)[: len(known)]] == sorted(known)
    assert set(column(page, 6)[len(known) :]) == {"–"}
    batch = page.locator("#table-general th", has_text="Batch")
    batch.get_by_role("button").click()
    batches = [int(cell.replace(",", "")) for cell in column(page, 3)]
    assert batches == sorted(batches, reverse=True)
    assert [efficiency.get_attribute("aria-sort"), batch.get_attribute("aria-sort")] == [None, "descending"]


def test_a_column_of_words_is_sorted_too(page: Page) -> None:
    page.locator("#table-general th", has_text="Strategy").get_by_role("button").click()
    assert column(page, 1) == sorted(column(page, 1), reverse=True)

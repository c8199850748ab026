"""Snakemake's own report of a real study, in a real browser, offline: page, charts and tables, with captions."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from dpscale.tables.tables import TABLES
from offline import listen
from project import Project

pytestmark = [pytest.mark.browser, pytest.mark.snakemake]

# As a data URL; beyond, browsers show a white frame and no error.
FRAME_LIMIT_BYTES = 1_500_000


@pytest.fixture(scope="module")
def report_file(finished: Project) -> Path:
    before = times(finished.folder)
    done = finished.snakemake("--report", "snakemake.html")
    assert done.returncode == 0, done.stdout
    assert times(finished.folder) == before, "a report makes and measures nothing again"
    return finished.folder / "snakemake.html"


def times(folder: Path) -> dict[Path, int]:
    places = (folder / "results", folder / "report")
    return {path: path.stat().st_mtime_ns for place in places for path in place.rglob("*") if path.is_file()}


@pytest.fixture
def report(browser: Browser, report_file: Path) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1400, "height": 900}, offline=True)
    page = context.new_page()
    requests, _ = listen(page)
    page.goto(report_file.as_uri())
    yield page
    assert [url for url in requests if not url.startswith(("data:", "blob:"))] == [report_file.as_uri()]
    context.close()


def entries(report: Page, category: str) -> list[str]:
    """The labels that are listed under a category."""
    report.get_by_text(category, exact=True).first.click()
    return [row.inner_text().strip() for row in report.locator("tbody tr").all()]


def describe(report: Page, entry: str) -> str:
    """Open what the report says of an entry of the open category."""
    report.locator("tbody tr", has_text=entry).first.locator("a").last.click()
    return report.locator(".prose-invert").inner_text()


def test_the_page_shows_in_its_frame(report: Page, finished: Project) -> None:
    assert finished.page.stat().st_size * 4 / 3 < FRAME_LIMIT_BYTES
    assert entries(report, "Page") == ["tiny"]
    assert describe(report, "tiny")
    report.locator("span a").first.click()
    frame = report.frame_locator("iframe")
    assert f">{frame.locator('h1').inner_text()}</h1>" in finished.page.read_text()
    assert frame.locator("table:visible").first.is_visible()


def test_every_chart_is_listed_and_shows(report: Page, finished: Project) -> None:
    files = sorted(path.stem for path in (finished.folder / "results/tiny/charts").glob("*.svg"))
    labels = [label.split(": ") for label in entries(report, "Charts")]
    assert [name for name, _ in labels] == files
    assert all(text for _, text in labels), "each says what it shows"
    assert describe(report, "efficiency-1")
    report.locator("span a").first.click()
    image = report.locator("img[src*='filename=efficiency-1.svg']")
    assert image.evaluate("async image => { await image.decode(); return image.naturalWidth; }") > 0


def test_every_table_is_listed(report: Page) -> None:
    assert entries(report, "Tables") == sorted(TABLES)

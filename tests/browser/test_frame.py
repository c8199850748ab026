"""The page in a frame from a data URL, as Snakemake's report and JupyterLab show it, also where scripts are blocked."""

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, FrameLocator, Page

from offline import listen

WIDTH, HEIGHT = 1000, 700


@pytest.fixture(scope="module", params=["", "sandbox"], ids=["free", "no scripts"])
def around(
    request: pytest.FixtureRequest, browser: Browser, recorded_file: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Page]:
    """A page with nothing in it but the frame, opened offline, for all tests below in turn."""
    source = f"data:text/html;charset=utf8;base64,{base64.b64encode(recorded_file.read_bytes()).decode()}"
    file = tmp_path_factory.mktemp("frame") / "frame.html"
    style = f"width: {WIDTH}px; height: {HEIGHT}px; border: 0"
    file.write_text(
        f'<!DOCTYPE html><title>Frame</title><iframe {request.param} style="{style}" src="{source}"></iframe>'
    )
    context = browser.new_context(viewport={"width": WIDTH + 20, "height": HEIGHT + 20}, offline=True)
    page = context.new_page()
    page.set_default_timeout(20_000)
    requests, complaints = listen(page)
    page.goto(file.as_uri())
    page.screenshot()
    # Before the test looks into the frame: where no script may run, the tools that look complain that theirs do not.
    assert complaints == []
    yield page
    assert [url for url in requests if not url.startswith("data:")] == [file.as_uri()]
    context.close()


@pytest.fixture
def frame(around: Page) -> FrameLocator:
    return around.frame_locator("iframe")


def test_it_shows_with_its_own_style(frame: FrameLocator) -> None:
    assert frame.locator("h1").is_visible()
    # The Content-Security-Policy lets the page's own style in: without it, charts would be as wide as the window.
    box = frame.locator("figure svg").first.bounding_box()
    assert box and box["width"] < WIDTH * 0.6


def test_links_go_to_their_sections(frame: FrameLocator) -> None:
    links = frame.locator("nav a")
    assert links.count() > 5
    for link in links.all()[-2:]:
        target = frame.locator(str(link.get_attribute("href")))
        link.click()
        box = target.bounding_box()
        assert box and -1 < box["y"] < HEIGHT, "the section is in view"

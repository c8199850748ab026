"""The page in a frame from a data URL, as Snakemake's report and JupyterLab show it, also where scripts are blocked."""

import base64
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from offline import listen

WIDTH, HEIGHT = 1000, 700


@pytest.mark.parametrize("sandbox", ["", "sandbox"], ids=["free", "no scripts"])
def test_it_shows_in_a_frame_with_its_own_style_and_links_lead_to_their_sections(
    browser: Browser, recorded_file: Path, tmp_path: Path, sandbox: str
) -> None:
    source = f"data:text/html;charset=utf8;base64,{base64.b64encode(recorded_file.read_bytes()).decode()}"
    file = tmp_path / "frame.html"
    style = f"width: {WIDTH}px; height: {HEIGHT}px; border: 0"
    file.write_text(f'<!DOCTYPE html><title>Frame</title><iframe {sandbox} style="{style}" src="{source}"></iframe>')
    context = browser.new_context(viewport={"width": WIDTH + 20, "height": HEIGHT + 20}, offline=True)
    page = context.new_page()
    page.set_default_timeout(20_000)
    requests, complaints = listen(page)
    page.goto(file.as_uri())
    page.screenshot()
    # Before the test looks into the frame: where no script may run, the tools that look complain that theirs do not.
    assert complaints == []
    frame = page.frame_locator("iframe")
    assert frame.locator("h1").is_visible()
    # The Content-Security-Policy lets the page's own style in: without it, charts would be as wide as the window.
    chart = frame.locator("figure svg").first.bounding_box()
    assert chart and chart["width"] < WIDTH * 0.6
    for link in frame.locator("nav a").all()[-2:]:
        link.click()
        section = frame.locator(str(link.get_attribute("href"))).bounding_box()
        assert section and -1 < section["y"] < HEIGHT, "the section is in view"
    assert [url for url in requests if not url.startswith("data:")] == [file.as_uri()]
    context.close()

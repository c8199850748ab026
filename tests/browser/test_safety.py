"""Text of others stays text in a real browser, and what gets into the page nevertheless does not run."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hostile_tables import BENIGN, HOSTILE, hostile_page
from playwright.sync_api import Browser, Page

from offline import OPEN_ALL

ELEMENTS = """() => {
  const count = {};
  for (const element of document.querySelectorAll('*')) count[element.tagName] = (count[element.tagName] || 0) + 1;
  return count;
}"""
HANDLERS = """() => [...document.querySelectorAll('*')].flatMap(element =>
  [...element.attributes].filter(attribute => attribute.name.startsWith('on')).map(attribute => attribute.name))
"""
INJECTED = """
<script>window.ran = 'script'</script>
<img src="data:image/png;base64,AAAA" alt="" onerror="window.ran = 'handler'">
<p id="pressed" onclick="window.ran = 'click'">Press</p>
<p style="position: fixed">styled</p>
<a id="javascript" href="javascript:window.ran = 'link'">Link</a>
<iframe src="https://example.org/"></iframe>
<img src="https://example.org/pixel.png" alt="">
"""


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 390, "height": 900}, offline=True)
    yield context.new_page()
    context.close()


def opened(page: Page, html: str, folder: Path) -> list[str]:
    """Open it with all details open; what the console says, and what becomes of requests beyond the page itself."""
    messages: list[str] = []
    file = folder / "page.html"
    file.write_text(html)
    page.on("console", lambda message: messages.append(message.text))
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.on("dialog", lambda dialog: messages.append(dialog.message))
    page.on("requestfailed", lambda request: messages.append(f"{request.failure}: {request.url}"))
    page.on("requestfinished", lambda request: messages.append(request.url) if request.url.startswith("http") else None)
    page.goto(file.as_uri())
    page.evaluate(OPEN_ALL)
    return messages


@pytest.mark.parametrize("kind", HOSTILE)
def test_text_of_others_adds_no_element_runs_nothing_and_widens_nothing(
    page: Page, browser: Browser, tmp_path: Path, kind: str
) -> None:
    assert opened(page, hostile_page(HOSTILE[kind]), tmp_path) == []
    assert page.evaluate("window.ran") is None
    assert page.evaluate(HANDLERS) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    elements = page.evaluate(ELEMENTS)
    opened(page, hostile_page(BENIGN), tmp_path)
    assert page.evaluate(ELEMENTS) == elements


def test_what_is_injected_does_not_run_and_the_console_says_why(page: Page, tmp_path: Path) -> None:
    html = hostile_page(BENIGN)
    messages = opened(page, html.replace("</body>", f"{INJECTED}</body>"), tmp_path)
    page.locator("#pressed").click()
    page.locator("#javascript").click()
    page.wait_for_timeout(200)
    assert page.evaluate("window.ran") is None
    assert page.evaluate("getComputedStyle(document.querySelector('#pressed + p')).position") == "static"
    assert "csp: https://example.org/pixel.png" in messages
    assert [line for line in messages if line.startswith("http")] == []
    for directive in ("script-src", "style-src", "frame-src", "img-src"):
        assert any("Content Security Policy" in line and directive in line for line in messages), directive
    assert sum("inline script" in line or "inline event handler" in line for line in messages) >= 3

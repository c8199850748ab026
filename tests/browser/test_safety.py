"""Text of others stays text in a real browser, and what gets into the page nevertheless does not run."""

from pathlib import Path

import pytest
from hostile_tables import BENIGN, HOSTILE, hostile_page
from playwright.sync_api import Browser

from offline import listen, loaded_offline

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


def written(html: str, folder: Path) -> Path:
    file = folder / "page.html"
    file.write_text(html)
    return file


@pytest.mark.parametrize("kind", ["markup", "long"])
def test_text_of_others_adds_no_element_runs_nothing_and_widens_nothing(
    browser: Browser, tmp_path: Path, kind: str
) -> None:
    elements = []
    for text in (HOSTILE[kind], BENIGN):
        file = written(hostile_page(text), tmp_path)
        with loaded_offline(browser, file, 390, "light", scripts=True) as page:
            assert page.evaluate("window.ran") is None
            assert page.evaluate(HANDLERS) == []
            assert page.evaluate("document.documentElement.scrollWidth") <= 390
            elements.append(page.evaluate(ELEMENTS))
    assert elements[0] == elements[1]


def test_injected_code_does_not_run_and_the_console_says_why(browser: Browser, tmp_path: Path) -> None:
    page = browser.new_page()
    _, complaints = listen(page)
    file = written(hostile_page(BENIGN).replace("</body>", f"{INJECTED}</body>"), tmp_path)
    page.goto(file.as_uri())
    page.locator("#pressed").click()
    page.locator("#javascript").click()
    page.wait_for_timeout(200)
    assert page.evaluate("window.ran") is None
    assert page.evaluate("getComputedStyle(document.querySelector('#pressed + p')).position") == "static"
    for directive in ("script-src", "style-src", "frame-src", "img-src"):
        assert any("Content Security Policy" in line and directive in line for line in complaints), directive
    assert sum("inline script" in line or "inline event handler" in line for line in complaints) >= 3
    page.close()

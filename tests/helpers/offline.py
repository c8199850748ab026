"""A page loaded from its file as a reader may: offline, with or without scripts, everything folded out."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, Page

Scheme = Literal["light", "dark"]
# Page, width, scheme and whether scripts run: every page in both widths and schemes, and every two of the others
# together.
IN_PAIRS: tuple[tuple[str, int, Scheme, bool], ...] = (
    ("page_file", 1280, "light", True), ("page_file", 390, "dark", True),
    ("recorded_file", 1280, "dark", False), ("recorded_file", 390, "light", False),
    ("published_file", 1280, "light", True), ("published_file", 390, "dark", True),
    ("compared_file", 1280, "dark", False), ("compared_file", 390, "light", False),
)  # fmt: skip
OPEN_ALL = "document.querySelectorAll('details').forEach(details => details.open = true)"
TEXT_OUTSIDE_ITS_CHART = """
() => [...document.querySelectorAll('svg')].flatMap(svg => {
  const frame = svg.getBoundingClientRect();
  return [...svg.querySelectorAll('text')]
    .filter(text => {
      const box = text.getBoundingClientRect();
      return box.left < frame.left - 1 || box.right > frame.right + 1
        || box.top < frame.top - 1 || box.bottom > frame.bottom + 1;
    })
    .map(text => text.textContent);
})
"""
LABELS_THAT_OVERLAP = """
() => [...document.querySelectorAll('svg')].flatMap(svg => {
  // Vega hides labels of an axis that have no room, and leaves them in the drawing.
  const boxes = [...svg.querySelectorAll('text:not([opacity="0"])')]
    .map(text => [text.textContent, text.getBoundingClientRect()]);
  const meet = (a, b) => a.left < b.right - 1 && b.left < a.right - 1;
  const hides = (a, b) => meet(a, b) && a.top < b.bottom - 3 && b.top < a.bottom - 3;
  return boxes.flatMap(([one, a], at) =>
    boxes.slice(at + 1).filter(([, b]) => hides(a, b)).map(([other]) => one + ' / ' + other));
})
"""

REACHING_BEYOND = """
([width, elements]) => [...document.querySelectorAll(elements)]
  .filter(element => element.getClientRects().length && element.getBoundingClientRect().right > width)
  .map(element => element.outerHTML.slice(0, 80))
"""
# Words of tables that are not in one line.
BROKEN_WORDS = """
() => [...document.querySelectorAll('table *')].flatMap(element => [...element.childNodes]).filter(
  node => node.nodeType === Node.TEXT_NODE && node.parentElement.checkVisibility()
    && !node.parentElement.closest('caption')
).flatMap(node => [...node.data.matchAll(/[^\\s-]+/g)].filter(word => {
  const range = new Range();
  range.setStart(node, word.index);
  range.setEnd(node, word.index + word[0].length);
  return new Set([...range.getClientRects()].map(line => line.top)).size > 1;
}).map(word => word[0]))
"""
# Ids that two elements have, and references to an id that none has.
WRONG_IDS = """
() => {
  const ids = [...document.querySelectorAll('[id]')].map(element => element.id);
  const references = [...document.querySelectorAll('a[href^="#"], [aria-labelledby]')]
    .map(element => element.getAttribute('aria-labelledby') ?? element.hash.slice(1));
  return [...ids.filter((id, at) => ids.indexOf(id) !== at), ...references.filter(id => !ids.includes(id))];
}
"""

# Options of axe.
# Not what passes: that is ten times as long.
EVERYTHING = {"resultTypes": ["violations"]}
# Takes axe most of its time, and no width of the window changes a colour.
ALL_BUT_CONTRAST = {**EVERYTHING, "rules": {"color-contrast": {"enabled": False}}}
# Takes rows out of tables that look as a row before: elements, classes, and where text is. Axe looks at every cell.
ONE_ROW_OF_EACH_LOOK = """() => document.querySelectorAll('tbody').forEach(body => {
  const looks = new Set();
  for (const row of [...body.rows]) {
    const look = row.innerHTML.replace(/>[^<]+/g, '>text');
    if (looks.has(look)) row.remove();
    looks.add(look);
  }
})"""


def listen(page: Page) -> tuple[list[str], list[str]]:
    """Two lists that fill from now on: addresses that the page asks for, and complaints of its console and scripts."""
    requests: list[str] = []
    complaints: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    return requests, complaints


def opened(browser: Browser, file: Path, width: int = 1280, scheme: Scheme = "light") -> Page:
    """The page with everything folded out. Who opens it closes it."""
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page.goto(file.as_uri())
    page.evaluate(OPEN_ALL)
    return page


@contextmanager
def loaded_offline(browser: Browser, file: Path, width: int, scheme: Scheme, scripts: bool) -> Iterator[Page]:
    """The page, which asked for nothing but itself and complained of nothing."""
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, java_script_enabled=scripts, offline=True
    )
    page = context.new_page()
    requests, complaints = listen(page)
    page.goto(file.as_uri())
    page.evaluate(OPEN_ALL)
    assert [url for url in requests if not url.startswith("data:")] == [file.as_uri()]
    assert complaints == []
    yield page
    context.close()

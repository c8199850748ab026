"""Whether everybody can read the page: axe, and the keyboard alone."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from offline import ALL_BUT_CONTRAST, EVERYTHING, ONE_ROW_OF_EACH_LOOK, Scheme, opened

# What a scheme of colours can change.
CONTRAST = {**EVERYTHING, "runOnly": ["color-contrast"]}
# What must be reached with the Tab key, marked so that it can be told.
MARK_STOPS = """() => {
  const stops = [...document.querySelectorAll('a[href], summary, button, [tabindex="0"]')]
    .filter(element => element.checkVisibility() && element.getClientRects().length);
  stops.forEach((element, at) => element.dataset.stop = at);
  return stops.length;
}"""
FOCUSED = """() => {
  const element = document.activeElement, style = getComputedStyle(element);
  const seen = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0;
  return [element.dataset.stop ?? null, seen, element.outerHTML.slice(0, 80)];
}"""


@pytest.fixture(scope="module", params=["recorded_file", "published_file", "compared_file"])
def resized(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Page]:
    """A page that is opened once, and then shown at every width in every scheme."""
    page = opened(browser, request.getfixturevalue(request.param))
    page.evaluate(ONE_ROW_OF_EACH_LOOK)
    yield page
    page.close()


@pytest.mark.parametrize(
    ("width", "scheme", "options"),
    [
        (1280, "light", EVERYTHING),
        (390, "light", ALL_BUT_CONTRAST),
        (1280, "dark", CONTRAST),
    ],
)
def test_axe_finds_nothing(resized: Page, width: int, scheme: Scheme, options: Mapping[str, Any]) -> None:
    resized.set_viewport_size({"width": width, "height": 900})
    resized.emulate_media(color_scheme=scheme)
    violations = Axe().run(resized, options=dict(options)).response["violations"]
    assert [(rule["id"], [node["html"] for node in rule["nodes"]][:5]) for rule in violations] == []


@pytest.fixture
def page(browser: Browser, recorded_file: Path) -> Iterator[Page]:
    page = opened(browser, recorded_file, 390)
    yield page
    page.close()


def test_the_keyboard_reaches_everything_and_is_seen_there(page: Page) -> None:
    stops = page.evaluate(MARK_STOPS)
    assert stops > 30
    reached, unseen = set(), []
    for _ in range(stops):
        page.keyboard.press("Tab")
        stop, seen, html = page.evaluate(FOCUSED)
        reached.add(stop)
        if not seen:
            unseen.append(html)
    assert len(reached - {None}) == stops
    assert unseen == []


def test_the_first_stop_leads_past_the_contents(page: Page) -> None:
    for key in ("Tab", "Enter", "Tab"):
        page.keyboard.press(key)
    assert page.evaluate("document.activeElement.closest('nav')") is None
    assert page.evaluate("document.activeElement.closest('#content') !== null")

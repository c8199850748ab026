"""Whether everybody can read the page: axe, the keyboard alone, and every chart as a table."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from offline import Scheme, opened

# Not what passes: that is ten times as long.
ALL_BUT_CONTRAST = {"resultTypes": ["violations"], "rules": {"color-contrast": {"enabled": False}}}
# Takes axe most of its time, and no width of the window changes a colour.
CONTRAST = {"resultTypes": ["violations"], "runOnly": ["color-contrast"]}
# Takes rows out of tables whose elements and classes are those of a row before: axe would look at every cell.
ONE_ROW_OF_EACH_LOOK = """() => document.querySelectorAll('tbody').forEach(body => {
  const looks = new Set();
  for (const row of [...body.rows]) {
    const look = row.innerHTML.replace(/>[^<]*/g, '>');
    if (looks.has(look)) row.remove();
    looks.add(look);
  }
})"""
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
# Every container that scrolls sideways, and can then only be read with the keyboard if it takes the focus.
SCROLLING = """() => [...document.querySelectorAll('body *')]
  .filter(element => element.scrollWidth > element.clientWidth + 1
    && ['auto', 'scroll'].includes(getComputedStyle(element).overflowX) && element.tabIndex !== 0)
  .map(element => element.outerHTML.slice(0, 80))
"""
# Of every figure: its name, its description, and the text of all cells of tables in the same section.
FIGURES = """() => [...document.querySelectorAll('figure svg[role=img]')].map(svg => {
  const section = svg.closest('.first') ? document.querySelector('#speedup') : svg.closest('section');
  const cells = [...section.querySelectorAll('td, th')].map(cell => cell.textContent);
  return [svg.getAttribute('aria-labelledby'), svg.querySelector('desc').textContent, cells];
})
"""
DESCRIBED = re.compile(r"(−?[\d,.]+(?:e−?\d+)?)(?: [^ ]+)? at [\d,]+")
NUMBER = re.compile(r"^−?[\d,]+(?:\.\d+)?")


@pytest.fixture(scope="module", params=["recorded_file", "published_file", "compared_file", "compared_studies_file"])
def resized(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Page]:
    """A page that is opened once, and then shown at every width in every scheme."""
    page = opened(browser, request.getfixturevalue(request.param))
    yield page
    page.close()


@pytest.mark.parametrize(
    ("width", "scheme", "options"),
    [
        (1280, "light", ALL_BUT_CONTRAST),
        (390, "light", ALL_BUT_CONTRAST),
        (1280, "light", CONTRAST),
        (1280, "dark", CONTRAST),
    ],
)
def test_axe_finds_nothing(resized: Page, width: int, scheme: Scheme, options: Mapping[str, Any]) -> None:
    resized.set_viewport_size({"width": width, "height": 900})
    resized.emulate_media(color_scheme=scheme)
    if options is CONTRAST:
        resized.evaluate(ONE_ROW_OF_EACH_LOOK)
    violations = Axe().run(resized, options=dict(options)).response["violations"]
    assert [(rule["id"], [node["html"] for node in rule["nodes"]][:5]) for rule in violations] == []


def test_axe_would_find_something(browser: Browser) -> None:
    page = browser.new_page()
    page.set_content("<img src='data:,'><p style='color: #777; background: #999'>faint</p>")
    assert {"image-alt", "color-contrast"} <= {rule["id"] for rule in Axe().run(page).response["violations"]}
    page.close()


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


def test_what_scrolls_takes_the_focus(page: Page) -> None:
    assert page.evaluate(SCROLLING) == []


def test_every_chart_is_a_table_too(page: Page) -> None:
    """The ends of every line, as the chart's description has them, are in cells of the same section, to the digits
    shown. Curves are means over seeds: the table has every seed, here the arms must be in it."""
    figures = page.evaluate(FIGURES)
    assert len(figures) > 7
    for name, description, cells in figures:
        if name.startswith("test-accuracy"):
            arms = {line.split(":")[0].strip() for line in re.findall(r"(?:^|\. )([^:.]+):", description)}
            assert arms <= set(cells), name
            continue
        shown = [number_of(number[0]) for cell in cells if (number := NUMBER.match(cell))]
        for value in DESCRIBED.findall(description):
            wanted, digit = number_of(value)
            assert any(abs(wanted - number) <= (digit + unit) / 2 * 1.001 for number, unit in shown), f"{name}: {value}"


def number_of(text: str) -> tuple[float, float]:
    """A number as the page writes it, and the value of its last digit shown."""
    plain = text.replace(",", "").replace("−", "-").rstrip(".")
    decimals = len(plain.partition("e")[0].partition(".")[2])
    return float(plain), 10.0**-decimals

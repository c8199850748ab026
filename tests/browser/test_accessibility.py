"""Whether everybody can read the page: axe, the keyboard alone, and every chart as a table."""

import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from offline import Scheme, opened

# Not what passes: that is ten times as long.
ONLY_VIOLATIONS = {"resultTypes": ["violations"], "selectors": False}
# Contrast takes axe most of its time. What has the same colours and letters in both schemes, its own and those that it
# stands on, has the same contrast: one element of each look is enough. The width of the window changes none (see the
# test of that), and a dark scheme changes colours and nothing else.
CONTRAST = {**ONLY_VIOLATIONS, "runOnly": ["color-contrast"]}
ALL_BUT_CONTRAST = {**ONLY_VIOLATIONS, "rules": {"color-contrast": {"enabled": False}}}
ONE_OF_EACH_LOOK = {"include": [["[data-look]"]]}
SCHEMES: tuple[Scheme, ...] = ("light", "dark")
# Of every element: what its contrast is worked out from, and whether it is shown.
# Contrast depends on whether text is large: from 18 px on. Where rows are stacked, cells name themselves.
LOOKS = """() => [...document.querySelectorAll('body, body *')].map(element => {
  if (element.closest('.stacked thead')) return 'heading';
  const style = getComputedStyle(element);
  return [element.checkVisibility(), style.color, style.backgroundColor, style.backgroundImage, style.fill,
    style.opacity, style.filter, style.mixBlendMode, style.textShadow, parseFloat(style.fontSize) < 18,
    style.fontWeight].join(' ');
})"""
# Given the looks of all elements: marks one with text of its own for each look that it and all around it have together.
# Returns how many it marked, and of how many.
MARK_LOOKS = """looks => {
  const together = new Map(), numbers = new Map(), marked = new Set();
  let texts = 0;
  [...document.querySelectorAll('body, body *')].forEach((element, place) => {
    const look = looks[place] + ' in ' + together.get(element.parentElement);
    if (!numbers.has(look)) numbers.set(look, numbers.size);
    together.set(element, numbers.get(look));
    if (![...element.childNodes].some(node => node.nodeType === Node.TEXT_NODE && node.data.trim())) return;
    texts += 1;
    if (!marked.has(look)) element.dataset.look = '';
    marked.add(look);
  });
  return [marked.size, texts];
}"""
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


def resize(page: Page, width: int, scheme: Scheme) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=scheme)


@pytest.mark.parametrize("window", [1200, 390])
def test_axe_finds_nothing_but_perhaps_faint_colours(resized: Page, window: int) -> None:
    resize(resized, window, "light")
    assert violations(resized, ALL_BUT_CONTRAST) == []


@pytest.mark.usefixtures("looks")
@pytest.mark.parametrize("scheme", SCHEMES)
def test_no_colour_is_too_faint(resized: Page, scheme: Scheme) -> None:
    resize(resized, 1200, scheme)
    assert violations(resized, CONTRAST, ONE_OF_EACH_LOOK) == []


def violations(
    page: Page, options: dict[str, Any], context: dict[str, Any] | None = None
) -> list[tuple[str, str, list[str]]]:
    found = Axe().run(page, context=context, options=options).response["violations"]
    return [(rule["id"], rule["help"], [node["html"] for node in rule["nodes"]][:5]) for rule in found]


@pytest.fixture(scope="module")
def looks(resized: Page) -> dict[tuple[int, Scheme], list[str]]:
    """By width and scheme. The elements of the page are marked, one of each look in both schemes."""
    found = {}
    for at in product((390, 1200), SCHEMES):
        resize(resized, *at)
        found[at] = resized.evaluate(LOOKS)
    of_both = zip(*(found[1200, scheme] for scheme in SCHEMES), strict=True)
    marked, texts = resized.evaluate(MARK_LOOKS, list(map(" ".join, of_both)))
    assert 10 < marked < texts / 5
    return found


@pytest.mark.parametrize("scheme", SCHEMES)
def test_no_width_changes_a_colour_or_hides_anything(
    looks: dict[tuple[int, Scheme], list[str]], scheme: Scheme
) -> None:
    """So that contrast on a wide page is contrast on a narrow one."""
    assert looks[390, scheme] == looks[1200, scheme]
    other: Scheme = "dark" if scheme == "light" else "light"
    assert looks[390, other] != looks[1200, scheme], "another scheme has other colours"


def test_axe_would_find_something(browser: Browser) -> None:
    page = browser.new_page()
    page.set_content("<img src='data:,'>")
    assert "image-alt" in [rule["id"] for rule in Axe().run(page).response["violations"]]
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
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.getBoundingClientRect().left") >= 0
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
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
        assert cells, f"{name}: no table in its section"
        if name.startswith("test-accuracy"):
            arms = {line.split(":")[0].strip() for line in re.findall(r"(?:^|\. )([^:.]+):", description)}
            assert arms <= set(cells), name
            continue
        shown = [number_of(found[0]) for cell in cells if (found := NUMBER.match(cell))]
        for value in DESCRIBED.findall(description):
            wanted, digit = number_of(value)
            assert any(abs(wanted - there) <= (digit + unit) / 2 * 1.001 for there, unit in shown), f"{name}: {value}"


def number_of(text: str) -> tuple[float, float]:
    """A number as the page writes it, and the value of its last digit shown."""
    plain = text.replace(",", "").replace("−", "-").rstrip(".")
    decimals = len(plain.partition("e")[0].partition(".")[2])
    return float(plain), 10.0**-decimals

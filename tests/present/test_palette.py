"""Contrast of the page's colours, after WCAG 2: 4.5 for text, 3 for graphics, light and dark."""

import re
from pathlib import Path

import pytest

from dpscale.present.text.html import style_of_pages
from dpscale.strategies.known import STRATEGIES

CSS = style_of_pages()
TEXT = ["ink", "quiet", "link", "caution", *STRATEGIES]  # colours of lines are those of their labels, too
GRAPHICS = [*STRATEGIES, "caution", "quiet"]
# Text on the marked rows of audits, and on bands.
ON_CELLS = [("ink", "oom"), ("ink", "none"), ("ink", "band"), ("caution", "band"), ("quiet", "band")]


def schemes() -> dict[str, dict[str, str]]:
    """The variables of both `:root` blocks; what the dark one does not say stays as it is in the light one."""
    light, dark = (
        dict(re.findall(r"--([\w-]+): *(#\w+)", block)) for block in re.findall(r":root {(.*?)}", CSS, re.S)[:2]
    )
    return {"light": light, "dark": {**light, **dark}}


def luminance(colour: str) -> float:
    """Relative luminance of `#rgb` or `#rrggbb`."""
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    shares = [int(digits[start : start + 2], 16) / 255 for start in (0, 2, 4)]
    red, green, blue = (share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(first: str, second: str) -> float:
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


def test_the_formula_is_wcags() -> None:
    assert contrast("#000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#fff") == pytest.approx(4.48, abs=0.005)


def test_dark_has_colours_of_its_own_for_all_that_is_drawn() -> None:
    found = schemes()
    assert [name for name in found["light"] if found["light"][name] == found["dark"][name]] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_and_graphics_stand_out(scheme: str) -> None:
    colours = schemes()[scheme]
    pairs = [(name, "paper", 4.5) for name in TEXT] + [(name, "paper", 3) for name in GRAPHICS]
    pairs += [(text, ground, 4.5) for text, ground in ON_CELLS]
    low = {pair: contrast(colours[pair[0]], colours[pair[1]]) for pair in pairs}
    assert {pair: ratio for pair, ratio in low.items() if ratio < pair[2]} == {}


def test_what_is_drawn_uses_only_these(root: Path) -> None:
    """A colour that a chart names and the style sheet lacks would be black on black in the dark."""
    code = "".join(path.read_text() for path in sorted((root / "workflow/dpscale/present").rglob("*.py")))
    drawn = set(re.findall(r"var\(--(\w+)\)", code))
    assert drawn and drawn <= set(schemes()["light"])

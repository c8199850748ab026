"""Colours of pictures: all that are drawn are there in light and dark, and can be read on paper of either."""

import re
from pathlib import Path

import pytest

from dpscale.present.text.html import style_of_pages

# Of lines, areas and frames; nothing is written in them.
NOT_OF_TEXT = {"grid"}


def schemes() -> list[dict[str, str]]:
    """Return the colours of both `:root` blocks, light and dark, by their variables' names."""
    blocks = re.findall(r":root {(.*?)}", style_of_pages(), re.S)[:2]
    return [dict(re.findall(r"--([\w-]+): *(#\w+)", block)) for block in blocks]


def luminance(colour: str) -> float:
    """Return the relative luminance of a colour, as WCAG 2.2 defines it."""
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    channels = [int(digits[place : place + 2], 16) / 255 for place in (0, 2, 4)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("scheme", schemes(), ids=["light", "dark"])
def test_text_in_a_colour_that_is_drawn_can_be_read_on_paper(root: Path, scheme: dict[str, str]) -> None:
    """A colour that a chart names and the style sheet lacks would be black on black in the dark."""
    code = "".join(path.read_text() for path in sorted((root / "workflow/dpscale/present").rglob("*.py")))
    drawn = set(re.findall(r"var\(--(\w+)\)", code)) - NOT_OF_TEXT
    assert {"quiet", "dp", "ddp"} <= drawn
    paper = luminance(scheme["paper"])
    for name in drawn | {"ink"}:
        darker, lighter = sorted((paper, luminance(scheme[name])))
        assert (lighter + 0.05) / (darker + 0.05) >= 4.5, name

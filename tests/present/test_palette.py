"""Every colour that is drawn is there in light and dark. tests/browser/test_accessibility.py looks at contrast."""

import re
from pathlib import Path

from dpscale.present.text.html import style_of_pages

CSS = style_of_pages()


def schemes() -> dict[str, dict[str, str]]:
    """The variables of both `:root` blocks; what the dark one does not say stays as it is in the light one."""
    light, dark = (
        dict(re.findall(r"--([\w-]+): *(#\w+)", block)) for block in re.findall(r":root {(.*?)}", CSS, re.S)[:2]
    )
    return {"light": light, "dark": {**light, **dark}}


def test_dark_has_colours_of_its_own_for_all_that_is_drawn() -> None:
    found = schemes()
    assert [name for name in found["light"] if found["light"][name] == found["dark"][name]] == []


def test_what_is_drawn_uses_only_these(root: Path) -> None:
    """A colour that a chart names and the style sheet lacks would be black on black in the dark."""
    code = "".join(path.read_text() for path in sorted((root / "workflow/dpscale/present").rglob("*.py")))
    drawn = set(re.findall(r"var\(--(\w+)\)", code))
    assert drawn and drawn <= set(schemes()["light"])

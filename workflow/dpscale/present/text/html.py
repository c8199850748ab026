"""From a template to HTML: what all pages share."""

import base64
import hashlib
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from dpscale.strategies.known import STRATEGIES

_TEMPLATES = Path(__file__).parents[1] / "template"
# It keeps the templates that it has compiled: several pages in one process compile them once.
_ENVIRONMENT = Environment(
    loader=FileSystemLoader(_TEMPLATES),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def fill(template: str, **values: Any) -> str:
    """The page that a template makes of `values`, with the style and the script of all pages.

    Pure, but for reading those files.
    """
    style, script = Markup(style_of_pages()), Markup((_TEMPLATES / "page.js").read_text())
    hashes = {"style_hash": _csp_hash(f"\n{style}"), "script_hash": _csp_hash(f"\n{script}")}
    return _ENVIRONMENT.get_template(template).render(style=style, script=script, **hashes, **values)


def style_of_pages() -> str:
    """The style sheet, with the colours of strategies where its comments `strategies, light` and `dark` stand."""
    style = (_TEMPLATES / "page.css").read_text()
    for place, scheme in enumerate(("light", "dark")):
        colours = " ".join(f"--{name}: {strategy.colour[place]};" for name, strategy in STRATEGIES.items())
        style = style.replace(f"/* strategies, {scheme} */", colours)
    return style


def _csp_hash(text: str) -> str:
    """How a Content-Security-Policy names an inline element's text."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"

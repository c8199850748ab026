"""From a template to HTML: what all pages share; and to plain text."""

import base64
import hashlib
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from dpscale.strategies.known import STRATEGIES
from dpscale.terminal import with_names

_TEMPLATES = Path(__file__).parents[1] / "template"


def _without_controls(value: Any) -> Any:
    """Return what a template shows without control characters; markup stays markup."""
    return type(value)(with_names(value)) if isinstance(value, str) else value


# It keeps the templates that it has compiled: several pages in one process compile them once.
ENVIRONMENT = Environment(
    loader=FileSystemLoader(_TEMPLATES),
    autoescape=True,
    undefined=StrictUndefined,
    finalize=_without_controls,
    trim_blocks=True,
    lstrip_blocks=True,
)
# The same for what is plain text.
TEXTS = ENVIRONMENT.overlay(autoescape=False)


def fill(template: str, **values: Any) -> str:
    """The page that a template makes of `values`, with the style of all pages.

    Pure, but for reading those files.
    """
    style = Markup(style_of_pages())
    # How a Content-Security-Policy names an inline element's text.
    digest = base64.b64encode(hashlib.sha256(f"\n{style}".encode()).digest()).decode()
    return ENVIRONMENT.get_template(template).render(style=style, style_hash=f"sha256-{digest}", **values)


def style_of_pages() -> str:
    """The style sheet, with the colours of strategies where its comments `strategies, light` and `dark` stand."""
    style = (_TEMPLATES / "page.css").read_text()
    for place, scheme in enumerate(("light", "dark")):
        colours = " ".join(f"--{name}: {strategy.colour[place]};" for name, strategy in STRATEGIES.items())
        style = style.replace(f"/* strategies, {scheme} */", colours)
    return style

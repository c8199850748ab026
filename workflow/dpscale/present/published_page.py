"""The page of other people's figures, beside the page of the study that names them."""

from collections.abc import Mapping
from typing import Any

from dpscale.present.downloads import csv_link
from dpscale.present.html import fill
from dpscale.present.published import blocks
from dpscale.present.words import Tables


def render(study: Mapping[str, Any], tables: Tables, page: str) -> str:
    """The page as HTML. `page` is the file name of the study's own page. Pure, but for reading its own template."""
    return fill(
        "published.html.j2",
        study=study,
        page=page,
        blocks=blocks(tables),
        audit_link=csv_link("audit", tables["audit"]),
    )

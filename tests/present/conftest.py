"""Charts of pages, each drawn once."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import vl_convert

Drawn = dict[str, str]


@pytest.fixture(scope="session", autouse=True)
def drawn() -> Iterator[Drawn]:
    """Charts by their specification: most pages of tests share most of their charts, and to draw them takes longest.

    A test that wants a chart drawn anew forgets them: `drawn.clear()`.
    """
    draw, found = vl_convert.vegalite_to_svg, Drawn()

    def draw_once(specification: dict[str, Any]) -> str:
        key = json.dumps(specification, sort_keys=True)
        if key not in found:
            found[key] = draw(specification)
        return found[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vl_convert, "vegalite_to_svg", draw_once)
        yield found

"""SVG for the page: smaller, and the same picture."""

import re

import pytest

from dpscale.present.charts.svg import for_page

HEAD = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><g transform="translate(1,1)">'
SQUARE = '<path d="M-3,-3h6v6h-6Z" transform="translate({},5.04)" fill="{}"/>'


def made(inside: str) -> str:
    svg = for_page(f"{HEAD}{inside}</g></svg>", "a", "T", "D")
    found = re.search(r'<g fill="none" transform="translate\(1,1\)">(.*)</g></svg>', svg)
    assert found
    return found[1]


@pytest.mark.parametrize(
    ("drawn", "smaller"),
    [
        # Of one look: one path. Of others: in their order.
        (
            SQUARE.format(10, "red") + SQUARE.format("20.06", "red"),
            '<path fill="red" d="M7,2h6v6h-6zM17.1,2h6v6h-6z"/>',
        ),
        (
            SQUARE.format(5, "red") + SQUARE.format(5, "blue") + SQUARE.format(5, "red"),
            "".join(f'<path fill="{colour}" d="M2,2h6v6h-6z"/>' for colour in ("red", "blue", "red")),
        ),
        # Where two translucent ones overlap it is darker.
        (2 * '<path d="M0,0L1,1Z" opacity="0.2"/>', 2 * '<path opacity="0.2" d="M0,0l1,1z"/>'),
        # Shapes, also in groups of groups.
        ('<path d="M2,0A2,2,0,1,1,-2,0" transform="translate(5,5)"/>', '<path d="M7,5a2,2,0,1,1,-4,0"/>'),
        (
            '<g transform="translate(1,0)"><g><line transform="translate(1,2)" x2="0" y2="-3"/></g></g>',
            '<path d="M2,2l0,-3"/>',
        ),
        ('<path d="M0,0L1e-9,5L-2,7"/>', '<path d="M0,0l0,5l-2,2"/>'),
        # Nothing to see.
        ('<path class="background" d="M0,0h9v9h-9Z"/><text></text><g></g><path d="M0,0h2"/>', '<path d="M0,0h2"/>'),
        (
            "".join(f'<text text-anchor="end" transform="translate(1,{y})" fill="red">{y}</text>' for y in (2, 3)),
            '<g fill="red" text-anchor="end"><text x="1" y="2">2</text><text x="1" y="3">3</text></g>',
        ),
        (
            '<text transform="translate(-3,5) rotate(-90) translate(0,-2)">a</text>',
            '<g><text transform="translate(-3,5) rotate(-90) translate(0,-2)">a</text></g>',
        ),
    ],
)
def test_the_picture_stays_the_same(drawn: str, smaller: str) -> None:
    assert made(drawn) == smaller


@pytest.mark.parametrize("drawn", ['<path d="M0,0C1,1,2,2,3,3"/>', '<path d="M0,0" transform="scale(2)"/>'])
def test_what_would_be_another_picture_is_refused(drawn: str) -> None:
    with pytest.raises(ValueError, match=r"C|scale"):
        made(drawn)

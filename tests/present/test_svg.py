"""SVG for the page: smaller, and the same picture."""

import re

from dpscale.present.charts.svg import for_page

HEAD = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9">'


def made(inside: str) -> str:
    svg = for_page(f"{HEAD}{inside}</svg>", "a", "T", "D")
    found = re.search("</desc>(.*)</svg>", svg)
    assert found
    return found[1]


def test_marks_of_one_look_become_one_path() -> None:
    square = '<path d="M-3,-3h6v6h-6Z" transform="translate({},5.04)" fill="red"/>'
    assert made(square.format(10) + square.format("20.06")) == ('<path d="M7,2h6v6h-6zM17.1,2h6v6h-6z" fill="red"/>')


def test_marks_of_other_looks_keep_their_order() -> None:
    triangle = '<path d="M0,-1L2,1L-2,1Z" transform="translate(10,10)" fill="{}"/>'
    drawn = made(triangle.format("red") + triangle.format("blue") + triangle.format("red"))
    assert re.findall(r'fill="(\w+)"', drawn) == ["red", "blue", "red"]
    assert drawn.count('d="M10,9l2,2l-4,0z"') == 3


def test_circles_and_lines_keep_their_shape() -> None:
    assert made('<path d="M2,0A2,2,0,1,1,-2,0" transform="translate(5,5)"/>') == '<path d="M7,5a2,2,0,1,1,-4,0"/>'
    assert made('<line transform="translate(1,2)" x2="0" y2="-3"/>') == '<path d="M1,2l0,-3"/>'


def test_translucent_marks_stay_apart() -> None:
    band = '<path d="M0,0L1,1Z" opacity="0.2"/>'
    assert made(band + band).count("<path") == 2


def test_texts_of_one_look_share_it() -> None:
    text = '<text text-anchor="end" transform="translate(1,{})" fill="red">{}</text>'
    assert made(text.format(2, "a") + text.format(3, "b")) == (
        '<g fill="red" text-anchor="end"><text x="1" y="2">a</text><text x="1" y="3">b</text></g>'
    )


def test_turned_text_keeps_its_turn() -> None:
    assert 'transform="translate(-3,5) rotate(-90)"' in made('<text transform="translate(-3,5) rotate(-90)">a</text>')

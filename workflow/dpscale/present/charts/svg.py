"""Vega-Lite as all charts use it, and from its SVG to one that can stand in a page: named, and a fifth as large.

Vega draws every mark as an element within groups of its own. Here those of one look in a row are one path. (An
optimiser for any SVG, scour, leaves it at three quarters of its size: it joins nothing.)
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple
from xml.etree.ElementTree import Element, SubElement, fromstring, register_namespace, tostring

import altair as alt
import vl_convert

from dpscale.present.charts.axes import HEIGHT, WIDTH

Entries = Sequence[Mapping[str, Any]]

# Pixels.
RIGHT = 104
LABEL_X = WIDTH + 14
_AROUND = {"left": 56, "right": RIGHT, "top": 8, "bottom": 42}
# Vega-Lite measures text with this font; page.css sets the same, as the SVG in the page says none.
_FONT, TEXT_SIZE = "DejaVu Sans", 11
INK, QUIET, PAPER, _GRID = "currentColor", "var(--quiet)", "var(--paper)", "var(--grid)"

CONFIG: dict[str, Any] = {
    "autosize": "none",
    "padding": _AROUND,
    "background": "transparent",
    "font": _FONT,
    "view": alt.ViewConfig(stroke=None),
    "text": alt.MarkConfig(align="left", baseline="middle", fontSize=TEXT_SIZE, color=INK),
    "axis": alt.AxisConfig(
        labelColor=INK,
        titleColor=INK,
        titleFontWeight="normal",
        labelFontSize=TEXT_SIZE,
        titleFontSize=TEXT_SIZE,
        gridColor=_GRID,
        domainColor=QUIET,
        tickColor=QUIET,
        labelOverlap=False,
        labelBound=False,
    ),
}
# What the entries themselves say.
COLOUR = alt.Color("colour:N", scale=None)
FILL, STROKE = alt.Fill("fill:N", scale=None), alt.Stroke("stroke:N", scale=None)
LABEL = alt.Text("label:N")


_NAMESPACE = "http://www.w3.org/2000/svg"
_SVG = f"{{{_NAMESPACE}}}"
# What a mark may look like, and how it does where it does not say. Inside role="img" nothing else of it is read out,
# and the font is the page's.
_LOOK = {
    "fill": "", "stroke": "", "stroke-width": "1", "stroke-dasharray": "1,0", "opacity": "1", "fill-opacity": "1",
    "text-anchor": "start",
}  # fmt: skip
_STEP = re.compile(r"([A-Za-df-z])([^A-Za-df-z]*)")  # e is of numbers
_MOVE = re.compile(r"translate\(([^,]*),([^)]*)\)(.*)")

register_namespace("", _NAMESPACE)


def over(entries: Entries) -> alt.Chart:
    return alt.Chart(alt.InlineData(values=list(entries)))


def svg_of(layers: Sequence[alt.Chart], width: float = WIDTH, height: float = HEIGHT, **config: Any) -> str:
    """The layers, one over the other, as vl-convert draws them.

    A test has altair check the specification: that takes longer than the drawing. Channels are objects and not text,
    because for every text altair makes a table of all its classes.
    """
    chart = alt.LayerChart(layer=layers, width=width, height=height, config=alt.Config(**{**CONFIG, **config}))
    return str(vl_convert.vegalite_to_svg(chart.to_dict(validate=False)))


class Drawn(NamedTuple):
    """A path, or a text at its place, without what others may have as well."""

    look: Mapping[str, str]
    place: Mapping[str, str]
    text: str = ""


def for_page(svg: str, name: str, title: str, description: str) -> str:
    """The SVG as an image with an accessible name and description, whose ids start with `name`.

    Raises ValueError for what Vega does not draw today.
    """
    drawn = fromstring(svg)
    labels = {"aria-labelledby": f"{name}-title", "aria-describedby": f"{name}-description"}
    image = Element(f"{_SVG}svg", {"viewBox": drawn.attrib["viewBox"], "role": "img", **labels})
    SubElement(image, f"{_SVG}title", {"id": f"{name}-title"}).text = title
    SubElement(image, f"{_SVG}desc", {"id": f"{name}-description"}).text = description
    for plot in drawn:
        parent = SubElement(image, f"{_SVG}g", {"fill": "none", "transform": plot.attrib["transform"]})
        for (look, is_text), marks in groupby(_marks(plot, 0, 0), key=lambda mark: (mark.look, bool(mark.text))):
            if is_text:
                _add_texts(parent, look, list(marks))
            else:
                _add_paths(parent, look, [mark.place["d"] for mark in marks])
    return tostring(image, encoding="unicode").replace(" />", "/>")


def _add_texts(parent: Element, look: Mapping[str, str], marks: list[Drawn]) -> None:
    group = SubElement(parent, f"{_SVG}g", dict(look))
    for mark in marks:
        SubElement(group, f"{_SVG}text", dict(mark.place)).text = mark.text


def _add_paths(parent: Element, look: Mapping[str, str], ways: list[str]) -> None:
    """As one path, unless they are translucent."""
    is_opaque = not {"opacity", "fill-opacity"} & look.keys()
    for way in ["".join(ways)] if is_opaque else ways:
        SubElement(parent, f"{_SVG}path", {**look, "d": way})


def _marks(group: Element, x: float, y: float) -> Iterator[Drawn]:
    """All that can be seen in a group at (x, y), in its order."""
    for element in group:
        found = _MOVE.match(element.get("transform", "translate(0,0)"))
        if found is None:
            raise ValueError(f"a mark is moved by {element.get('transform')}")
        at_x, at_y, turned = x + float(found[1]), y + float(found[2]), found[3]
        look = {key: element.attrib[key] for key, usual in _LOOK.items() if element.get(key, usual) != usual}
        if "stroke" not in look:
            look.pop("stroke-width", None)
        kind = element.tag.removeprefix(_SVG)
        if kind == "g":
            yield from _marks(element, at_x, at_y)
        elif kind == "text" and element.text:
            place = {"x": _short(at_x), "y": _short(at_y)}
            turn = {"transform": f"translate({place['x']},{place['y']}){turned}"}
            yield Drawn(look, turn if turned else place, element.text)
        elif kind == "line":
            yield Drawn(look, {"d": _way(f"M0,0L{element.attrib['x2']},{element.attrib['y2']}", at_x, at_y)})
        elif kind == "path" and element.get("class") not in ("background", "foreground"):
            yield Drawn(look, {"d": _way(element.attrib["d"], at_x, at_y)})


def _way(path: str, x: float, y: float) -> str:
    """A path, moved to (x, y), by relative steps. Raises ValueError."""
    way = ""
    here = (0.0, 0.0)
    for command, text in _STEP.findall(path):
        numbers = [round(float(number), 1) for number in text.replace(",", " ").split()]
        if command in ("M", "L", "A"):
            *others, to_x, to_y = numbers
            from_x, from_y = (-x, -y) if command == "M" else here
            numbers = [*others, to_x - from_x, to_y - from_y]
            here = (to_x, to_y)
        elif command in ("h", "v"):
            here = (here[0] + numbers[0], here[1]) if command == "h" else (here[0], here[1] + numbers[0])
        elif command != "Z":
            raise ValueError(f"a path has the step {command}")
        way += (command if command == "M" else command.lower()) + ",".join(map(_short, numbers))
    return way


def _short(number: float) -> str:
    """A tenth of a pixel is as much as can be seen."""
    text = f"{number:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text

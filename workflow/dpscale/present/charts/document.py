"""A picture as an SVG document of its own: for files, and for notebooks.

It has no page to take heading, colours and font from: it gets those of the page on paper, which is light.
"""

import re
import textwrap
from collections.abc import Mapping
from xml.etree import ElementTree

from dpscale.present.text.html import style_of_pages

_NAMESPACE = "http://www.w3.org/2000/svg"
SVG = f"{{{_NAMESPACE}}}"
ElementTree.register_namespace("", _NAMESPACE)
_COLOUR = re.compile(r"--([\w-]+): *(#\w+)")
_VARIABLE = re.compile(r"var\(--([\w-]+)\)")
_FONT, _FONT_PX, _LINE_PX, _CHARACTER_PX = "DejaVu Sans, Verdana, sans-serif", 11, 15, 7


def document(svg: str, heading: str, subtitle: str) -> str:
    """The SVG of a page as a document with its heading above it."""
    root = ElementTree.fromstring(svg)
    colours = _light_colours()
    for element in root.iter():
        for key, value in element.attrib.items():
            plain = _VARIABLE.sub(lambda variable: colours[variable[1]], value)
            element.set(key, plain.replace("currentColor", colours["ink"]))
    root.attrib |= {"fill": colours["ink"], "font-family": _FONT, "font-size": str(_FONT_PX)}
    _set_heading(root, {heading: "bold", subtitle: "normal"})
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def _light_colours() -> Mapping[str, str]:
    """The colours of the pages' style sheet's first `:root`, which is the light scheme's, by their variables' names."""
    style = style_of_pages()
    return dict(_COLOUR.findall(style[style.index(":root") :].split("}", 1)[0]))


def _set_heading(root: ElementTree.Element, paragraphs: Mapping[str, str]) -> None:
    """Put the paragraphs, by their weights, above the picture, and paper under all of it."""
    left, top, width, height = (float(number) for number in root.attrib["viewBox"].split())
    lines = [
        (line, weight)
        for text, weight in paragraphs.items()
        for line in textwrap.wrap(text, int(width / _CHARACTER_PX))
    ]
    heading_px = _LINE_PX * (len(lines) + 1)
    top -= heading_px
    box = {"x": left, "y": top, "width": width, "height": height + heading_px}
    place = {key: f"{value:g}" for key, value in box.items()}
    root.attrib |= {"viewBox": " ".join(place.values()), "width": place["width"], "height": place["height"]}
    added = [ElementTree.Element(f"{SVG}rect", {**place, "fill": "#fff"})]
    for number, (line, weight) in enumerate(lines, 1):
        at = {"x": f"{left + _LINE_PX / 2:g}", "y": f"{top + _LINE_PX * number:g}", "font-weight": weight}
        added.append(ElementTree.Element(f"{SVG}text", at))
        added[-1].text = line
    described = sum(element.tag in (f"{SVG}title", f"{SVG}desc") for element in root)
    root[described:described] = added

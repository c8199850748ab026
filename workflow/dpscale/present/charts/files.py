"""The charts of a page as SVG files of their own, for slides, documents and Snakemake's report.

They are taken from the page, so that they are exactly what it shows. A file of its own has no page to take heading,
colours and font from: it gets those of the page on paper, which is light.
"""

import html
import re
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

from dpscale.records.files import write_text

_SVG = "{http://www.w3.org/2000/svg}"
_FIGURE = re.compile(r"<figure\b.*?<figcaption\b[^>]*>(.*?)</figcaption>.*?(<svg\b.*?</svg>)", re.DOTALL)
_TAG = re.compile(r"<[^>]*>")
_END_OF_BLOCK = re.compile(r"</(?:h\d|p)>")
_TITLE = re.compile(r"<title\b[^>]*>(.*?)</title>", re.DOTALL)
_COLOUR = re.compile(r"--([\w-]+): *(#\w+)")
_VARIABLE = re.compile(r"var\(--([\w-]+)\)")
_FONT, _FONT_PX, _LINE_PX, _CHARACTER_PX = "DejaVu Sans, Verdana, sans-serif", 11, 15, 7


def charts_of(page: str) -> dict[str, str]:
    """Every chart of `page`, as `page.render` made it: SVG documents by name such as `epoch-time-1`."""
    colours = light_colours(page)
    charts = {}
    for caption, svg in _FIGURE.findall(page):
        chart = ElementTree.fromstring(svg)
        _set_colours(chart, colours)
        _set_heading(chart, _paragraphs(caption))
        name = chart.attrib["aria-labelledby"].removesuffix("-title")
        charts[name] = ElementTree.tostring(chart, encoding="unicode") + "\n"
    return charts


def write_charts(page: str, folder: Path) -> None:
    """Have `folder` hold the charts of `page`, and none of an earlier one. Raises RecordError."""
    folder.mkdir(parents=True, exist_ok=True)
    charts = {folder / f"{name}.svg": svg for name, svg in charts_of(page).items()}
    for path, svg in charts.items():
        write_text(path, svg)
    for path in set(folder.glob("*.svg")) - set(charts):
        path.unlink()


def light_colours(style: str) -> Mapping[str, str]:
    """The colours of a style sheet's first `:root`, which is the light scheme's, by the names of their variables."""
    return dict(_COLOUR.findall(style[style.index(":root") :].split("}", 1)[0]))


def heading_of(chart: Path) -> str:
    """The first sentence of what the chart in an SVG file says it shows."""
    found = _TITLE.search(chart.read_text())
    return html.unescape(found[1]).split(". ")[0] if found else ""


def _paragraphs(caption: str) -> list[str]:
    """The text of a caption's headings and paragraphs."""
    return [html.unescape(_TAG.sub("", block)).strip() for block in _END_OF_BLOCK.split(caption)]


def _set_colours(chart: ElementTree.Element, colours: Mapping[str, str]) -> None:
    for element in chart.iter():
        for key, value in element.attrib.items():
            plain = _VARIABLE.sub(lambda variable: colours[variable[1]], value)
            element.set(key, plain.replace("currentColor", colours["ink"]))
    chart.set("fill", colours["ink"])
    chart.set("font-family", _FONT)
    chart.set("font-size", str(_FONT_PX))


def _set_heading(chart: ElementTree.Element, paragraphs: Sequence[str]) -> None:
    """Put the paragraphs above the chart, and paper under all of it."""
    left, top, width, height = (float(number) for number in chart.attrib["viewBox"].split())
    lines = [
        (line, "bold" if text is paragraphs[0] else "normal")
        for text in paragraphs
        for line in textwrap.wrap(text, int(width / _CHARACTER_PX))
    ]
    heading_px = _LINE_PX * (len(lines) + 1)
    box = {"x": left, "y": top - heading_px, "width": width, "height": height + heading_px}
    place = {key: f"{value:g}" for key, value in box.items()}
    chart.set("viewBox", " ".join(place.values()))
    chart.set("width", place["width"])
    chart.set("height", place["height"])
    added = [ElementTree.Element(f"{_SVG}rect", {**place, "fill": "#fff"})]
    for number, (line, weight) in enumerate(lines, 1):
        attributes = {"x": f"{left + _LINE_PX / 2:g}", "y": f"{box['y'] + _LINE_PX * number:g}", "font-weight": weight}
        added.append(ElementTree.Element(f"{_SVG}text", attributes))
        added[-1].text = line
    described = sum(element.tag in (f"{_SVG}title", f"{_SVG}desc") for element in chart)
    chart[described:described] = added

"""What the pictures of a chart say, and what a reader of their axes sees."""

import re
from collections.abc import Iterator
from xml.etree import ElementTree

import numpy as np

from dpscale.present.charts.picture import HEIGHT, Chart

SVG = "{http://www.w3.org/2000/svg}"
_PLACE = re.compile(r"translate\(([-\d.e]+),\s*([-\d.e]+)\)")
# Pixels from the base line of a label to its middle.
_TO_MIDDLE = 3


def texts(svg: str) -> list[str]:
    """Return every text of the picture."""
    return [element.text or "" for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def headings(chart: Chart) -> list[str]:
    return [picture.heading for picture in chart.pictures]


def points(svg: str, colour: str, log: bool) -> list[tuple[float, float]]:
    """Return x and y of the markers of a colour as the axes' labels say: of x on a logarithmic axis, of y where it is
    `log`."""
    x_labels, y_labels = _groups(svg, "role-axis-label")
    values_of_x = _read([x for x, _, _ in x_labels], x_labels, log=True)
    values_of_y = _read([y - _TO_MIDDLE for _, y, _ in y_labels], y_labels, log)
    placed = [place for group in _groups(svg, "role-mark") for place in group]
    markers = [(x, y) for x, y, element in placed if element.get("fill") == colour and element.tag != f"{SVG}text"]
    return [
        (float(np.exp(np.polyval(values_of_x, x))), float((np.exp if log else np.abs)(np.polyval(values_of_y, y))))
        for x, y in markers
    ]


def beyond_the_plot(svg: str) -> list[float]:
    """Return the heights, in pixels, of markers and ends of intervals above or below the plot of lines."""
    placed = [(y, element) for group in _groups(svg, "role-mark") for _, y, element in group]
    heights = [height for y, element in placed for height in (y, y + float(element.get("y2", 0)))]
    return [height for height in heights if not 0 <= height <= HEIGHT]


Placed = tuple[float, float, ElementTree.Element]


def _groups(svg: str, kind: str) -> Iterator[list[Placed]]:
    """Yield the elements of every group of a kind, each with its place in pixels of the plot."""
    for group in ElementTree.fromstring(svg).iter(f"{SVG}g"):
        if kind in group.get("class", "").split():
            matches = [(_PLACE.match(element.get("transform", "")), element) for element in group]
            yield [(float(place[1]), float(place[2]), element) for place, element in matches if place]


def _read(pixels: list[float], labels: list[Placed], log: bool) -> list[float]:
    """Return the line that gives the number at a pixel, of labels at these pixels."""
    numbers = [float((element.text or "").replace(",", "")) for *_, element in labels]
    return list(np.polyfit(pixels, np.log(numbers) if log else numbers, 1))

"""What the pictures of a chart say and show."""

import re
from collections.abc import Sequence
from xml.etree import ElementTree

from dpscale.present.charts.chart import Chart

SVG = "{http://www.w3.org/2000/svg}"


def texts(svg: str) -> list[str]:
    """All that is written in the picture."""
    return [element.text or "" for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def description(svg: str) -> str:
    return next(ElementTree.fromstring(svg).iter(f"{SVG}desc")).text or ""


def headings(chart: Chart) -> list[str]:
    """With plain spaces before units."""
    return [picture.heading.replace("\u00a0", " ") for picture in chart.pictures]


def places(chart: Chart) -> list[str]:
    """What its pictures are of."""
    return [picture.subtitle.split(". ")[0] for picture in chart.pictures]


def paths(svg: str, **look: str) -> Sequence[str]:
    """The ways of the paths that have these attributes."""
    wanted = {name.replace("_", "-"): value for name, value in look.items()}
    found = ElementTree.fromstring(svg).iter(f"{SVG}path")
    return [path.get("d", "") for path in found if wanted.items() <= path.attrib.items()]


def starts(way: str) -> list[float]:
    """The x of every stroke of a path."""
    return [float(x) for x in re.findall(r"M(-?[\d.]+),", way)]

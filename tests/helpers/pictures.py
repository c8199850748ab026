"""What the pictures of a chart say and show."""

from xml.etree import ElementTree

from dpscale.present.charts.picture import Chart

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

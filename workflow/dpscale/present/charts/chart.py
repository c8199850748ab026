"""From panels to the chart that stands in the page: how much is drawn of them, and what is said of the rest."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from dpscale.present.charts.axes import Frame
from dpscale.present.charts.document import document
from dpscale.present.charts.lines import draw
from dpscale.present.charts.panel import Panel, Plot
from dpscale.present.charts.svg import for_page
from dpscale.present.charts.waterfall import Waterfall
from dpscale.present.text.words import listed

PANELS_DRAWN = 8
# These are small.
WATERFALLS_DRAWN = 16


@dataclass(frozen=True)
class Picture:
    """One panel of a chart: what to take away from it, what it is, and an SVG with its own title and description.

    `name` is that of its file.
    """

    name: str
    heading: str
    subtitle: str
    svg: str

    @classmethod
    def of(cls, name: str, plot: Plot, svg: str) -> "Picture":
        """`svg` is as vl-convert draws the plot."""
        # With no break between a number and its unit, where a heading runs over several lines.
        heading = re.sub(r"(?<=\d) (?=%|ms|s\b|GB/s)", "\u00a0", plot.heading)
        title = f"{plot.heading}. {plot.subtitle}"
        return cls(name, heading, plot.subtitle, for_page(svg, name, title, plot.description))


@dataclass(frozen=True)
class Chart:
    """Its pictures, and a sentence for all that was too much to draw."""

    pictures: Sequence[Picture]
    not_drawn: Sequence[str]

    def _repr_html_(self) -> str:
        """As a notebook shows it: pictures with their headings, in the colours of the page on paper."""
        return "\n".join(document(picture.svg, picture.heading, f"{picture.subtitle}.") for picture in self.pictures)


def chart_of_lines(name: str, panels: Sequence[Panel]) -> Chart:
    """The panels on axes that they share."""
    drawn = panels[:PANELS_DRAWN]
    frame = Frame.around(drawn)
    return chart_of(name, panels, [draw(panel, frame) for panel in drawn])


def chart_of_waterfalls(name: str, panels: Sequence[Waterfall]) -> Chart:
    return chart_of(name, panels, [panel.draw() for panel in panels[:WATERFALLS_DRAWN]])


def chart_of(name: str, plots: Sequence[Plot], drawn: Sequence[str]) -> Chart:
    """The first of the plots, with the SVGs that were drawn of them, and a sentence for the others."""
    pictures = [
        Picture.of(f"{name}-{number}", plot, svg)
        for number, (plot, svg) in enumerate(zip(plots, drawn, strict=False), 1)
    ]
    more = [plot.place for plot in plots[len(drawn) :]]
    return Chart(pictures, [f"Not drawn: {listed(more)}."] if more else [])

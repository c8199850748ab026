"""From panels to the chart that stands in the page: how much is drawn of them, and what is said of the rest."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from dpscale.present.charts.axes import Frame
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
    """Its pictures, and a sentence for all that was too much to draw, or cannot be drawn."""

    pictures: Sequence[Picture]
    not_drawn: Sequence[str]

    def _repr_html_(self) -> str:
        """As a notebook shows it."""
        return "\n".join(picture.svg for picture in self.pictures)


def chart_of_lines(name: str, panels: Sequence[Panel]) -> Chart:
    """The panels on axes that they share."""
    if not panels:
        return Chart([], [])
    drawn = [panel.thinned() for panel in panels[:PANELS_DRAWN]]
    frame = Frame.around(drawn)
    pictures = [(panel, draw(panel, frame)) for panel in drawn]
    return chart_of(name, panels, pictures, "points")


def chart_of_waterfalls(name: str, panels: Sequence[Waterfall]) -> Chart:
    return chart_of(name, panels, [(panel, panel.draw()) for panel in panels[:WATERFALLS_DRAWN]], "bars")


def chart_of(name: str, plots: Sequence[Plot], drawn: Sequence[tuple[Plot, str]], things: str) -> Chart:
    """Of the first of the plots, each as it was drawn and its SVG; with a sentence for the others, and one for every
    plot that has more `things` than were drawn."""
    pictures = [Picture.of(f"{name}-{number}", plot, svg) for number, (plot, svg) in enumerate(drawn, 1)]
    more = [plot.place for plot in plots[len(drawn) :]]
    left_out = [f"Not drawn: {listed(more)}."] if more else []
    left_out += [
        f"{plot.place}: {thin.size:,} of {plot.size:,} {things} are drawn."
        for plot, (thin, _) in zip(plots, drawn, strict=False)
        if thin.size < plot.size
    ]
    return Chart(pictures, left_out)


def joined(charts: Sequence[Chart]) -> Chart:
    """One chart of several that do not share their axes."""
    return Chart(
        [picture for chart in charts for picture in chart.pictures],
        [sentence for chart in charts for sentence in chart.not_drawn],
    )

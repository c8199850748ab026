"""Pictures of the page: how Vega-Lite draws all of them, each as an SVG with a name and a description, and their files.

Colours are CSS variables of the page, so that dark mode and print follow. A file has no page: it gets the colours of
the light scheme and its heading inside.
"""

import re
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from xml.etree import ElementTree
from xml.sax.saxutils import escape

import altair as alt
import vl_convert

from dpscale.present.text.html import style_of_pages
from dpscale.present.text.words import listed
from dpscale.records.files import write_text

# Pixels. The space around a plot is fixed, so that plots of one size make pictures of one size: as wide as a phone,
# where text is not made smaller.
WIDTH, HEIGHT, RIGHT = 198, 240, 104
_AROUND = {"left": 56, "right": RIGHT, "top": 8, "bottom": 42}
_TEXT_PX, _LINE_PX, _CHARACTER_PX = 11, 15, 7
# Vega-Lite measures text with the first font; page.css sets the same for all text in pictures.
_FONT = "DejaVu Sans"
INK, QUIET = "currentColor", "var(--quiet)"
PICTURES_DRAWN = 12

_CONFIG = alt.Config(
    autosize="none",
    padding=_AROUND,
    background="transparent",
    font=_FONT,
    aria=False,  # the picture has a name and a description of its own
    view=alt.ViewConfig(stroke=None),
    text=alt.MarkConfig(align="left", fontSize=_TEXT_PX, color=INK),
    axis=alt.AxisConfig(
        labelColor=INK,
        titleColor=INK,
        titleFontWeight="normal",
        labelFontSize=_TEXT_PX,
        titleFontSize=_TEXT_PX,
        gridColor="var(--grid)",
        domainColor=QUIET,
        tickColor=QUIET,
        labelSeparation=8,
    ),
)
# The entries themselves say their colours and labels. Channels are objects: for a name as text, Altair looks through
# all of its classes.
COLOUR, LABEL = alt.Color("colour:N", scale=None), alt.Text("label:N")


def over(entries: Sequence[Mapping[str, object]]) -> alt.Chart:
    """Return a layer without marks yet, whose data are the entries."""
    return alt.Chart(alt.InlineData(values=list(entries)))


def svg_of(layers: Sequence[alt.Chart], height: float | alt.Step = HEIGHT) -> str:
    """Return the layers, one over the other, as vl-convert draws them."""
    chart = alt.LayerChart(layer=layers, width=WIDTH, height=height, config=_CONFIG)
    return str(vl_convert.vegalite_to_svg(chart.to_dict()))


@dataclass(frozen=True, kw_only=True)
class Plot(ABC):
    """The words of a picture: `heading` is what to take away from it, `place` what it is of, `quantity` what it
    draws."""

    heading: str
    place: str
    quantity: str
    x_title: str

    @property
    def subtitle(self) -> str:
        return f"{self.place}. {self.quantity}"

    @property
    @abstractmethod
    def description(self) -> str:
        """The drawing in words."""


@dataclass(frozen=True)
class Picture:
    """A plot as it is shown: heading, subtitle, and an SVG with its own title and description. `name` is that of its
    file."""

    name: str
    heading: str
    subtitle: str
    svg: str

    @classmethod
    def of(cls, name: str, plot: Plot, drawn: str) -> "Picture":
        """Name and describe the plot inside the SVG that vl-convert has `drawn` of it."""
        # With no break between a number and its unit, where a heading runs over several lines.
        heading = re.sub(r"(?<=\d) (?=%|ms|s\b|GB/s)", "\u00a0", plot.heading)
        head, inside = drawn.removesuffix("</svg>").split(">", 1)
        svg = (
            f'{head} role="img" aria-labelledby="{name}-title" aria-describedby="{name}-description">'
            f'<title id="{name}-title">{escape(f"{plot.heading}. {plot.subtitle}")}</title>'
            f'<desc id="{name}-description">{escape(plot.description)}</desc>'
            # Vega gives roles to groups of marks, which have no names: the picture is described as a whole.
            f'<g aria-hidden="true">{inside}</g></svg>'
        )
        return cls(name, heading, plot.subtitle, svg)

    def document(self, note: str = "") -> str:
        """Return an SVG that needs no page: on paper, with heading and subtitle above, and a `note` at their end."""
        colours = _light_colours()
        drawn = self.svg.replace(INK, colours["ink"])
        for variable, colour in colours.items():
            drawn = drawn.replace(f"var(--{variable})", colour)
        size = ElementTree.fromstring(drawn).attrib
        width = float(size["width"])
        subtitle = f"{self.subtitle}.{f' {note}' if note else ''}"
        lines = [
            (line, weight)
            for text, weight in ((self.heading, "bold"), (subtitle, "normal"))
            for line in textwrap.wrap(text, int(width / _CHARACTER_PX))
        ]
        top = _LINE_PX * len(lines) + _LINE_PX // 2
        height = float(size["height"]) + top
        texts = "".join(
            f'<text x="{_LINE_PX / 2}" y="{_LINE_PX * number}" font-weight="{weight}">{escape(line)}</text>'
            for number, (line, weight) in enumerate(lines, 1)
        )
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
            f'viewBox="0 0 {width:g} {height:g}" fill="{colours["ink"]}" '
            f'font-family="{_FONT}, Verdana, sans-serif" font-size="{_TEXT_PX}">'
            f'<rect width="{width:g}" height="{height:g}" fill="#fff"/>{texts}'
            f'<svg y="{top}"{drawn.removeprefix("<svg")}</svg>\n'
        )


def _light_colours() -> Mapping[str, str]:
    """Return the colours of the style sheet's first `:root`, the light scheme's, by their variables' names."""
    style = style_of_pages()
    return dict(re.findall(r"--([\w-]+): *(#\w+)", style[style.index(":root") :].split("}", 1)[0]))


P = TypeVar("P", bound=Plot)


@dataclass(frozen=True)
class Chart:
    """Pictures, and a sentence of what was too much to draw, if anything."""

    pictures: Sequence[Picture]
    not_drawn: str

    @classmethod
    def of(cls, name: str, plots: Sequence[P], draw: Callable[[P], str]) -> "Chart":
        """Make pictures of the first plots, with the SVGs that `draw` makes of them, and a sentence of the others."""
        drawn, more = plots[:PICTURES_DRAWN], [plot.place for plot in plots[PICTURES_DRAWN:]]
        pictures = [Picture.of(f"{name}-{number}", plot, draw(plot)) for number, plot in enumerate(drawn, 1)]
        return cls(pictures, f"Not drawn: {listed(more)}." if more else "")

    def _repr_html_(self) -> str:
        """Show the pictures in a notebook, with their headings and in the colours of the page on paper."""
        return "\n".join(picture.document() for picture in self.pictures)


def write_charts(charts: Iterable[Chart], note: str, folder: Path) -> None:
    """Have `folder` hold the pictures of the charts as SVG files, and none of earlier ones. A `note` ends what each of
    them says. Raises RecordError."""
    folder.mkdir(parents=True, exist_ok=True)
    pictures = {folder / f"{picture.name}.svg": picture for chart in charts for picture in chart.pictures}
    for path, picture in pictures.items():
        write_text(path, picture.document(note))
    for path in set(folder.glob("*.svg")) - set(pictures):
        path.unlink()


def heading_of(file: Path) -> str:
    """Read the heading above the picture in a file of `write_charts`."""
    lines = ElementTree.parse(file).getroot().iterfind("{http://www.w3.org/2000/svg}text[@font-weight='bold']")
    return " ".join(line.text or "" for line in lines).replace("\u00a0", " ")

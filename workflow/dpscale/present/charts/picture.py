"""Pictures of the page: how Vega-Lite draws all of them, each as an SVG with its heading inside, and their files.

Colours are CSS variables of the page, so that dark mode and print follow. A file has no page: it gets the colours of
the light scheme.
"""

import re
import resource
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

import altair as alt
import vl_convert

from dpscale.errors import DpscaleError
from dpscale.present.text.html import style_of_pages
from dpscale.records.files import begins_alike, write_text

# Pixels: as wide as a phone, where text is not made smaller.
WIDTH, HEIGHT = 358, 250
_LINE_CHARACTERS = 54
# Vega-Lite measures text with the first font.
_FONT = "DejaVu Sans, Verdana, sans-serif"
INK, QUIET = "currentColor", "var(--quiet)"
PICTURES_DRAWN = 12
_BEGIN = '<svg role="img" aria-label='
# Addresses, not memory, that Vega-Lite's engine reserves: 67.4 GB were seen. Without them it ends the process.
_ADDRESSES_GB = 72

_PADDING = {"left": 5, "top": 5, "right": 18, "bottom": 5}  # half of the last label of x
_CONFIG = alt.Config(
    autosize=alt.AutoSizeParams(type="fit-x", contains="padding"),
    background="transparent",
    font=_FONT,
    aria=False,  # the picture has a name of its own
    view=alt.ViewConfig(stroke=None),
    text=alt.MarkConfig(align="left", color=INK),
    title=alt.TitleConfig(
        anchor="start", frame="bounds", color=INK, fontSize=12, subtitleColor=QUIET, subtitleFontSize=11
    ),
    axis=alt.AxisConfig(
        labelColor=INK,
        titleColor=INK,
        titleFontWeight="normal",
        labelFontSize=11,
        titleFontSize=11,
        gridColor="var(--grid)",
        domainColor=QUIET,
        tickColor=QUIET,
        labelSeparation=8,
    ),
)


@dataclass(frozen=True)
class Picture:
    """A drawing with its heading; `name` is that of its file."""

    name: str
    heading: str
    svg: str

    @property
    def document(self) -> str:
        """The SVG for where no page is around it: on white paper."""
        colours = light_colours()
        drawn = self.svg.replace("currentColor", colours["ink"])
        for name, colour in colours.items():
            drawn = drawn.replace(f"var(--{name})", colour)
        return drawn.replace(">", '><rect width="100%" height="100%" fill="#fff"/>', 1)


def light_colours() -> dict[str, str]:
    """Return the colours of the style sheet's first `:root`, the light scheme's, by their variables' names."""
    style = style_of_pages()
    return dict(re.findall(r"--([\w-]+): *(#\w+)", style[style.index(":root") :].split("}", 1)[0]))


@dataclass(frozen=True)
class Chart:
    """The pictures of a topic, of which a page has the first."""

    pictures: Sequence[Picture]

    def _repr_html_(self) -> str:
        """Show the pictures in a notebook, in the colours of the page on paper."""
        return "\n".join(picture.document for picture in self.pictures)


def require_addresses() -> None:
    """Let this process reserve what drawing needs. Raises DpscaleError where its shell forbids that."""
    allowed, most = resource.getrlimit(resource.RLIMIT_AS)
    enough = _ADDRESSES_GB * 10**9
    if 0 <= allowed < enough and 0 <= most < enough:
        raise DpscaleError(
            f"charts need {_ADDRESSES_GB} GB of addresses (not of memory), and ulimit -v allows {most / 1e9:.0f} GB "
            "here, as on many login nodes: run this in a job (srun)"
        )
    if 0 <= allowed < enough:
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def picture(
    name: str,
    heading: str,
    subtitle: str,
    layers: Sequence[alt.Chart],
    height: float | alt.Step,
    room_right: float = _PADDING["right"],
) -> Picture:
    """Draw the layers, one over the other. To the right of the plot is room for so many pixels of text."""
    title = alt.TitleParams(
        textwrap.wrap(heading, _LINE_CHARACTERS), subtitle=textwrap.wrap(subtitle, _LINE_CHARACTERS)
    )
    chart = alt.LayerChart(layer=layers, title=title, width=WIDTH, height=height, config=_CONFIG)
    chart.padding = {**_PADDING, "right": room_right}
    require_addresses()
    drawn = vl_convert.vegalite_to_svg(chart.to_dict(validate=False))
    named = drawn.replace("<svg", f"{_BEGIN}{quoteattr(heading)}", 1)
    # Vega gives roles to groups of marks, which have no names.
    return Picture(name, heading, named.replace("<g ", '<g aria-hidden="true" ', 1))


def layer(entries: Iterable[Mapping[str, object]]) -> alt.Chart:
    """Return a layer without marks yet, whose data are the entries."""
    return alt.Chart(alt.InlineData(values=list(entries)))


def write_charts(charts: Iterable[Chart], folder: Path) -> None:
    """Have `folder` hold the pictures of the charts as SVG files, and none of earlier ones; files of others stay.
    Raises RecordError."""
    folder.mkdir(parents=True, exist_ok=True)
    pictures = {folder / f"{picture.name}.svg": picture for chart in charts for picture in chart.pictures}
    for path, picture in pictures.items():
        write_text(path, picture.document)
    for path in set(folder.glob("*.svg")) - set(pictures):
        if begins_alike(path, _BEGIN):
            path.unlink()

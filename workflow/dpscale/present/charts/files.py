"""Charts as SVG files of their own, for slides, documents and Snakemake's report."""

from collections.abc import Iterable
from pathlib import Path
from xml.etree import ElementTree

from dpscale.present.charts.chart import Chart
from dpscale.present.charts.document import SVG, document
from dpscale.records.files import write_text


def write_charts(charts: Iterable[Chart], note: str, folder: Path) -> None:
    """Have `folder` hold the pictures of the charts, and none of earlier ones. A `note` ends what each of them says.
    Raises RecordError."""
    folder.mkdir(parents=True, exist_ok=True)
    pictures = {folder / f"{picture.name}.svg": picture for chart in charts for picture in chart.pictures}
    for path, picture in pictures.items():
        subtitle = f"{picture.subtitle}.{f' {note}' if note else ''}"
        write_text(path, document(picture.svg, picture.heading, subtitle))
    for path in set(folder.glob("*.svg")) - set(pictures):
        path.unlink()


def heading_of(file: Path) -> str:
    """What stands above the picture in such a file."""
    lines = ElementTree.parse(file).iter(f"{SVG}text")
    heading = " ".join(line.text or "" for line in lines if line.get("font-weight") == "bold")
    return heading.replace("\u00a0", " ")

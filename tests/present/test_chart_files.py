"""The page's charts as files of their own; their colours; and that the same tables give the same bytes."""

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from page_tables import audited, h200

from dpscale.present.charts.picture import write_charts
from dpscale.present.page import render
from dpscale.present.text.html import style_of_pages
from pictures import texts
from recorded import recorded_study

# Whole pages, again and again.
pytestmark = pytest.mark.slow


def test_every_picture_of_the_page_is_a_file_that_needs_no_page(example: Path, recorded_page: str) -> None:
    files = [*(example / "results/recorded/charts").iterdir()]
    assert {file.stem for file in files} == set(re.findall(r'<figure id="([^"]*)"', recorded_page))
    for svg in (file.read_text() for file in files):
        assert "var(" not in svg and "currentColor" not in svg
        assert " ".join(texts(svg)).count(ElementTree.fromstring(svg).attrib["aria-label"]) == 1


def test_files_of_earlier_charts_go_and_others_stay(tmp_path: Path) -> None:
    for name, svg in (("stale-1", '<svg role="img" aria-label="Stale"/>'), ("drawn-by-hand", "<svg/>")):
        (tmp_path / f"{name}.svg").write_text(svg)
    write_charts([], tmp_path)
    assert [path.stem for path in tmp_path.iterdir()] == ["drawn-by-hand"]


def test_the_same_tables_give_the_same_bytes(root: Path, recorded_page: str) -> None:
    """Here and in the process of `make example`, which orders sets differently."""
    study = recorded_study(root, "recorded").values
    page = render(study, audited(root, h200()), "recorded-audit.html")
    assert recorded_page == page
    assert len(page.encode()) < 400_000


@pytest.mark.processes
@pytest.mark.parametrize(("limit", "code"), [("-v 16000000", 1), ("-Sv 16000000", 0)], ids=["hard", "soft alone"])
def test_a_shell_that_limits_addresses_gets_one_line_or_its_charts(limit: str, code: int) -> None:
    """What draws would end the process, with a backtrace of fifty lines."""
    drawing = "from dpscale.present.charts.picture import layer, picture; import sys; sys.tracebacklimit = 0; "
    drawing += "print(picture('a', 'A', '', [layer([{'x': 1}]).mark_point()], 9).svg[:4])"
    shell = f'ulimit {limit} && exec "$0" -c "$1"'
    done = subprocess.run(["bash", "-c", shell, sys.executable, drawing], capture_output=True, text=True, check=False)
    assert done.returncode == code
    assert done.stdout == "<svg\n" if code == 0 else done.stderr.count("ulimit -v allows 16 GB") == 1


# Of lines, areas and frames; nothing is written in them.
NOT_OF_TEXT = {"grid"}


def schemes() -> list[dict[str, str]]:
    """Return the colours of both `:root` blocks, light and dark, by their variables' names."""
    blocks = re.findall(r":root {(.*?)}", style_of_pages(), re.S)[:2]
    return [dict(re.findall(r"--([\w-]+): *(#\w+)", block)) for block in blocks]


def luminance(colour: str) -> float:
    """Return the relative luminance of a colour, as WCAG 2.2 defines it."""
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    channels = [int(digits[place : place + 2], 16) / 255 for place in (0, 2, 4)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("scheme", schemes(), ids=["light", "dark"])
def test_text_in_a_colour_that_is_drawn_can_be_read_on_paper(root: Path, scheme: dict[str, str]) -> None:
    """A colour that a chart names and the style sheet lacks would be black on black in the dark."""
    code = "".join(path.read_text() for path in sorted((root / "workflow/dpscale/present").rglob("*.py")))
    drawn = set(re.findall(r"var\(--(\w+)\)", code)) - NOT_OF_TEXT
    assert {"quiet", "dp", "ddp"} <= drawn
    paper = luminance(scheme["paper"])
    for name in drawn | {"ink"}:
        darker, lighter = sorted((paper, luminance(scheme[name])))
        assert (lighter + 0.05) / (darker + 0.05) >= 4.5, name

"""What a terminal shows: lines no longer than it is wide, colours where it has them, and no control characters in what
others wrote."""

import os
import re
import shutil
import sys
import textwrap
from typing import TextIO

import click

WIDEST = 120
DIM, RED = "2", "31"

# Characters that HTML and XML do not allow, or that turn the direction of text and its meaning with it.
_CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]"
)


def with_names(text: str) -> str:
    """Return `text` with a name for every control character, which could not be seen or would turn what follows."""
    return _CONTROLS.sub(lambda character: f"[U+{ord(character[0]):04X}]", text)


def tell(text: str, err: bool = False) -> None:
    """Print `text` as it is."""
    click.echo(with_names(text), err=err)


def say(text: str, stream: TextIO | None = None, colour: str = "", indent: str = "") -> None:
    """Print `text`; a line of it that is too long goes on below, indented. A place such as `[7/21]` is dim."""
    stream = stream or sys.stdout
    width = min(WIDEST, shutil.get_terminal_size((WIDEST, 24)).columns)
    for line in with_names(text).splitlines():
        words = textwrap.wrap(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
        for piece in words or [""]:
            stream.write(f"{_coloured(piece, colour) if shows_colours(stream) else piece}\n")
    stream.flush()


def shows_colours(stream: TextIO) -> bool:
    """Return whether `stream` is a terminal whose user has not said otherwise (no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _coloured(piece: str, colour: str) -> str:
    if colour:
        return f"\033[{colour}m{piece}\033[0m"
    return re.sub(r"^\[\d+/\d+\]", lambda place: f"\033[{DIM}m{place[0]}\033[0m", piece)

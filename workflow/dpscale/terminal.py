"""Lines for a terminal: no longer than it is wide."""

import shutil
import sys
import textwrap
from typing import TextIO

WIDEST = 120


def say(text: str, stream: TextIO | None = None, indent: str = "") -> None:
    """Print `text`; a line of it that is too long goes on below, indented."""
    width = min(WIDEST, shutil.get_terminal_size((WIDEST, 24)).columns)
    for line in text.splitlines():
        words = textwrap.wrap(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
        print(*words, sep="\n", file=stream or sys.stdout, flush=True)

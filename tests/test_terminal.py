"""What others wrote turns nothing round and moves no cursor: on the terminal, and on every page."""

from pathlib import Path

import pytest

from command_line import dpscale
from dpscale.present.text.html import ENVIRONMENT
from dpscale.terminal import RED, say, tell

HOSTILE = "a\x1b[2J\u202eb\x07"
NAMED = "a[U+001B][2J[U+202E]b[U+0007]"


def test_what_is_shown_has_names_for_control_characters(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Every page is filled by this environment."""
    tell(f"{HOSTILE}\nnext\tline")
    say(HOSTILE, colour=RED)
    assert capsys.readouterr().out == f"{NAMED}\nnext\tline\n{NAMED}\n"
    page = ENVIRONMENT.from_string("{{ value }}<b>{{ value | safe }}")
    assert page.render(value=f"{HOSTILE}<i>") == f"{NAMED}&lt;i&gt;<b>{NAMED}<i>"
    assert f"Error: {NAMED}.yaml: cannot be read" in dpscale("plan", f"{HOSTILE}.yaml", folder=tmp_path).stderr

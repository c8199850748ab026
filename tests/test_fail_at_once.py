"""What cannot work is said in one line, before anything is measured, read or loaded that takes longer; and
no text of others turns it round or moves a cursor."""

import time
from pathlib import Path

import pytest

from cases import cases
from command_line import dpscale
from dpscale.present.text.html import ENVIRONMENT
from dpscale.terminal import RED, say, tell

THREE_GPUS = "study: three\ngpus: [1, 3]\nbatch_per_gpu: [32]\nstrong_scaling_global_batch: [32]\n"


@pytest.mark.parametrize(
    ("command", "said"),
    cases(__file__, "commands"),
)
def test_it_is_said_in_one_line(root: Path, tmp_path: Path, command: str, said: str) -> None:
    (tmp_path / "three.yaml").write_text(THREE_GPUS)
    with (tmp_path / "large.csv").open("wb") as large:
        large.truncate(50_000_000)
    start = time.process_time()
    done = dpscale(*command.format(folder=tmp_path).split(), folder=root)
    assert done.returncode != 0
    (line,) = done.stderr.splitlines()
    assert said.format(folder=tmp_path) in line
    assert time.process_time() - start < 5


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

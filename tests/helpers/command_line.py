"""`dpscale` as it is called, mostly without a process of its own: that takes a second, and proves no more."""

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from dpscale.cli import main
from processes import signals_as_they_were


def dpscale(*arguments: object, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Call the command in `folder`. Return its output and exit code; raise what it raises."""
    words = [str(argument) for argument in arguments]
    with pytest.MonkeyPatch.context() as patch, signals_as_they_were():
        patch.setattr(sys, "argv", ["dpscale", *words])
        if folder is not None:
            patch.chdir(folder)
        done = CliRunner().invoke(main, words, catch_exceptions=False)
    return subprocess.CompletedProcess(words, done.exit_code, done.stdout, done.stderr)


def must(*arguments: object, folder: Path | None = None) -> str:
    """Call the command, which must succeed. Return its output."""
    done = dpscale(*arguments, folder=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout

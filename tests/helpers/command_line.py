"""`dpscale` as it is called, mostly without a process of its own: that takes a second, and proves no more."""

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from dpscale.cli import main
from processes import signals_as_they_were


def dpscale(*arguments: object, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """What the command prints and its exit code, called in `folder`. A traceback is the test's."""
    words = [str(argument) for argument in arguments]
    with pytest.MonkeyPatch.context() as patch, signals_as_they_were():
        patch.setattr(sys, "argv", ["dpscale", *words])
        if folder is not None:
            patch.chdir(folder)
        done = CliRunner().invoke(main, words, catch_exceptions=False)
    return subprocess.CompletedProcess(words, done.exit_code, done.stdout, done.stderr)


def must(*arguments: object, folder: Path | None = None) -> str:
    """What the command prints; it must succeed."""
    done = dpscale(*arguments, folder=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout

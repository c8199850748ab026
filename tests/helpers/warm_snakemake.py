"""Snakemake in a process that is forked from one which has loaded it: loading takes longer than planning a small study.

The process is of its own, with the arguments, folder and environment of the call, and ends as `snakemake` would.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import CompletedProcess
from tempfile import NamedTemporaryFile

from warm import WARM


def snakemake(arguments: Sequence[str], folder: Path, environment: Mapping[str, str]) -> CompletedProcess[str]:
    """What `snakemake ARGUMENTS` prints in `folder`, on both streams, and its exit code."""
    with NamedTemporaryFile("r") as printed:
        process = WARM.Process(target=_main, args=(arguments, folder, dict(environment), printed.name))
        process.start()
        process.join()
        return CompletedProcess(arguments, process.exitcode or 0, printed.read())


def _main(arguments: Sequence[str], folder: Path, environment: Mapping[str, str], printed: str) -> None:
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    descriptor = os.open(printed, os.O_WRONLY | os.O_APPEND)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(descriptor, stream.fileno())
    from snakemake import cli

    sys.argv = [cli.__file__, *arguments]
    cli.main()

"""Processes that are forked from one which has loaded Snakemake, torch and pandas: loading them takes longer than what
a test asks of them. That one has loaded nothing of the project, which tests change.

Every process is of its own, with the arguments, folder and environment of the call, and ends as the command would.
"""

import multiprocessing
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from subprocess import CompletedProcess
from tempfile import NamedTemporaryFile

from warm_commands import commands_forked_here

WARM = multiprocessing.get_context("forkserver")
# Snakemake, what it and its plugins load when they are first used, and what the project loads.
WARM.set_forkserver_preload(
    [
        *("snakemake.cli", "snakemake.report.html_reporter", "snakemake_executor_plugin_slurm"),
        *("smart_open", "yte", "docutils.core", "pygments.formatters", "jsonschema_rs"),
        *("torch.distributed", "torch._dynamo", "pandas", "scipy.special", "altair", "vl_convert"),
    ]
)


def snakemake(arguments: Sequence[str], folder: Path, environment: Mapping[str, str]) -> CompletedProcess[str]:
    """What `snakemake ARGUMENTS` prints in `folder`, on both streams, and its exit code. The commands of its rules are
    forked too, and so are their workers."""
    return _run(_snakemake, arguments, folder, environment)


def dpscale(arguments: Sequence[str], folder: Path, environment: Mapping[str, str]) -> CompletedProcess[str]:
    """The same of `dpscale ARGUMENTS`, whose package is the one that PYTHONPATH in `environment` leads to. Its workers
    are forked from it."""
    return _run(_dpscale, arguments, folder, environment)


def python(arguments: Sequence[str], folder: Path, environment: Mapping[str, str]) -> CompletedProcess[str]:
    """The same of `python -c ARGUMENTS`."""
    return _run(_python, arguments, folder, environment)


def _run(
    program: Callable[[], None], arguments: Sequence[str], folder: Path, environment: Mapping[str, str]
) -> CompletedProcess[str]:
    with NamedTemporaryFile("r+") as printed:
        process = WARM.Process(target=_begin_printing, args=(program, arguments, folder, environment, printed.name))
        process.start()
        process.join()
        return CompletedProcess(arguments, process.exitcode or 0, printed.read())


def _begin_printing(
    program: Callable[[], None], arguments: Sequence[str], folder: Path, environment: Mapping[str, str], printed: str
) -> None:
    descriptor = os.open(printed, os.O_WRONLY | os.O_APPEND)
    _begin(program, arguments, folder, environment, [descriptor, descriptor])


def _begin(
    program: Callable[[], None],
    arguments: Sequence[str],
    folder: Path | str,
    environment: Mapping[str, str],
    streams: Sequence[int],
) -> None:
    """`streams`: what it prints on, and its errors."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:0] = environment.get("PYTHONPATH", "").split(os.pathsep)
    for descriptor, stream in zip(streams, (sys.stdout, sys.stderr), strict=True):
        os.dup2(descriptor, stream.fileno())
    sys.argv[1:] = arguments
    program()


def _snakemake() -> None:
    from snakemake import cli

    sys.argv[0] = cli.__file__
    with commands_forked_here(partial(_begin, _dpscale)):
        cli.main()


def _dpscale() -> None:
    from dpscale.cli import main
    from warm_workers import warm_workers

    sys.argv[0] = "dpscale"
    with warm_workers():
        main()


def _python() -> None:
    code, *sys.argv[1:] = sys.argv[1:]
    exec(code, {"__name__": "__main__"})

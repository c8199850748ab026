"""Programs that are forked from a process which has loaded Snakemake, torch and pandas: loading them takes longer than
what a test asks of them. That process has loaded nothing of the project, which tests change.

Every call is a process of its own, with the words, folder and environment of the call, and ends as the program would.
"""

import atexit
import gc
import json
import multiprocessing
import os
import runpy
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from fcntl import F_DUPFD, fcntl
from functools import cache, partial
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from itertools import dropwhile
from multiprocessing import forkserver
from multiprocessing.connection import wait
from multiprocessing.context import ForkProcess
from pathlib import Path
from subprocess import PIPE, STDOUT, CompletedProcess, run
from typing import Any

WARM = multiprocessing.get_context("forkserver")
# Snakemake, what it and its plugins load when they are first used, and what the project loads.
WARM.set_forkserver_preload(
    [
        *("snakemake.cli", "snakemake.report.html_reporter", "snakemake_executor_plugin_slurm"),
        *("smart_open", "yte", "docutils.core", "pygments.formatters", "jsonschema_rs"),
        *("torch.distributed", "torch._dynamo", "torchvision", "pandas", "scipy.special", "scipy.optimize", "altair"),
        *("vl_convert", "click", "xml.etree.ElementTree", "xml.sax.saxutils"),
    ]
)
FORK = multiprocessing.get_context("fork")
# Names the process that has loaded all this to processes of pytest-xdist, which share it: to load takes a core 5 s.
SHARED = "DPSCALE_SHARED_FORKER"
# What is started hands its words, folder, environment and open files to the process that forks, and waits for the end.
PROGRAM = """#!{python} -IS
import json, os, socket, sys
def is_open(file):
    try:
        return bool(os.fstat(file))
    except OSError:
        return False
files = [1, 2, *filter(is_open, sorted(int(name) for name in os.listdir("/proc/self/fd") if int(name) > 2))]
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as forker:
    forker.connect({address!r})
    words = json.dumps([files, {name!r}, sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
    socket.send_fds(forker, [words], files)
    sys.exit(int(forker.recv(16) or 1))
"""
LONGEST_MESSAGE, MOST_FILES = 2**20, 100


def share() -> None:
    """Start the process that loads, before it is needed, for all processes that this one starts. It ends with this one.

    From Python 3.14 on it asks for a key that only this process has: each process then starts its own.
    """
    if sys.version_info >= (3, 14):
        return
    server: Any = forkserver._forkserver
    server.ensure_running()
    os.environ[SHARED] = server._forkserver_address


def _use(address: str) -> None:
    """Have processes forked by the server at this address. Python has no public way to name it."""
    server: Any = forkserver._forkserver
    server._forkserver_address = address
    server._forkserver_alive_fd = os.open(os.devnull, os.O_RDONLY)  # who started it keeps it alive
    server.ensure_running = lambda: None


if SHARED in os.environ:
    _use(os.environ[SHARED])


def _run(name: str, arguments: Sequence[str], folder: Path, environment: Mapping[str, str]) -> CompletedProcess[str]:
    return run(
        [programs() / name, *arguments],
        cwd=folder,
        env=environment,
        stdout=PIPE,
        stderr=STDOUT,
        text=True,
    )


# What `snakemake ARGUMENTS` prints in a folder, on both streams, and its exit code.
snakemake = partial(_run, "snakemake")
# The same of `dpscale ARGUMENTS`, whose package is the one that PYTHONPATH in the environment leads to. Its workers are
# forked from it.
dpscale = partial(_run, "dpscale")
# The same of `python ARGUMENTS`. Processes that it starts with `sys.executable` are such programs, too.
python = partial(_run, "python")


@cache
def programs() -> Path:
    """Return a folder with these programs. Rules of that Snakemake find the others there, too. What they started and
    did not end ends with this process."""
    ending = ExitStack()
    atexit.register(ending.close)
    return ending.enter_context(_started())


@contextmanager
def _started() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="dpscale-") as folder:
        address = f"{folder}/forker"
        for name in PROGRAMS:
            path = Path(folder, name)
            path.write_text(PROGRAM.format(python=sys.executable, address=address, name=name))
            path.chmod(0o755)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
            listening.bind(address)
            listening.listen()
            forker = WARM.Process(target=_fork_programs, args=(listening,))
            forker.start()
            assert forker.pid
        try:
            yield Path(folder)
        finally:
            os.killpg(forker.pid, signal.SIGKILL)
            forker.join()


def _fork_programs(listening: socket.socket) -> None:
    """Until the tests' process ends, however it does."""
    os.setpgid(0, 0)
    tests = multiprocessing.parent_process()
    assert tests
    programs: dict[Any, tuple[ForkProcess, socket.socket]] = {}  # by what tells that one has ended
    while tests.sentinel not in (ready := wait([listening, tests.sentinel, *programs])):
        for ended in programs.keys() & ready:
            program, asked = programs.pop(ended)
            program.join()
            os.close(ended)
            with asked:
                asked.send(str((program.exitcode or 0) & 0xFF).encode())
        if listening in ready:
            program, asked = _forked(listening.accept()[0])
            programs[os.pidfd_open(program.pid or 0)] = program, asked
    os.killpg(0, signal.SIGKILL)


def _forked(asked: socket.socket) -> tuple[ForkProcess, socket.socket]:
    words, files, _, _ = socket.recv_fds(asked, LONGEST_MESSAGE, MOST_FILES)
    program = FORK.Process(target=_begin, args=(Path(asked.getsockname()).parent, files, *json.loads(words)))
    program.start()
    for file in files:
        os.close(file)
    return program, asked


def _begin(
    place: Path,
    files: list[int],
    numbers: list[int],
    name: str,
    arguments: list[str],
    folder: str,
    environment: dict[str, str],
) -> None:
    gc.freeze()  # no collection looks through what was loaded
    os.fsync = lambda _: None  # type: ignore[assignment]  # nothing of tests need outlive a loss of power
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None
    sys.path[:0] = environment.get("PYTHONPATH", "").split(os.pathsep)
    above = [fcntl(file, F_DUPFD, 2 * MOST_FILES) for file in files]  # no number is taken while it is still needed
    for file, number in zip(above, numbers, strict=True):
        os.dup2(file, number)
        os.close(file)
    sys.argv = [name, *arguments]
    PROGRAMS[name](place)


def _snakemake(place: Path) -> None:
    from snakemake import cli

    sys.executable = str(place / "python")  # the folder in which rules look for their programs first
    sys.argv[0] = cli.__file__
    cli.main()


def _dpscale(place: Path) -> None:
    from dpscale.cli import main
    from warm_workers import warm_workers

    sys.executable = str(place / "python")  # of scripts
    with warm_workers():
        main()


def _python(place: Path) -> None:
    sys.executable = str(place / "python")
    multiprocessing.set_executable(sys.executable)
    _customize()
    how, *words = dropwhile(lambda word: word.startswith("-") and word not in ("-c", "-m"), sys.argv[1:])
    if (how, *words[:1]) == ("-m", "dpscale"):
        sys.argv[1:] = words[1:]
        _dpscale(place)
    elif how == "-m":
        module, *sys.argv[1:] = words
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    elif how == "-c":
        code, *sys.argv[1:] = words
        exec(code, {"__name__": "__main__"})
    else:
        sys.argv = [how, *words]
        sys.path.insert(0, str(Path(how).resolve().parent))
        runpy.run_path(how, run_name="__main__")


def _customize() -> None:
    """Import sitecustomize, as Python does when it starts."""
    spec = PathFinder.find_spec("sitecustomize", os.environ.get("PYTHONPATH", "").split(os.pathsep))
    if spec and spec.loader:
        spec.loader.exec_module(module_from_spec(spec))


PROGRAMS: Mapping[str, Callable[[Path], None]] = {"snakemake": _snakemake, "dpscale": _dpscale, "python": _python}

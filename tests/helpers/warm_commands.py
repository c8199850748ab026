"""The `dpscale` of a Snakemake's rules: its commands are forked from a process that has loaded torch and pandas.

The program that a rule starts hands its words, folder, environment and what it prints on to that process, and ends as the command
does that is forked there.
"""

import json
import multiprocessing
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

FORK = multiprocessing.get_context("fork")
PYTHON = '#!/bin/sh\nexec {python} "$@"\n'
DPSCALE = """#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
    server.connect({address!r})
    words = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
    socket.send_fds(server, [words], [1, 2])
    sys.exit(int(server.recv(16) or 1))
"""
LONGEST_MESSAGE = 2**20

# Runs a command: its words, folder, environment, and the descriptors of its output and errors.
Run = Callable[[Sequence[str], str, Mapping[str, str], Sequence[int]], None]


@contextmanager
def commands_forked_here(run: Run) -> Iterator[None]:
    """Rules find a `dpscale` beside `sys.executable` for which `run` is called in a fork of this process as it is."""
    with tempfile.TemporaryDirectory(prefix="dpscale-") as folder:
        for name, program in (("python", PYTHON), ("dpscale", DPSCALE)):
            path = Path(folder, name)
            path.write_text(program.format(python=sys.executable, address=f"{folder}/socket"))
            path.chmod(0o755)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
            server.bind(f"{folder}/socket")
            server.listen()
            forker = FORK.Process(target=_serve, args=(server, run))
            forker.start()
        sys.executable = f"{folder}/python"
        try:
            yield
        finally:
            forker.kill()
            forker.join()


def _serve(server: socket.socket, run: Run) -> None:
    while True:
        with server.accept()[0] as asked:
            FORK.Process(target=_answer, args=(asked, run)).start()


def _answer(asked: socket.socket, run: Run) -> None:
    message, streams, _, _ = socket.recv_fds(asked, LONGEST_MESSAGE, 2)
    command = FORK.Process(target=run, args=(*json.loads(message), streams))
    command.start()
    command.join()
    asked.send(str((command.exitcode or 0) & 0xFF).encode())

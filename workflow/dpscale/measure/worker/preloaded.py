"""A process that has loaded torch, and forks the workers of cells on a CPU: to load it takes longer than a small cell.

`python -m dpscale.measure.worker.preloaded <socket>` ends with the process that started it. It runs no operation of
torch itself, so a worker finds torch as if it had just loaded it. It is a process of its own, in a session of its own,
as any other worker; no CUDA is up here, which no process may fork. Asked for a worker, it answers with the worker's
process id and, when that has ended, with its exit code. A worker whose launcher hangs up is killed.
"""

import gc
import importlib
import json
import os
import selectors
import signal
import socket
import sys
import traceback
from contextlib import suppress
from pathlib import Path

from dpscale.measure.parent import NUMBER, end_with_parent, run_worker
from dpscale.records.files import JsonRecord

KINDS = ("timing", "communication", "collectives", "training")
_PATH_BYTES = 4096


def serve(path: str) -> None:
    """Fork workers for those who connect to the socket `path`. They may connect while torch is being loaded."""
    with socket.socket(socket.AF_UNIX) as listening, selectors.DefaultSelector() as selector:
        listening.bind(path)
        listening.listen()
        for kind in KINDS:
            importlib.import_module(f"dpscale.measure.worker.{kind}")
        gc.freeze()  # what workers share is not looked through by each of them
        selector.register(listening, selectors.EVENT_READ, lambda: _begin(listening.accept()[0], selector))
        while True:
            for key, _ in selector.select():
                key.data()


def _begin(launcher: socket.socket, selector: selectors.BaseSelector) -> None:
    """Fork the worker that a launcher asks for: its files are the launcher's, the rest stands in a file."""
    request, files, *_ = socket.recv_fds(launcher, _PATH_BYTES, 2)
    if not (pid := os.fork()):
        _become_worker(json.loads(Path(request.decode()).read_text()), files, launcher)
    for file in files:
        os.close(file)
    ended = os.pidfd_open(pid)

    def end() -> None:
        if launcher not in selector.get_map():
            return  # both have ended at once
        selector.unregister(launcher)
        selector.unregister(ended)
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        with suppress(OSError), launcher:
            launcher.sendall(NUMBER.pack(code))
        os.close(ended)

    selector.register(launcher, selectors.EVENT_READ, end)
    selector.register(ended, selectors.EVENT_READ, end)


def _become_worker(request: JsonRecord, files: list[int], launcher: socket.socket) -> None:
    """Run a worker in this new process, and end with it, with the exit code that Python would end with."""
    code = 1
    try:
        parent = os.getppid()
        os.setsid()
        launcher.sendall(NUMBER.pack(os.getpid()))
        end_with_parent(parent)
        os.chdir(request["folder"])
        os.environ.clear()
        os.environ.update(request["environment"])
        for file, number in zip((os.open(os.devnull, os.O_RDONLY), *files), range(3), strict=True):
            os.dup2(file, number)
        run_worker(*request["arguments"])
        code = 0
    except BaseException as error:
        if isinstance(error, SystemExit) and isinstance(error.code, int):
            code = error.code
        else:
            traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    end_with_parent()
    serve(sys.argv[1])

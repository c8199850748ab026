"""The process that all processes of a run of the tests fork from: it loads what they need once, in as long as twenty
tests take. Without this, each process of pytest-xdist would start one of its own."""

import os
import pickle
from multiprocessing import forkserver, resource_tracker
from pathlib import Path

from filelock import FileLock

_HERE = forkserver._forkserver
_ADDRESS, _KEY, _ALIVE = "_forkserver_address", "_forkserver_authkey", "_forkserver_alive_fd"
_start = _HERE.ensure_running


def install(folder: Path) -> None:
    """From now on this process shares it with others that call this with the same folder."""

    def ensure_running() -> None:
        if getattr(_HERE, _ADDRESS) is None:
            _join_or_start(folder / "forkserver")
        resource_tracker.ensure_running()

    setattr(_HERE, "ensure_running", ensure_running)  # noqa: B010  a method of multiprocessing's own


def _join_or_start(place: Path) -> None:
    with FileLock(f"{place}.lock"):
        if not (place.exists() and _join(place)):
            _start()
            socket = place.with_suffix(".socket")  # its own goes with the process that started it
            socket.unlink(missing_ok=True)
            socket.hardlink_to(getattr(_HERE, _ADDRESS))
            known = {_ADDRESS: str(socket), _KEY: getattr(_HERE, _KEY, None)}
            place.write_bytes(pickle.dumps((known, os.getpid(), getattr(_HERE, _ALIVE))))


def _join(place: Path) -> bool:
    """Whether it could be. It ends when nobody holds this end of its pipe any longer."""
    known, owner, alive = pickle.loads(place.read_bytes())
    try:
        end = os.open(f"/proc/{owner}/fd/{alive}", os.O_WRONLY)
    except OSError:  # its owner has ended
        return False
    for name, value in {**known, _ALIVE: end}.items():
        setattr(_HERE, name, value)
    return True

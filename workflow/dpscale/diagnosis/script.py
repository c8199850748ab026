"""A script that is run as it is: started with hooks in its processes, and ended with all that it has started.

Its standard streams: each run reads the same input, and has a terminal where this process has one. Free of torch.
"""

import ctypes
import json
import os
import re
import select
import signal
import subprocess
import tempfile
import termios
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from io import FileIO
from itertools import takewhile
from math import inf
from pathlib import Path
from typing import IO

import dpscale
from dpscale.errors import MeasurementError
from dpscale.records.files import JsonRecord
from dpscale.records.temporary import TemporaryFolder

HOOKS = Path(dpscale.__file__).parent / "diagnosis/attach/site"
FOLDER = "DPSCALE_ATTACH"
POLL_S = 0.2
# After the last step a run has so long to end by itself. One that cannot be interrupted is killed.
GRACE_S = 20.0
ENDED_S = 0.02
STREAMS = INPUT, OUTPUT, ERRORS = (0, 1, 2)
# The end of what a run writes is kept where it is not shown.
KEPT_BYTES = 1 << 17
# A pipe that can be written to takes at least so much.
FED_BYTES, TAKEN_BYTES = 512, 1 << 16
LAST_S = 1.0
END_OF_INPUT = b"\x04"
ADOPT_ORPHANS = 36  # of man 2 prctl: PR_SET_CHILD_SUBREAPER


class NoTrainingError(MeasurementError):
    """A script without an optimiser step."""


class ScriptError(MeasurementError):
    """A script that ended by itself with `code`: its own output says why."""

    def __init__(self, code: int, name: str = "the script"):
        super().__init__(f"{name} ended by itself with exit code {code}")
        self.code = code


@dataclass(frozen=True)
class Script:
    """A run of a script: its first process, and the private folder of its hooks."""

    process: "subprocess.Popen[bytes]"
    folder: Path
    strangers: Collection[int]
    """Children that this process had before."""

    def told(self, kind: str, key: str) -> list[str]:
        """Return what hooks say in their files of a kind, as far as these are there and whole."""
        values = []
        for path in self.folder.glob(f"{kind}-*.json"):
            with suppress(OSError, ValueError):
                values.append(json.loads(path.read_bytes())[key])
        return values

    def pids(self) -> set[int]:
        """Return its processes that have not ended: all descendants of this one, which adopts those whose parent has
        ended, and those that a daemon has started, whose environment names the private folder."""
        parents, marker = parents_of_processes(), f"{FOLDER}={self.folder}\0".encode()
        pids = {pid for pid in parents if marker in read_of(pid, "environ")}
        pids |= {pid for pid, parent in parents.items() if parent == os.getpid() and pid not in self.strangers}
        while more := {pid for pid, parent in parents.items() if parent in pids} - pids:
            pids |= more
        return pids

    def end(self) -> None:
        """Kill all that it has started."""
        until = time.monotonic() + GRACE_S
        while (pids := self.pids()) and time.monotonic() < until:  # also of what is started meanwhile
            for pid in pids:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            self.process.poll()
            time.sleep(ENDED_S)
        self.process.wait()


class Runs:
    """Runs of scripts for one answer: each has a folder of its own, and all read the same input."""

    def __init__(self, folder: Path, notes: IO[bytes]) -> None:
        self._folder, self._input = folder, SameInput(notes)

    def new_folder(self, job: JsonRecord) -> Path:
        """Return a new folder with the order of a run, where its hooks look for it."""
        folder = self._folder / str(len(list(self._folder.iterdir())))
        folder.mkdir()
        (folder / "job.json").write_text(json.dumps(job))
        return folder

    @contextmanager
    def started(
        self, command: Sequence[str], folder: Path, variables: Mapping[str, str], is_shown: bool = False
    ) -> Iterator[Script]:
        """Run a script, of which nothing is left afterwards. Where what is done with it fails, the end of its output is
        shown, and the error says why its hooks did not work.

        It has a session of its own, so that a key at the terminal reaches this process alone, which ends it.
        """
        if option := isolation_of(command):
            raise MeasurementError(f"{option} keeps dpscale's hooks out of Python: leave it out of the command")
        script = None
        streams = Streams(self._input, is_shown)
        try:
            with closing(streams):
                strangers = {pid for pid, parent in parents_of_processes().items() if parent == os.getpid()}
                stdin, stdout, stderr = streams.of_script
                try:
                    process = subprocess.Popen(
                        command,
                        env={**_environment(folder), **variables},
                        stdin=stdin,
                        stdout=stdout,
                        stderr=stderr,
                        start_new_session=True,
                    )
                except OSError as error:
                    raise MeasurementError(f"{command[0]}: cannot be started: {error.strerror}") from error
                script = Script(process, folder, strangers)
                streams.begin()
                try:
                    yield script
                finally:
                    script.end()
        except MeasurementError as error:
            if getattr(error, "code", 1):
                show(bytes(streams.kept), ERRORS)
            for why in script.told("problem", "why") if script else ():
                error.args = (f"{error}. Its hooks did not work: {why}",)
            raise


@contextmanager
def private_runs() -> Iterator[Runs]:
    """Let signals that end this process end what it started before, and let it adopt what that leaves."""
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, _stop)
    system = ctypes.CDLL(None)
    system.prctl(ADOPT_ORPHANS, 1)
    try:
        with TemporaryFolder() as folder, tempfile.TemporaryFile() as notes:
            yield Runs(Path(folder), notes)
    finally:
        system.prctl(ADOPT_ORPHANS, 0)


def _stop(number: int, _frame: object) -> None:
    raise SystemExit(128 + number)


def isolation_of(command: Sequence[str]) -> str:
    """Return the option of Python by which it looks neither at PYTHONPATH nor for sitecustomize; "" without one."""
    is_python = Path(command[0]).name.startswith("python")
    options = takewhile(lambda word: word.startswith("-") and word not in ("-m", "-c"), command[1:])
    return next((word for word in options if is_python and re.fullmatch(r"-\w*[IES]\w*", word)), "")


def _environment(folder: Path) -> dict[str, str]:
    """Return the variables of a run: with hooks, trackers offline, and torchrun's folder of logs among private ones."""
    trackers = folder / "trackers"
    trackers.mkdir()
    return {
        "PET_LOG_DIR": str(folder / "launcher"),
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, [str(HOOKS), os.environ.get("PYTHONPATH")])),
        FOLDER: str(folder),
        **dict.fromkeys(("WANDB_MODE", "NEPTUNE_MODE"), "offline"),
        **dict.fromkeys(("WANDB_DIR", "COMET_OFFLINE_DIRECTORY"), str(trackers)),
        "COMET_START_ONLINE": "0",
        "CLEARML_OFFLINE_MODE": "1",
        "MLFLOW_TRACKING_URI": f"file:{trackers}",
    }


def parents_of_processes() -> dict[int, int]:
    """Return the parent of every process of this machine that has not ended."""
    parents = {}
    for pid in (int(entry.name) for entry in Path("/proc").glob("[0-9]*")):
        state, parent, *_ = read_of(pid, "stat").rpartition(b") ")[2].split() or [b"Z", b""]
        if state != b"Z":
            parents[pid] = int(parent)
    return parents


def read_of(pid: int, name: str) -> bytes:
    """Return what the system tells of a process; nothing of one that has ended or is another user's."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


class SameInput:
    """What this process can read, for several runs, one after the other or at once.

    A file is opened anew, where it stands. What was read of a pipe or a terminal is noted, and given again.
    """

    def __init__(self, notes: IO[bytes]) -> None:
        self._notes, self._lock = notes.fileno(), threading.Lock()
        self.is_over = False

    def opened(self) -> FileIO | None:
        """Return a file that one run alone reads. None where the input is none, or may not be opened again."""
        with suppress(OSError):
            start = os.lseek(INPUT, 0, os.SEEK_CUR)
            file = FileIO(f"/proc/self/fd/{INPUT}")
            file.seek(start)
            return file
        return None

    def noted(self, place: int) -> bytes:
        """Return what was read after a place, as much as is fed at once."""
        return os.pread(self._notes, FED_BYTES, place)

    def can_be_read(self) -> bool:
        """Whether there may be more. A process in the background that reads its terminal would be stopped."""
        try:
            return not self.is_over and os.tcgetpgrp(INPUT) == os.getpgrp()
        except OSError:  # not the terminal of this session
            return True

    def read(self) -> None:
        """Note what there is, unless another run has; of a terminal the key that ends the input too."""
        with self._lock:
            if not select.select([INPUT], [], [], 0)[0]:
                return
            text = b""
            with suppress(OSError):  # the terminal is gone
                text = os.read(INPUT, TAKEN_BYTES) or (END_OF_INPUT if os.isatty(INPUT) else b"")
            self.is_over = not text
            os.write(self._notes, text)


class Streams:
    """The standard streams of one run. What it writes is shown, or the end of it is kept.

    Those that are a terminal here are a pseudo-terminal there. It is no controlling terminal: the end of a session
    would discard what is not yet read of it.
    """

    def __init__(self, same_input: SameInput, is_shown: bool) -> None:
        self.kept = bytearray()
        self._input, self._fed = same_input, 0
        self._until = inf
        self._relay = threading.Thread(target=self._relay_all, daemon=True)
        self._shown_on: dict[FileIO, int | None] = {}
        self._fed_to: FileIO | None = None
        is_terminal = [os.isatty(stream) for stream in STREAMS]
        slave = reading = writing = None
        if any(is_terminal):
            master, slave = _pseudo_terminal(like=is_terminal.index(True))
            screen = next((stream for stream in (OUTPUT, ERRORS) if is_terminal[stream]), None)
            self._shown_on[master] = screen if is_shown else None
        if is_terminal[INPUT]:
            self._fed_to = master
        else:
            reading = same_input.opened()
            if reading is None:
                reading, self._fed_to = _pipe()
        if not is_shown:
            source, writing = _pipe()
            self._shown_on[source] = None
        plain = reading, writing, writing
        self.of_script = [slave if has_one else file for has_one, file in zip(is_terminal, plain, strict=True)]
        self._theirs = [slave, reading, writing]
        self._ends = [*self._theirs, *self._shown_on, self._fed_to]

    def begin(self) -> None:
        """Begin to relay: the script has its ends."""
        _close(self._theirs)
        self._relay.start()

    def close(self) -> None:
        """End when all is read that processes have written, which have ended."""
        self._until = time.monotonic() + LAST_S
        if self._relay.is_alive():
            self._relay.join(2 * LAST_S)
        _close(self._ends)

    def _relay_all(self) -> None:
        while time.monotonic() < self._until:
            text = self._input.noted(self._fed) if self._fed_to else b""
            wants_more = self._fed_to and not text and self._input.can_be_read()
            read_from: list[FileIO | int] = [*self._shown_on, *([INPUT] if wants_more else [])]
            write_to = [self._fed_to] if self._fed_to and text else []
            readable, writable, _ = select.select(read_from, write_to, [], POLL_S)
            if self._until < inf and not readable:
                return
            for script in writable:
                self._feed(script, text)
            if self._input.is_over and not text:
                self._stop_feeding()
            if INPUT in readable:
                self._input.read()
            for source in [source for source in self._shown_on if source in readable]:
                self._take(source)

    def _feed(self, script: FileIO, text: bytes) -> None:
        try:
            self._fed += script.write(text) or 0
        except OSError:  # nobody reads it
            self._stop_feeding()

    def _stop_feeding(self) -> None:
        if self._fed_to not in self._shown_on:  # no terminal
            _close([self._fed_to])
        self._fed_to = None

    def _take(self, source: FileIO) -> None:
        text = b""
        with suppress(OSError):  # no process has this pseudo-terminal any more
            text = source.read(TAKEN_BYTES) or b""
        screen = self._shown_on[source]
        if not text:
            del self._shown_on[source]
        elif screen is None:
            self.kept += text
            del self.kept[:-KEPT_BYTES]
        else:
            show(text, screen)


def show(text: bytes, stream: int) -> None:
    """Write all of a text to a stream, unless that is gone."""
    with suppress(OSError):
        while text:
            text = text[os.write(stream, text) :]


def _close(files: Iterable[FileIO | None]) -> None:
    for file in filter(None, files):
        file.close()


def _pipe() -> tuple[FileIO, FileIO]:
    """Return the end of a pipe that is read, and the other one."""
    reading, writing = os.pipe()
    return FileIO(reading), FileIO(writing, "w")


def _pseudo_terminal(like: int) -> tuple[FileIO, FileIO]:
    """Return both ends of one that is as large as that of a stream, which itself echoes keys and ends lines."""
    master, slave = os.openpty()
    attributes = termios.tcgetattr(like)
    attributes[1] &= ~termios.OPOST
    attributes[3] &= ~termios.ECHO
    termios.tcsetattr(slave, termios.TCSANOW, attributes)
    termios.tcsetwinsize(slave, termios.tcgetwinsize(like))
    os.set_blocking(master, False)
    return FileIO(master, "r+"), FileIO(slave, "r+")

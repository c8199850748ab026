"""A script that is run as it is: started with hooks in its processes, and ended with all that it has started.

Its standard streams are those of this process. Runs beside the first one have no input but a file's, and what they
write is kept. Free of torch.
"""

import ctypes
import json
import os
import signal
import subprocess
import termios
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

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
INPUT, ERRORS = 0, 2
# The end of what a run writes is kept where it is not shown.
KEPT_BYTES = 1 << 17
END_OF_INPUT = 16 * b"\x04"
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
    """Runs of scripts for one answer: each has a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

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
        script = end = output = None
        with ExitStack() as files:
            if not is_shown:  # read all along: a run may write more than a disk holds
                end = files.enter_context(
                    subprocess.Popen(["tail", f"-c{KEPT_BYTES}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
                )
                files.callback(end.kill)
                output = end.stdin
            # Of a pipe or a terminal nothing can be read twice: the run that is shown has it.
            stdin = input_anew() or (None if is_shown else ended_input(files))
            files.enter_context(stdin or nullcontext())
            strangers = {pid for pid, parent in parents_of_processes().items() if parent == os.getpid()}
            try:
                try:
                    process = subprocess.Popen(
                        command,
                        env={**_environment(folder), **variables},
                        stdin=stdin,
                        stdout=output,
                        stderr=output,
                        start_new_session=True,
                    )
                except OSError as error:
                    raise MeasurementError(f"{command[0]}: cannot be started: {error.strerror}") from error
                script = Script(process, folder, strangers)
                try:
                    yield script
                finally:
                    script.end()
            except MeasurementError as error:
                code: int = getattr(error, "code", 1)
                if end and code:
                    show(end.communicate()[0], ERRORS)
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
        with TemporaryFolder() as folder:
            yield Runs(Path(folder))
    finally:
        system.prctl(ADOPT_ORPHANS, 0)


def _stop(number: int, _frame: object) -> None:
    raise SystemExit(128 + number)


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


def input_anew() -> FileIO | None:
    """Return the standard input, where it is a file: opened anew, where it stands."""
    with suppress(OSError):
        start = os.lseek(INPUT, 0, os.SEEK_CUR)
        file = FileIO(f"/proc/self/fd/{INPUT}")
        file.seek(start)
        return file
    return None


def ended_input(files: ExitStack) -> FileIO:
    """Return an input of which all is read. Where ours is a terminal, it is one too, as large: scripts ask for that."""
    if not os.isatty(INPUT):
        return FileIO(os.devnull)
    keys, terminal = (files.enter_context(FileIO(end, "r+")) for end in os.openpty())
    termios.tcsetwinsize(terminal, termios.tcgetwinsize(INPUT))
    keys.write(END_OF_INPUT)
    return terminal


def show(text: bytes, stream: int) -> None:
    """Write all of a text to a stream, unless that is gone."""
    with suppress(OSError):
        while text:
            text = text[os.write(stream, text) :]

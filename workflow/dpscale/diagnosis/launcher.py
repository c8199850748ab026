"""Run somebody's training script as it is, with hooks in its processes (`measure.attach`), and collect what they wrote.

The script runs once with interventions, once with nothing but a clock of its steps, and, where its command says how
many processes it starts, before and after that on one device (A B A). Nothing of it is left running, and nothing is
written but to a private folder. Free of torch.
"""

import json
import os
import re
import resource
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import msgspec

import dpscale
from dpscale.errors import MeasurementError, RecordError
from dpscale.records import VERSIONS
from dpscale.records.files import JsonRecord, decoded
from dpscale.records.script import ScriptRecord
from dpscale.vocabulary.causes import PROBES

HOOKS = Path(dpscale.__file__).parent / "measure/attach/site"
FOLDER = "DPSCALE_ATTACH"
POLL_S, SAY_EVERY_S = 0.2, 30.0
# After the last step a run has so long to end by itself. One that cannot be interrupted is killed.
GRACE_S = 20.0
# The part of the time that each run beside the one with interventions has.
PART = 0.15
_SAID = {"one": "now on one device", "diagnosed": "now with interventions", "paced": "now without"}
# It is not run on one device again where starts would take more than so many times the time that was asked for.
LONG_STARTS = 2.0
# Options of launchers that say how many processes a node has: torchrun's and accelerate's.
_PROCESSES = re.compile(r"--nproc[-_]per[-_]node|--num[-_]processes")
_ENDINGS = (signal.SIGTERM, signal.SIGHUP)


class NoTrainingError(MeasurementError):
    """A script without an optimiser step."""


class ScriptError(MeasurementError):
    """A script that ended by itself with `code`: its own output says why."""

    def __init__(self, code: int):
        super().__init__(f"the script ended by itself with exit code {code}; its own output is above")
        self.code = code


def diagnose_script(
    command: Sequence[str], minutes: float, first_step_s: float, say: Callable[[str], None]
) -> JsonRecord:
    """The record of the script that `command` starts, measured for so many minutes beside its starts.

    Raises ScriptError where it fails by itself, NoTrainingError where it makes no optimiser step within `first_step_s`
    seconds, MeasurementError where nothing was measured.
    """
    started_at = _now()
    for ending in _ENDINGS:
        signal.signal(ending, _stop)
    on_one_device, unknown = _on_one(command)
    with tempfile.TemporaryDirectory(prefix="dpscale-") as name:
        runs = _Runs(Path(name), minutes, 3 if on_one_device else 1, first_step_s, say)
        times = "four times, two of them on one device" if on_one_device else "twice"
        say(f"takes about {minutes:g} min and the script's starts: it runs {times}. What it writes is its own")
        if on_one_device:
            unknown = runs.try_on_one(on_one_device)
        runs.run("diagnosed", command)
        runs.run("paced", command)
        if on_one_device and not unknown:
            unknown = runs.try_on_one(on_one_device)
    record = {
        "kind": "script",
        "measurement_version": VERSIONS["script"].current,
        "command": list(command),
        "minutes": minutes,
        "started_at": started_at,
        "finished_at": _now(),
        "dpscale_version": dpscale.__version__,
        "one_unknown": unknown,
        "runs": runs.done,
    }
    try:
        decoded(ScriptRecord, json.dumps(record).encode())
    except RecordError as error:
        raise MeasurementError(f"the hooks wrote no record: it {error}") from error
    return record


def _on_one(command: Sequence[str]) -> tuple[list[str] | None, str | None]:
    """Return the same command with one process, or why there is none; neither where it starts one anyway."""
    for place, word in enumerate(command):
        option, joined, value = word.partition("=")
        if _PROCESSES.fullmatch(option):
            end = place + (1 if joined else 2)
            if (value or "".join(command[place + 1 : end])) == "1":
                return None, None
            return [*command[:place], f"{option}=1", *command[end:]], None
    return None, "the command has no --nproc-per-node or --num_processes, so it was not run on one device beside"


class _Progress(msgspec.Struct):
    """The progress of a process, as its hooks write it."""

    phase: str
    left_s: float


class _Problem(msgspec.Struct):
    """Why hooks do not work in a process."""

    why: str


T = TypeVar("T", _Progress, _Problem)


class _Runs:
    """Runs of the script, one after the other, each with a folder of its own."""

    def __init__(self, folder: Path, minutes: float, beside: int, first_step_s: float, say: Callable[[str], None]):
        self.folder, self.minutes, self.beside, self.first_step_s, self.say = folder, minutes, beside, first_step_s, say
        self.done: list[JsonRecord] = []

    def try_on_one(self, command: Sequence[str]) -> str | None:
        """Return why it could not be run on one device; None where it was. Raises NoTrainingError at once."""
        try:
            self.run("one", command)
        except NoTrainingError:
            raise
        except MeasurementError as error:
            return f"there, {error}"
        starts_s = 3 * self.done[0]["to_first_step_s"]
        return f"its starts take too long ({starts_s:.0f} s)" if starts_s > LONG_STARTS * 60 * self.minutes else None

    def run(self, what: str, command: Sequence[str]) -> None:
        """Run the script. Its output is shown in the run with interventions; in other runs where they fail."""
        self.say(_SAID[what])
        folder = self.folder / str(len(list(self.folder.iterdir())))
        folder.mkdir()
        minutes = self.minutes * (1 - self.beside * PART if what == "diagnosed" else PART)
        job = {
            "minutes": minutes,
            "seed": 1,
            "mode": "pace" if what == "paced" else "diagnose",
            "leave_out": list(PROBES) if what == "one" else [],
        }
        (folder / "job.json").write_text(json.dumps(job))
        with (folder / "output").open("wb") as output:
            shown = None if what == "diagnosed" else output
            script = _started(command, folder, shown, {"OMP_NUM_THREADS": "1"} if what == "one" else {})
            watched = _Watched(folder, 60 * minutes, self.first_step_s, self.say)
            try:
                watched.watch(script)
            except MeasurementError as error:
                if shown:
                    os.write(2, (folder / "output").read_bytes())
                for problem in _read_all(_Problem, folder, "problem-*.json"):
                    error.args = (f"{error}. Its hooks did not work: {problem.why}",)
                raise
            finally:
                _end(script, folder)
        paths = folder.glob("process-*.json")
        processes = [{**json.loads(path.read_text()), "ended_by": watched.ended_by} for path in paths]
        self._require(what, processes)
        self.done.append({
            "what": what,
            "code": watched.code,
            "to_first_step_s": watched.to_first_step_s,
            "wall_s": time.monotonic() - watched.start,
            "other_cores": watched.other_cores(),
            "others_on_gpu": watched.others_on_gpu,
            "processes": sorted(processes, key=lambda process: (process.get("rank", 0), process.get("pid", 0))),
        })  # fmt: skip

    def _require(self, what: str, found: Sequence[JsonRecord]) -> None:
        if not found:
            raise MeasurementError("the script trained, and nothing wrote down its steps: was it killed?")
        if what != "paced" and all(one.get("status") == "few steps" for one in found):
            steps = max(one["steps"] for one in found)
            raise MeasurementError(
                f"the script made {steps} optimiser steps, too few for a diagnosis: give it more steps or --minutes"
            )


def _started(
    command: Sequence[str], folder: Path, output: Any, defaults: Mapping[str, str]
) -> "subprocess.Popen[bytes]":
    """In a session of its own, so that a key at the terminal reaches this process alone, which ends it.

    `defaults` are of variables that are not set: of one process torchrun does not limit the threads, as of several.
    """
    private = str(folder / "trackers")
    environment = {
        **defaults,
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, [str(HOOKS), os.environ.get("PYTHONPATH")])),
        FOLDER: str(folder),
        **dict.fromkeys(("WANDB_MODE", "NEPTUNE_MODE"), "offline"),
        **dict.fromkeys(("WANDB_DIR", "COMET_OFFLINE_DIRECTORY"), private),
        "COMET_START_ONLINE": "0",
        "CLEARML_OFFLINE_MODE": "1",
        "MLFLOW_TRACKING_URI": f"file:{private}",
    }
    Path(private).mkdir()
    try:
        return subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output and subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        raise MeasurementError(f"{command[0]}: cannot be started: {error.strerror}") from error


class _Watched:
    """A run that is looked at until it ends, or its time is up."""

    def __init__(self, folder: Path, limit_s: float, first_step_s: float, say: Callable[[str], None]):
        self.folder, self.limit_s, self.first_step_s, self.say = folder, limit_s, first_step_s, say
        self.start = time.monotonic()
        self.to_first_step_s = 0.0
        self.code: int | None = None
        self.ended_by = "script"
        self.others_on_gpu: list[int] | None = None
        self._busy_s, self._own_s = _busy_s(), _own_s()
        self._said = self.start

    def other_cores(self) -> float:
        """Cores that were busy with others than the run, on average from its start to its end."""
        others_s = _busy_s() - self._busy_s - (_own_s() - self._own_s)
        return max(0.0, others_s / (time.monotonic() - self.start))

    def watch(self, process: "subprocess.Popen[bytes]") -> None:
        """Raises ScriptError where it ends by itself with an error, MeasurementError where it makes no step in time."""
        ended = None
        while (code := process.poll()) is None:
            now = time.monotonic()
            progress = self._progress()
            if progress and not self.to_first_step_s:
                self.to_first_step_s = now - self.start
            if not progress and now - self.start > self.first_step_s:
                raise NoTrainingError(
                    f"no optimiser step within {self.first_step_s:g} s: this is no training that can be diagnosed. Is "
                    "it Python with torch 2.4 or newer, on this machine? For a longer start: --first-step-within"
                )
            if ended is None and any(process.phase == "ended" for process in progress):
                ended = now
            self.ended_by = "time" if ended else "script"
            overdue = self.to_first_step_s and now - self.start > self.to_first_step_s + 2 * self.limit_s + 60
            if overdue or (ended and now - ended > GRACE_S):
                return
            if self.others_on_gpu is None and any(process.phase == "timing" for process in progress):
                self.others_on_gpu = _others_on_gpu(self.folder)
            self._say_left(progress, now)
            time.sleep(POLL_S)
        self.code = code
        if any(process.phase == "ended" for process in self._progress()):
            self.ended_by = "time"
        elif code:
            raise ScriptError(code)
        elif not any(self.folder.glob("process-*.json")):
            raise NoTrainingError("the script ended without an optimiser step: this is no training with torch")

    def _progress(self) -> list[_Progress]:
        return list(_read_all(_Progress, self.folder, "progress-*.json"))

    def _say_left(self, progress: Sequence[_Progress], now: float) -> None:
        left = max((process.left_s for process in progress), default=0.0)
        if left and now - self._said > SAY_EVERY_S:
            self._said = now
            self.say(f"about {left / 60:.1f} min left of this run")


def _end(process: "subprocess.Popen[bytes]", folder: Path) -> None:
    """Kill all that the command started, also what is in sessions of its own, as torchrun's workers are."""
    for _ in range(2):  # what is started meanwhile
        for pid in [process.pid, *_pids(folder)]:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
    process.wait()


def _pids(folder: Path) -> Iterator[int]:
    """Processes whose environment names this private folder."""
    marker = f"{FOLDER}={folder}\0".encode()
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if marker in (entry / "environ").read_bytes():
                yield int(entry.name)


def _others_on_gpu(folder: Path) -> list[int]:
    """Processes of others on the GPUs that a run uses, as far as the driver shows them here."""
    query = ["nvidia-smi", "--query-compute-apps=gpu_uuid,pid", "--format=csv,noheader"]
    try:
        lines = subprocess.run(query, capture_output=True, text=True, timeout=10).stdout.splitlines()
    except (OSError, subprocess.TimeoutExpired):
        return []
    on_gpus, of_run = [(gpu, int(pid)) for gpu, pid in (line.split(", ") for line in lines)], set(_pids(folder))
    used = {gpu for gpu, pid in on_gpus if pid in of_run}
    return [pid for gpu, pid in on_gpus if gpu in used and pid not in of_run]


def _busy_s() -> float:
    """Seconds that the cores of this process have worked since the machine was started (man 5 proc)."""
    cores = {f"cpu{core}" for core in os.sched_getaffinity(0)}
    lines = [line.split() for line in Path("/proc/stat").read_text().splitlines()]
    ticks = [list(map(int, line[1:8])) for line in lines if line and line[0] in cores]
    return sum(sum(line) - line[3] - line[4] for line in ticks) / os.sysconf("SC_CLK_TCK")


def _own_s() -> float:
    """Seconds that this process, and all that it started and that has ended, have worked."""
    return sum(sum(resource.getrusage(whose)[:2]) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def _read_all(kind: type[T], folder: Path, pattern: str) -> Iterator[T]:
    """Yield the files of hooks that are there, and whole."""
    for path in folder.glob(pattern):
        with suppress(OSError, ValueError):
            yield msgspec.json.decode(path.read_bytes(), type=kind)


def _stop(number: int, _frame: object) -> None:
    raise SystemExit(128 + number)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")

"""Run somebody's training script as it is, with hooks in its processes (`attach`), and collect what they wrote.

The script runs once with interventions, once with nothing but a clock of its steps, and, where it trained on several
devices, before and after the latter on one. Nothing of it is left running, and nothing is written but to a private
folder. Free of torch.
"""

import json
import os
import re
import resource
import subprocess
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import dropwhile
from math import inf
from pathlib import Path
from types import MappingProxyType

import msgspec

import dpscale
from dpscale.diagnosis.script import GRACE_S, POLL_S, NoTrainingError, Runs, Script, ScriptError, private_runs, read_of
from dpscale.errors import MeasurementError
from dpscale.records import VERSIONS
from dpscale.records.files import JsonRecord, now
from dpscale.records.redaction import public_code, public_command
from dpscale.records.script import ScriptRun, devices_of, trained
from dpscale.vocabulary.causes import PROBES

# The part of the time that each run beside the one with interventions has.
PART = 0.15
_SAID = {"one": "now on one device", "diagnosed": "now with interventions", "paced": "now without"}
# A run that has not ended so long after twice its time is ended from outside.
OVERDUE_S = 60.0
# It is not run on one device again where starts would take more than so many times the time that was asked for.
LONG_STARTS = 2.0
# Options of launchers that say how many processes a node has: torchrun's and accelerate's.
_PROCESSES = re.compile(r"--nproc[-_]per[-_]node|--num[-_]processes")
_OF_SEVERAL = ("--multi_gpu", "--multi-gpu")
# What a script needs so that its steps are seen.
_TO_BE_SEEN = (
    "Does it call step() of an optimiser of torch.optim, in Python with torch 2.4 or newer, on this machine? Where the "
    "command or the script sets PYTHONPATH, it has to add to it: PYTHONPATH=src:$PYTHONPATH. The options -I, -E and -S "
    "of Python keep dpscale's hooks out."
)
VISIBLE, THREADS = "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS"


def diagnose_script(
    command: Sequence[str], minutes: float, first_step_s: float, say: Callable[[str], None]
) -> JsonRecord:
    """The record of the script that `command` starts, measured for so many minutes beside its starts.

    Raises ScriptError where it fails by itself, NoTrainingError where it makes no optimiser step within `first_step_s`
    seconds, MeasurementError where nothing was measured.
    """
    started_at = now()
    may_use_several = on_one_device(command, _gpus_seen() > 1, os.environ) is not None
    with private_runs() as runs:
        measured = _ScriptRuns(runs, minutes, 3 if may_use_several else 1, first_step_s, say)
        times = "up to four times, two of them on one device" if may_use_several else "twice"
        say(f"takes about {minutes:g} min and the script's starts: it runs {times}. What it writes is its own")
        diagnosed = measured.run("diagnosed", command)
        unknown = measured.try_on_one(command, diagnosed)
        try:
            measured.run("paced", command)
        except MeasurementError as error:
            say(f"what watching costs is not known: without it, {error}")
        if any(run["what"] == "one" for run in measured.runs_done):
            unknown = measured.try_on_one(command, diagnosed)
    return {
        "kind": "script",
        "measurement_version": VERSIONS["script"].current,
        "command": public_command(command),
        "minutes": minutes,
        "started_at": started_at,
        "finished_at": now(),
        "dpscale_version": dpscale.__version__,
        "one_unknown": unknown,
        "runs": measured.runs_done,
    }


def on_one_device(
    command: Sequence[str], on_gpu: bool, environment: Mapping[str, str]
) -> tuple[list[str], dict[str, str]] | None:
    """Return the command and the variables that start the same on one device; None where nothing can tell it so.

    One process of a launcher still sees all GPUs: scripts of several look whether there are. Of one process torchrun
    does not limit the threads, as it does of several, and accelerate has no strategy for several.
    """
    for place, word in enumerate(command):
        option, joined, value = word.partition("=")
        if _PROCESSES.fullmatch(option):
            end = place + (1 if joined else 2)
            if (value or "".join(command[place + 1 : end])) != "1":
                before = [word for word in command[:place] if word not in _OF_SEVERAL]
                after = dropwhile(lambda word: word in _OF_SEVERAL, command[end:])
                return [*before, f"{option}=1", *after], {THREADS: environment.get(THREADS, "1")}
    # The user's own name of the first GPU: an index, or a UUID.
    return (list(command), {VISIBLE: environment.get(VISIBLE, "0").split(",")[0]}) if on_gpu else None


@dataclass
class _ScriptRuns:
    """Runs of the script, one after the other."""

    runs: Runs
    minutes: float
    beside: int
    first_step_s: float
    say: Callable[[str], None]
    runs_done: list[JsonRecord] = field(default_factory=list)

    def try_on_one(self, command: Sequence[str], diagnosed: ScriptRun) -> str | None:
        """Return why a script that trained on several devices was not run on one; None where it was, or has one."""
        ranks = trained(diagnosed.processes)
        if devices_of(ranks) == 1:
            return None
        started_once = on_one_device(command, ranks[0].device == "cuda", os.environ)
        if started_once is None:
            return "its command does not say how many processes it starts (--nproc-per-node, --num_processes)"
        starts_s = 3 * diagnosed.to_first_step_s
        if starts_s > LONG_STARTS * 60 * self.minutes:
            return f"its starts take too long ({starts_s:.0f} s)"
        try:
            ranks = trained(self.run("one", *started_once).processes)
        except MeasurementError as error:
            return f"there, {error}"
        if max(devices_of(ranks), ranks[0].world_size) > 1:
            del self.runs_done[-1]
            return "there it still trained on several"
        return None

    def run(self, what: str, command: Sequence[str], variables: Mapping[str, str] = MappingProxyType({})) -> ScriptRun:
        """Run the script. Its output is shown in the run with interventions; in other runs its end, where they fail."""
        self.say(_SAID[what])
        minutes = self.minutes * (1 - self.beside * PART if what == "diagnosed" else PART)
        mode, left_out = "pace" if what == "paced" else "diagnose", list(PROBES) if what == "one" else []
        folder = self.runs.new_folder({"minutes": minutes, "mode": mode, "leave_out": left_out})
        started = self.runs.started(command, folder, variables, is_shown=what == "diagnosed")
        values = {"what": what, **self._watched(started, 60 * minutes)}
        try:
            run = msgspec.convert(values, ScriptRun)
        except msgspec.ValidationError as error:
            raise MeasurementError(f"the hooks wrote no record: {error}") from error
        if not run.processes and run.code is None:
            raise MeasurementError(f"its steps take too long for {minutes:.2g} min of measuring: give more --minutes")
        if run.processes and what != "paced" and all(process.status == "few steps" for process in run.processes):
            steps = max(process.steps for process in run.processes)
            raise MeasurementError(
                f"the script made {steps} optimiser steps, too few for a diagnosis: give it more steps or --minutes"
            )
        if not any(process.blocks for process in run.processes):
            why = next((process.why for process in run.processes), None)
            raise MeasurementError(f"no step of the script was timed: {why or 'it ended too early, or was killed'}")
        self.runs_done.append(values)
        return run

    def _watched(self, started: AbstractContextManager[Script], limit_s: float) -> JsonRecord:
        """Wait until a run ends, or its time is up, and return it as its record has it.

        Raises ScriptError where it ends by itself with an error, NoTrainingError where it makes no step in time.
        """
        start, others_s = time.monotonic(), _others_s()
        to_first_step_s, ended, others_on_gpu = 0.0, inf, None
        with started as script:
            while True:
                code, waited_s = script.process.poll(), time.monotonic() - start
                phases = script.told("progress", "phase")
                to_first_step_s = to_first_step_s or (waited_s if phases else 0.0)
                ended = min(ended, waited_s) if "ended" in phases else ended
                is_overdue = phases and waited_s > to_first_step_s + 2 * limit_s + OVERDUE_S
                if code is not None or is_overdue or waited_s - ended > GRACE_S:
                    break
                if not phases and waited_s > self.first_step_s:
                    raise NoTrainingError(
                        f"no optimiser step was seen within {self.first_step_s:g} s. {_TO_BE_SEEN} For a longer start: "
                        "--first-step-within"
                    )
                if others_on_gpu is None and "timing" in phases:
                    others_on_gpu = _others_on_gpu(script.pids())
                time.sleep(POLL_S)
            # What is profiled at last may break a script: all blocks are there.
            is_measured = ended < inf or bool(code and "profiling" in phases)
            if code and not is_measured:
                raise ScriptError(code)
        texts = [path.read_text() for path in script.folder.glob("process-*.json")]
        if code == 0 and not phases:
            raise NoTrainingError(f"the script ended, and no optimiser step was seen. {_TO_BE_SEEN}")
        ended_by = {"ended_by": "time" if is_measured else "script"}
        processes = [json.loads(text, object_hook=_masked) | ended_by for text in texts]
        return {
            "code": code,
            "to_first_step_s": to_first_step_s,
            "wall_s": waited_s,
            "other_cores": max(0.0, (_others_s() - others_s) / (time.monotonic() - start)),  # on average
            "others_on_gpu": others_on_gpu,
            "processes": sorted(processes, key=lambda process: (process.get("rank", 0), process.get("pid", 0))),
        }


def _masked(values: JsonRecord) -> JsonRecord:
    """Return values in which lines of the script have no secrets."""
    return {**values, **{name: public_code(values[name]) for name in ("code", "inside") if name in values}}


def _gpus_seen() -> int:
    """Return how many GPUs a script would see."""
    if VISIBLE in os.environ:
        return len(list(filter(None, os.environ[VISIBLE].split(","))))
    return len(_nvidia_smi("--list-gpus"))


def _nvidia_smi(*options: str) -> list[str]:
    """Return the lines of NVIDIA's tool, whose driver this needs no library for. None without it."""
    try:
        return subprocess.run(["nvidia-smi", *options], capture_output=True, text=True, timeout=10).stdout.splitlines()
    except (OSError, subprocess.TimeoutExpired):
        return []


def _others_on_gpu(of_run: Collection[int]) -> list[JsonRecord]:
    """Processes of others on the GPUs that those of a run use, as far as the driver shows them here."""
    lines = _nvidia_smi("--query-compute-apps=gpu_uuid,pid,used_memory", "--format=csv,noheader,nounits")
    cells = (line.split(", ") for line in lines)
    rows = [(row[0], int(row[1]), row[2]) for row in cells if len(row) == 3 and row[1].isdigit()]
    used = {gpu for gpu, pid, _ in rows if pid in of_run}
    return [
        {
            "pid": pid,
            "name": read_of(pid, "comm").decode(errors="replace").strip(),  # of man 5 proc
            "bytes": int(mib) << 20 if mib.isdigit() else None,
        }
        for gpu, pid, mib in rows
        if gpu in used and pid not in of_run
    ]


def _others_s() -> float:
    """Seconds that the cores of this process have worked since the machine was started (man 5 proc), but for those of
    this process, and of all that it started and that has ended."""
    cores = {f"cpu{core}" for core in os.sched_getaffinity(0)}
    lines = [line.split() for line in Path("/proc/stat").read_text().splitlines()]
    ticks = [list(map(int, line[1:8])) for line in lines if line and line[0] in cores]
    busy_s = sum(sum(line) - line[3] - line[4] for line in ticks) / os.sysconf("SC_CLK_TCK")
    return busy_s - sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))

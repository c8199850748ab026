"""How often `dpscale diagnose -- COMMAND` names the cause that is in a script, and how well it tells what a cure saves.

    python bench/diagnose_scripts.py --times 3 --out cpu.json                            # two CPU workers each
    python bench/diagnose_scripts.py --device cuda --gpus 0,1 --jobs 2 --times 3 --out gpu.json   # one GPU each
    python bench/diagnosis_table.py cpu.json gpu.json                                     # the confusion matrix

Every cause is in `bench/injected_script.py`, which runs as it is: once with the cause (on) and once without (off), in
random order. `--jobs` cases run at once, each on two cores of its own, which is all that the diagnosis sees; those of
one GPU take turns: one trains while the others start. The file is written after each run: the same command goes on with
what is missing, so `--limit` can cut it into several. Nothing else should run on these cores.
"""

import json
import os
import random
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import click

from dpscale.diagnosis.diagnose import diagnose_script
from dpscale.records.files import decoded
from dpscale.records.script import ScriptRecord
from dpscale.vocabulary.causes import NOTHING

SCRIPT = Path(__file__).with_name("injected_script.py")
CORES_EACH = 2
LIMIT_S = 300.0
# What a run is taken to need, before one has ended.
EXPECTED_S = 60.0
# What every run on a machine with other work has, whatever is injected: counted apart.
AMBIENT = "other_work"


@dataclass(frozen=True)
class Case:
    """A cause, the script's options, and what it is started by.

    `also` are other causes that are as right an answer. Without the cause the script has the options `off`, if they are
    others; then its step is another one, and what it saves is not compared. `healthy` is what is true of it then, too.
    """

    cause: str
    options: str
    also: Sequence[str] = ()
    healthy: Sequence[str] = ()
    off: str | None = None
    prefix: str = ""
    variables: str = ""
    processes: int = 2
    saves: bool = True
    """Whether the cure makes a step shorter."""
    shows_processes: bool = False
    """Whether the command says how many processes it starts, so that it is run on one device too."""


# Steps of 15 to 30 ms on a core, with gradients of 50 kB: their exchange takes 8 to 10 %, just less than what is named.
_STEP = "--batch 96 --tokens 128"
CPU = (
    Case(NOTHING.name, _STEP),
    Case("slow_loader", _STEP),
    Case("loader_of_one_rank", _STEP),
    Case("workers_restarted", _STEP),
    Case("few_batches", _STEP, ("workers_restarted",)),
    Case("slow_device", _STEP),
    Case("uneven_ranks", _STEP),
    Case("heavy_gradients", "--batch 8 --width 1024", off=_STEP),
    Case("buffers", _STEP),
    Case("micro_batches", "--batch 16 --tokens 128"),
    Case("scalars", _STEP),
    Case("sharding", "--batch 96 --tokens 64 --layers 100"),
    Case("anomaly", "--batch 192 --tokens 64 --layers 10 --width 32"),
    Case("float64", _STEP),
    Case("many_small_tensors", "--batch 24 --tokens 64 --layers 300"),
    Case("garbage_collection", _STEP),
    Case("validation", _STEP),
    Case("checkpoint", _STEP),
    Case("logging", _STEP),
    Case("own_code", _STEP),
    Case("work_not_divided", _STEP, saves=False),
    Case("started_twice", _STEP, saves=False),
    Case("batch_not_scaled", "--batch 32 --layers 1500 --split", off="--batch 32 --layers 1500", shows_processes=True),
    Case("too_few_cores", _STEP, prefix="taskset -c {core}"),
)
# Steps of some 10 ms on an H100, which they keep busy.
_LARGE, _DEEP = "--batch 8192 --width 4096 --layers 3", "--batch 8192 --width 2048 --layers 20"
GPU = (
    Case(NOTHING.name, _LARGE, processes=1),
    Case("float64", _LARGE, processes=1),
    Case("no_tf32", _LARGE, processes=1),
    Case("allocator_emptied", _LARGE, processes=1),
    Case("hidden_synchronisation", _DEEP, processes=1),
    Case("many_small_tensors", "--layers 100", ("small_batch",), ("small_batch",), processes=1),
    Case("cudnn_search", "--images --batch 256", processes=1),
    Case("slow_loader", "--batch 4096 --width 4096 --layers 3", processes=1),
    Case("anomaly", _DEEP, processes=1),
    Case("garbage_collection", _LARGE, processes=1),
    Case("small_batch", "--layers 50", ("many_small_tensors",), off=_LARGE, processes=1),
    Case("logging", _DEEP, processes=1),
    Case("checkpoint", _LARGE, processes=1),
    Case("debugger", _DEEP, variables="CUDA_LAUNCH_BLOCKING=1", processes=1, saves=False),
)


@dataclass(frozen=True)
class Run:
    """A case with its cause or without, in a round."""

    case: Case
    off: bool
    round: int

    @property
    def key(self) -> tuple[str, bool, int]:
        return self.case.cause, self.off, self.round


@dataclass(frozen=True)
class Place:
    """Where one run is at a time: its cores, and its GPU, if it has one, with the file that says whose turn it is."""

    cores: Sequence[int]
    gpu: str = ""
    turn: Path | None = None


@click.command()
@click.option("--device", type=click.Choice(["cuda", "cpu"]), default="cpu", show_default=True)
@click.option(
    "--times", type=click.IntRange(min=1), default=3, show_default=True, help="Runs of every cause, on and off."
)
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Cases at once, per GPU.")
@click.option("--gpus", default="0", show_default=True, help="One case trains on each of these at a time: 0,1.")
@click.option("--cores", help="Those that may be used: 4-31. [default: all]")
@click.option("--limit", "limit_s", type=float, default=float("inf"), help="Seconds in which all that is begun ends.")
@click.option("--minutes", type=float, default=0.5, show_default=True, help="Of every run, beside its starts.")
@click.option("--cause", "only", multiple=True, help="This cause alone. Can be given several times.")
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), required=True, help="A JSON file, gone on with."
)
@click.option("--records", type=click.Path(file_okay=False, path_type=Path), help="Folder for the records of all runs.")
def main(
    device: str,
    times: int,
    jobs: int,
    gpus: str,
    cores: str | None,
    limit_s: float,
    minutes: float,
    only: tuple[str, ...],
    out: Path,
    records: Path | None,
) -> None:
    usable = numbers(cores) if cores else sorted(os.sched_getaffinity(0))
    names = [gpu for gpu in (gpus.split(",") if device == "cuda" else [""]) for _ in range(jobs)]
    if len(usable) < CORES_EACH * len(names):
        raise click.UsageError(
            f"{len(names)} cases at once need {CORES_EACH * len(names)} cores; there are {len(usable)}"
        )
    if records:
        records.mkdir(parents=True, exist_ok=True)
    matrix = Matrix(device, minutes, limit_s, out, records)
    cases = [case for case in (CPU if device == "cpu" else GPU) if not only or case.cause in only]
    with tempfile.TemporaryDirectory() as turns:
        places = [
            Place(usable[CORES_EACH * at : CORES_EACH * (at + 1)], gpu, Path(turns, gpu) if gpu else None)
            for at, gpu in enumerate(names)
        ]
        matrix.run([run for number in range(times) for run in shuffled(cases, number)], places)


def numbers(text: str) -> list[int]:
    """Of `0-3,8`."""
    spans = [part.partition("-") for part in text.split(",")]
    return [number for low, _, high in spans for number in range(int(low), int(high or low) + 1)]


def shuffled(cases: Sequence[Case], number: int) -> list[Run]:
    runs = [Run(case, off, number) for case in cases for off in (False, True) if case.cause != NOTHING.name or off]
    random.Random(number).shuffle(runs)
    return runs


def rows_of(file: Path) -> list[dict[str, Any]]:
    return list(json.loads(file.read_text())["runs"]) if file.exists() else []


class Matrix:
    """Runs of cases, several at once, and their answers."""

    def __init__(self, device: str, minutes: float, limit_s: float, out: Path, records: Path | None):
        self.device, self.minutes, self.limit_s, self.out, self.records = device, minutes, limit_s, out, records
        self.rows = rows_of(out)
        self.began = time.monotonic()
        self.lock = Lock()

    def run(self, runs: Sequence[Run], places: Sequence[Place]) -> None:
        """Those that are not there yet, in this order, one at a time in each place."""
        done = {(row["cause"], row["off"], row["round"]) for row in self.rows}
        todo = iter([run for run in runs if run.key not in done])
        with ThreadPoolExecutor(len(places)) as threads:
            list(threads.map(lambda place: self._work(place, todo), places))

    def _work(self, place: Place, todo: Iterator[Run]) -> None:
        os.sched_setaffinity(0, place.cores)  # this thread, and what it starts
        while run := self._next(todo):
            row = self._answer(run, place)
            with self.lock:
                self.rows.append(row)
                partial = self.out.with_suffix(".partial")
                partial.write_text(json.dumps({"device": self.device, "runs": self.rows}, indent=1) + "\n")
                partial.replace(self.out)
            reasons = ", ".join(f"{name} {share:.0%}" for name, share in row["reasons"].items())
            state = "off" if run.off else "on"
            click.echo(
                f"{run.round} {run.case.cause} {state}: {reasons or row['first']} ({row['seconds']:.0f} s)", err=True
            )

    def _next(self, todo: Iterator[Run]) -> Run | None:
        """None where there is no time for one more, as long as the longest so far."""
        with self.lock:
            longest_s = max((row["seconds"] for row in self.rows), default=EXPECTED_S)
            is_late = time.monotonic() - self.began + longest_s > self.limit_s
            return None if is_late else next(todo, None)

    def _answer(self, run: Run, place: Place) -> dict[str, Any]:
        case, start = run.case, time.monotonic()
        name = f"{case.cause}-{'off' if run.off else 'on'}-{run.round}"
        with tempfile.TemporaryDirectory() as folder:
            file = self.records / f"{self.device}-{name}.json" if self.records else Path(folder, "record.json")
            told = diagnosed(self.minutes, file, script_command(run, place, self.device), environment(run, place))
            seconds = time.monotonic() - start
            answer: dict[str, Any] = {"first": "failed", "reasons": {}, "told": told}
            if told is None:
                answer = {**answered(json.loads(file.read_text())), "is_same": case.saves and case.off is None}
        case_told = {"cause": case.cause, "also": case.also, "healthy": case.healthy, "device": self.device}
        return {**case_told, "off": run.off, "round": run.round, "seconds": seconds, **answer}


def environment(run: Run, place: Place) -> dict[str, str]:
    variables = dict(pair.split("=") for pair in run.case.variables.split()) if not run.off else {}
    return {**os.environ, **variables, "CUDA_VISIBLE_DEVICES": place.gpu}


def script_command(run: Run, place: Place, device: str) -> list[str]:
    case = run.case
    options = case.off if run.off and case.off is not None else case.options
    words = [] if run.off else case.prefix.format(core=place.cores[0]).split()
    words.append(sys.executable)
    if case.processes > 1:
        words += ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={case.processes}"]
    words += [str(SCRIPT), "--cause", case.cause, "--device", device, "--round", str(run.round), *options.split()]
    words += ["--cured"] if run.off else []
    words += ["--turn", str(place.turn)] if place.turn else []
    # A shell hides how many processes there are: the runs on one device are left out.
    return words if case.shows_processes else ["sh", "-c", f"exec {shlex.join(words)}"]


def diagnosed(minutes: float, file: Path, script: Sequence[str], variables: Mapping[str, str]) -> str | None:
    """What was said where there is no record. One that takes too long is asked to end, and ends its script."""
    command = [
        sys.executable,
        "-m",
        "dpscale",
        "diagnose",
        "--minutes",
        str(minutes),
        "--first-step-within",
        str(LIMIT_S / 2),
        "--json",
        str(file),
        "--",
        *script,
    ]
    process = subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        output, _ = process.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate()
        return f"it took more than {LIMIT_S:g} s\n{output[-2000:]}"
    return output[-2000:] if process.returncode else None


def answered(record: Mapping[str, Any]) -> dict[str, Any]:
    diagnosis = diagnose_script(decoded(ScriptRecord, json.dumps(record).encode()))
    reasons = [reason for reason in diagnosis.reasons if reason.cause.name != AMBIENT]
    saved = [remedy for reason in reasons[:1] for remedy in reason.remedies]
    measured = next((one.measured_s.value for one in saved if one.measured_s), None)
    predicted = next((one.predicted_s.value for one in saved if one.predicted_s), None)
    runs = {run["what"]: run for run in record["runs"]}
    paced = runs["paced"]["processes"][0]
    return {
        "first": reasons[0].cause.name if reasons else diagnosis.first.name if not diagnosis.reasons else NOTHING.name,
        "reasons": {reason.cause.name: reason.share.value for reason in reasons},
        "smaller": {one.cause.name: one.share.value for one in diagnosis.smaller},
        "told_s": measured if measured is not None else predicted,
        "was_tried": measured is not None,
        "step_s": diagnosis.whole_s.value,
        "paced_step_s": paced["wall_s"] / max(1, paced["steps"]),  # with all that comes now and then
        "other_work": float(AMBIENT in {reason.cause.name for reason in diagnosis.reasons}),
        "other_cores": runs["diagnosed"]["other_cores"],
    }


if __name__ == "__main__":
    main()

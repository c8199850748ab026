"""How often `dpscale diagnose -- COMMAND` names the cause that is in a script, and how well it tells what a cure saves.

    python -m bench.diagnose_scripts --times 3 --out cpu.json                            # two CPU workers each
    python -m bench.diagnose_scripts --device cuda --gpus 0,1 --jobs 2 --times 3 --out gpu.json
    python -m bench.diagnose_scripts --side-by-side 4 --out beside.json                  # healthy runs, four at once
    python -m bench.diagnose_scripts --check                                             # without dpscale: on over off
    python -m bench.diagnosis_table cpu.json gpu.json beside.json                        # the confusion matrix

Every case (`bench/diagnosis_cases.py`) is a script of `bench/diagnosed`, which runs as it is: with the cause (on) and
without it (off), in random order; causes whose scripts are the same without them share that run. `--jobs` cases run at
once, each on two cores of its own, which is all that the diagnosis sees; those of one GPU take turns: one trains
while the others start. The file is written after each run: the same command goes on with what is missing, so `--limit`
can cut it into several. Nothing else should run on these cores.
"""

import json
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from math import nan
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import click
from bench.diagnosis_cases import CASES, SCRIPTS, Case, account_deviation, first_place, is_right

from dpscale.diagnosis.diagnose import diagnose_script
from dpscale.records.files import decoded
from dpscale.records.script import ScriptRecord
from dpscale.vocabulary.causes import NOTHING

CORES_EACH = 2
LIMIT_S = 300.0
# What a run is taken to need, before one has ended.
EXPECTED_S = 60.0
# What every run on a machine with other work has, whatever is injected: counted apart.
AMBIENT = "other_work"
# Of a check: steps after a warm-up, which are whole epochs, and seconds.
STEP = re.compile(r"step_s (\S+) (\S+) \.")
PACED, CHECK_LIMIT_S = 80, 120.0
BUSY = "import ctypes; ctypes.CDLL(None).prctl(1, 9)\nwhile True: pass"  # it ends with the bench


@dataclass(frozen=True)
class Run:
    """A case with its cause or without, in a round."""

    case: Case
    off: bool
    round: int

    @property
    def key(self) -> tuple[str, str, int, bool, int]:
        return self.case.script, self.case.cause, self.case.gpus, self.off, self.round

    @property
    def processes(self) -> int:
        return (self.off and self.case.processes_off) or self.case.processes


@dataclass(frozen=True)
class Place:
    """Where one run is at a time: its cores, and its GPU, if it has one, before all others of the machine.

    A run takes turns on as many of these as it needs: in `turns` is a file per GPU.
    """

    cores: Sequence[int]
    gpus: Sequence[str] = ()
    turns: Path | None = None


@click.command()
@click.option("--device", type=click.Choice(["cuda", "cpu"]), default="cpu", show_default=True)
@click.option(
    "--times", type=click.IntRange(min=1), default=3, show_default=True, help="Runs of every cause, on and off."
)
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Cases at once, per GPU.")
@click.option(
    "--side-by-side", "beside", type=click.IntRange(min=2), help="So many healthy runs at once, and no others."
)
@click.option(
    "--check", is_flag=True, help="Print what a step takes with the cause over without, and diagnose nothing."
)
@click.option("--gpus", default="0", show_default=True, help="One case trains on each of these at a time: 0,1.")
@click.option("--cores", help="Those that may be used: 4-31. [default: all]")
@click.option("--limit", "limit_s", type=float, default=float("inf"), help="Seconds in which all that is begun ends.")
@click.option("--minutes", type=float, default=0.5, show_default=True, help="Of every run, beside its starts.")
@click.option("--script", "scripts", multiple=True, help="This script alone. Can be given several times.")
@click.option("--cause", "causes", multiple=True, help="This cause alone. Can be given several times.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="A JSON file, gone on with.")
@click.option("--records", type=click.Path(file_okay=False, path_type=Path), help="Folder for the records of all runs.")
def main(
    device: str,
    times: int,
    jobs: int,
    beside: int | None,
    check: bool,
    gpus: str,
    cores: str | None,
    limit_s: float,
    minutes: float,
    scripts: tuple[str, ...],
    causes: tuple[str, ...],
    out: Path | None,
    records: Path | None,
) -> None:
    usable = numbers(cores) if cores else sorted(os.sched_getaffinity(0))
    all_gpus = gpus.split(",") if device == "cuda" else []
    at_once = beside or jobs * max(1, len(all_gpus))
    cores_each = len(usable) // at_once if all_gpus else min(CORES_EACH, len(usable) // at_once)
    if not cores_each or (not beside and cores_each < CORES_EACH):
        raise click.UsageError(f"{at_once} cases at once need {CORES_EACH * at_once} cores; there are {len(usable)}")
    if beside and device == "cuda" and beside > len(all_gpus):
        raise click.UsageError(f"{beside} runs at once need a GPU each; --gpus has {len(all_gpus)}")
    if records:
        records.mkdir(parents=True, exist_ok=True)
    cases = [
        case
        for case in CASES[device]
        if (not causes or case.cause in causes)
        and (not scripts or case.script in scripts)
        and case.gpus <= max(1, len(all_gpus))
    ]
    with tempfile.TemporaryDirectory() as turns:
        places = [
            Place(
                usable[cores_each * at : cores_each * (at + 1)],
                (*all_gpus[at % len(all_gpus) :], *all_gpus[: at % len(all_gpus)]) if all_gpus else (),
                None if beside else Path(turns),
            )
            for at in range(at_once)
        ]
        if check:
            print_ratios(cases, places[0], device)
            return
        runs = [run for number in range(times) for run in shuffled(cases, number)]
        if beside:
            runs = [run for number in range(times) for run in healthy(cases, beside, cores_each, number)]
        if not out:
            raise click.UsageError("give --out, or --check")
        Matrix(device, minutes, limit_s, out, records, beside or 1).run(runs, places)


def numbers(text: str) -> list[int]:
    """Of `0-3,8`."""
    spans = [part.partition("-") for part in text.split(",")]
    return [number for low, _, high in spans for number in range(int(low), int(high or low) + 1)]


def shuffled(cases: Sequence[Case], number: int) -> list[Run]:
    """Return the runs of a round in random order, but for those of several GPUs, which come first."""
    on = [Run(case, False, number) for case in cases if case.cause != NOTHING.name]
    without = {case.script_off: Run(case, True, number) for case in reversed(cases)}
    runs = [*on, *without.values()]
    random.Random(number).shuffle(runs)
    return sorted(runs, key=lambda run: -run.case.gpus)


def healthy(cases: Sequence[Case], beside: int, cores_each: int, number: int) -> list[Run]:
    """Return so many runs without a cause, of one script after the other."""
    without = [case for case in cases if case.cause == NOTHING.name and case.gpus == 1]
    chosen = [without[at % len(without)] for at in range(beside)]
    return [
        Run(replace(case, processes=min(case.processes, cores_each)), True, beside * number + at)
        for at, case in enumerate(chosen)
    ]


def print_ratios(cases: Sequence[Case], place: Place, device: str) -> None:
    """Print what a step takes with each cause and without it, as the script itself counts."""
    os.sched_setaffinity(0, place.cores)
    without: dict[str, Pace] = {}
    for case in cases:
        if case.script_off not in without:
            without[case.script_off] = pace(Run(case, True, 0), place, device)
        off_s = without[case.script_off]
        on_s = off_s if case.cause == NOTHING.name else pace(Run(case, False, 0), place, device)
        ratios = f"{on_s.wall_s / off_s.wall_s:6.2f} {on_s.worked_s / off_s.worked_s:6.2f} of own work"
        times = f"{1e3 * on_s.wall_s:8.2f} ms {1e3 * off_s.wall_s:8.2f} ms"
        click.echo(f"{case.script:8} {case.cause:24} {case.gpus} {ratios} {times}")


class Pace(NamedTuple):
    """Seconds per step: by the wall, and those in which rank 0 itself worked, which other work changes less."""

    wall_s: float
    worked_s: float


def pace(run: Run, place: Place, device: str) -> Pace:
    """Return the seconds of a step without dpscale; NaN where the script does not say them."""
    command = [*script_command(run, place, device, ["--pace", str(PACED)])]
    with busy_processes(run), tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            command, env=environment(run, place), stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
        until, text = time.monotonic() + CHECK_LIMIT_S, ""
        while not (step := STEP.search(text)) and process.poll() is None and time.monotonic() < until:
            time.sleep(0.2)
            output.seek(0)
            text = output.read()
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()
    if not step:
        click.echo(text[-1500:], err=True)
        return Pace(nan, nan)
    return Pace(float(step[1]), float(step[2]))


@contextmanager
def busy_processes(run: Run) -> Iterator[None]:
    """Run what somebody else has on these cores, meanwhile."""
    with ExitStack() as ending:
        for _ in range(0 if run.off else run.case.busy_beside):
            process = subprocess.Popen([sys.executable, "-c", BUSY])
            ending.callback(process.wait)
            ending.callback(process.kill)
        yield


def rows_of(file: Path) -> list[dict[str, Any]]:
    return list(json.loads(file.read_text())["runs"]) if file.exists() else []


class Matrix:
    """Runs of cases, several at once, and their answers."""

    def __init__(self, device: str, minutes: float, limit_s: float, out: Path, records: Path | None, side_by_side: int):
        self.device, self.minutes, self.limit_s, self.out, self.records = device, minutes, limit_s, out, records
        self.side_by_side = side_by_side
        self.rows = rows_of(out)
        self.began = time.monotonic()
        self.lock = Lock()

    def run(self, runs: Sequence[Run], places: Sequence[Place]) -> None:
        """Those that are not there yet, in this order, one at a time in each place."""
        done = {tuple(row[name] for name in ("script", "cause", "gpus", "off", "round")) for row in self.rows}
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
                f"{run.round} {run.case.script} {run.case.cause} {state}: {reasons or row['first']} "
                f"({row['seconds']:.0f} s) {row.get('place', '')}",
                err=True,
            )

    def _next(self, todo: Iterator[Run]) -> Run | None:
        """None where there is no time for one more, as long as the longest so far."""
        with self.lock:
            longest_s = max((row["seconds"] for row in self.rows), default=EXPECTED_S)
            is_late = time.monotonic() - self.began + longest_s > self.limit_s
            return None if is_late else next(todo, None)

    def _answer(self, run: Run, place: Place) -> dict[str, Any]:
        case, start = run.case, time.monotonic()
        name = f"{case.script}-{case.cause}-{case.gpus}-{'off' if run.off else 'on'}-{run.round}"
        with busy_processes(run), tempfile.TemporaryDirectory() as folder:
            file = self.records / f"{self.device}-{name}.json" if self.records else Path(folder, "record.json")
            minutes = self.minutes * case.times_minutes
            said = diagnosed(minutes, file, script_command(run, place, self.device), environment(run, place))
            seconds = time.monotonic() - start
            answer: dict[str, Any] = {"first": "failed", "reasons": {}, "said": said}
            if said is None:
                answer = {**answered(json.loads(file.read_text()), case), "is_same": case.is_same_off}
        about_case = {
            "script": case.script,
            "cause": case.cause,
            "gpus": case.gpus,
            "script_off": case.script_off,
            "also": case.also,
            "healthy": case.healthy,
            "device": self.device,
            "side_by_side": self.side_by_side,
        }
        return {**about_case, "off": run.off, "round": run.round, "seconds": seconds, **answer}


def environment(run: Run, place: Place) -> dict[str, str]:
    set_on = run.case.variables.format(folder=SCRIPTS).split() if not run.off else []
    variables = dict(pair.split("=") for pair in set_on)
    return {**os.environ, **variables, "CUDA_VISIBLE_DEVICES": ",".join(place.gpus[: run.case.gpus])}


def script_command(run: Run, place: Place, device: str, more: Sequence[str] = ()) -> list[str]:
    case = run.case
    options = case.off if run.off and case.off is not None else case.options
    words = [] if run.off else case.prefix.format(core=place.cores[0]).split()
    words.append(sys.executable)
    if run.processes > 1:
        words += ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={run.processes}"]
    words += [str(case.path), "--cause", case.cause, "--device", device, "--round", str(run.round), *options.split()]
    words += [*(["--cured"] if run.off else []), *more]
    if place.turns and place.gpus:
        words += ["--turn", *(str(place.turns / gpu) for gpu in place.gpus[: case.gpus])]
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


def answered(record: Mapping[str, Any], case: Case) -> dict[str, Any]:
    diagnosis = diagnose_script(decoded(ScriptRecord, json.dumps(record).encode()))
    reasons = [reason for reason in diagnosis.reasons if reason.cause.name != AMBIENT or case.cause == AMBIENT]
    saved = [remedy for reason in reasons[:1] for remedy in reason.remedies]
    measured = next((remedy.measured_s.value for remedy in saved if remedy.measured_s), None)
    predicted = next((remedy.predicted_s.value for remedy in saved if remedy.predicted_s), None)
    runs = {run["what"]: run for run in record["runs"]}
    paced = runs["paced"]["processes"][0]
    return {
        "first": reasons[0].cause.name if reasons else diagnosis.first.name if not diagnosis.reasons else NOTHING.name,
        "place": first_place(reasons[0]) if reasons else "",
        "right": [is_right(case, reason) for reason in reasons],
        "reasons": {reason.cause.name: reason.share.value for reason in reasons},
        "smaller": {cause.cause.name: cause.share.value for cause in diagnosis.smaller},
        "told_s": measured if measured is not None else predicted,
        "was_tried": measured is not None,
        "step_s": diagnosis.whole_s.value,
        "account_off": account_deviation(diagnosis),
        "paced_step_s": paced["wall_s"] / max(1, paced["steps"]),  # with all that comes now and then
        "other_work": float(AMBIENT in {reason.cause.name for reason in diagnosis.reasons}),
        "other_cores": runs["diagnosed"]["other_cores"],
    }


if __name__ == "__main__":
    main()

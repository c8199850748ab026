"""Two scripts, A and B: both are started, and blocks of their steps take turns. Says how long B's step is beside A's.

Neighbouring blocks share the hour, the machine and other work on it: their ratio is free of what both share. Where only
one script fits into memory at a time, whole runs take turns. Free of torch.
"""

import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from io import FileIO
from math import hypot
from select import select
from statistics import median
from typing import Literal

import msgspec

import dpscale
from dpscale.diagnosis.script import GRACE_S, POLL_S, NoTrainingError, Runs, Script, ScriptError, private_runs
from dpscale.errors import MeasurementError
from dpscale.formulas.figure import Figure, multiplied
from dpscale.formulas.statistics import median_of_blocks
from dpscale.present.text.html import TEXTS
from dpscale.records import VERSIONS
from dpscale.records.files import now
from dpscale.records.redaction import public_command
from dpscale.records.script import VersusBlock, VersusRecord

Name = Literal["A", "B"]
Commands = Mapping[Name, Sequence[str]]
PAIRS, LEAST_BLOCK_S, MOST_BLOCK_S = 40, 0.25, 2.0
# Fewer have no interval. So many are made where whole runs take turns.
LEAST_PAIRS = 6
# Two starts of the same script differ in their step by this standard deviation (results/recorded-diagnosis/
# versus-gpu.json: 24 pairs of starts, whose 97.5 % quantile of Student's t is the other number).
START_SPREAD, _OF_STARTS = 0.0013, 2.06
# Batches differ where samples per step differ by more than this share: the last batch of an epoch can be smaller.
SAME_BATCH = 0.02


class _Said(msgspec.Struct):
    """What rank 0 says after a block, and once before the first one."""

    pid: int
    steps: int
    seconds: float
    samples: float | None


@dataclass
class ScriptInTurns:
    """A script that steps when it is told to, by two pipes: what it says, and the words that it waits for."""

    name: Name
    script: Script
    reports: FileIO
    words: FileIO
    patience_s: float
    pid: int | None = None  # of rank 0, which speaks

    def block(self, pair: int, seconds: float) -> VersusBlock:
        """Let a block of about so many seconds through."""
        self.tell(seconds)
        report = self.hear()
        return VersusBlock(pair, self.name, report.steps, report.seconds, report.samples)

    def tell(self, seconds: float) -> None:
        """Let steps through. Zero ends the script."""
        self.words.write(f"{seconds:g}\n".encode())

    def hear(self) -> _Said:
        """Wait for what it says. Raises ScriptError where it ends by itself, NoTrainingError where it says nothing."""
        until = time.monotonic() + self.patience_s
        while not select([self.reports], [], [], POLL_S)[0]:
            if (code := self.script.process.poll()) is not None:
                raise ScriptError(code, self.name)
            if time.monotonic() > until:
                raise NoTrainingError(
                    f"{self.name} made no optimiser steps within {self.patience_s:g} s. For longer starts, steps and "
                    "pauses: --first-step-within"
                )
        reports = [msgspec.json.decode(line, type=_Said) for line in self.reports.read(4096).splitlines()]
        self.pid = self.pid or reports[0].pid
        if {process.pid for process in reports} != {self.pid}:
            raise MeasurementError(f"{self.name} trains in several processes that are no ranks of one training")
        return reports[0]


@dataclass
class _Comparison:
    """Blocks of two scripts in turns."""

    commands: Commands
    runs: Runs
    minutes: float
    patience_s: float
    say: Callable[[str], None]
    blocks: list[VersusBlock] = field(default_factory=list)
    turns: Literal["blocks", "runs"] = "blocks"
    why: str | None = None

    def measure(self) -> None:
        """Let both step in turns, or, where one fails before there is an answer, each alone."""
        # A has made its first steps when B is started, and waits: its memory is what B has to do without.
        with self._running("A", self.minutes) as a:
            try:
                with self._running("B", self.minutes) as b:
                    self._in_blocks({"A": a, "B": b})
            except ScriptError as error:
                if error.code and len(self.blocks) < 2 * LEAST_PAIRS:
                    self.turns, self.why = "runs", f"{error} while the other one was there: whole runs take turns"
                elif self.blocks:
                    self.why = f"{error} before the time was up"
                else:
                    raise
        if self.turns == "runs":
            self.say(str(self.why))
            self._in_runs()

    def _in_blocks(self, scripts: Mapping[Name, ScriptInTurns]) -> None:
        self.say(f"both are there; now blocks of their steps take turns for {self.minutes:g} min")
        block_s = min(MOST_BLOCK_S, max(LEAST_BLOCK_S, 60 * self.minutes / 2 / PAIRS))
        until = time.monotonic() + 60 * self.minutes
        while time.monotonic() < until or not self.blocks:
            pair = len(self.blocks) // 2
            self.blocks += [scripts[name].block(pair, block_s) for name in in_order(pair)]

    def _in_runs(self) -> None:
        self.blocks, minutes = [], self.minutes / 2 / LEAST_PAIRS
        for pair in range(LEAST_PAIRS):
            self.say(f"pair {pair + 1} of {LEAST_PAIRS}")
            for name in in_order(pair + 1):  # first the one that may fail alone too
                with self._running(name, minutes) as script:
                    self.blocks.append(script.block(pair, 60 * minutes))

    @contextmanager
    def _running(self, name: Name, minutes: float) -> Iterator[ScriptInTurns]:
        """Start a script, and wait for the end of its warm-up."""
        folder = self.runs.new_folder({"minutes": minutes, "mode": "turns"})
        for pipe in ("said", "words"):
            os.mkfifo(folder / pipe)
        with socket.create_server(("", 0)) as free:
            port = str(free.getsockname()[1])  # two launchers would both listen at the port that torch has by default
        ports = {"MASTER_PORT": port, "PET_MASTER_PORT": port}
        with (
            (folder / "said").open("r+b", buffering=0) as reports,
            (folder / "words").open("r+b", buffering=0) as words,
            self.runs.started(self.commands[name], folder, ports) as script,
        ):
            in_turns = ScriptInTurns(name, script, reports, words, self.patience_s)
            in_turns.hear()
            yield in_turns
            in_turns.tell(0)
            with suppress(subprocess.TimeoutExpired):
                script.process.wait(GRACE_S)


def in_order(pair: int) -> tuple[Name, Name]:
    """A B, then B A: what gets slower all the time makes neither of them slower."""
    return ("B", "A") if pair % 2 else ("A", "B")


def compare_scripts(commands: Commands, minutes: float, patience_s: float, say: Callable[[str], None]) -> VersusRecord:
    """The record of two scripts whose steps took turns for so many minutes.

    Raises ScriptError where one fails by itself, NoTrainingError where it makes no steps within `patience_s` seconds.
    """
    started_at = now()
    with private_runs() as runs:
        measurement = _Comparison(commands, runs, minutes, patience_s, say)
        measurement.measure()
    return VersusRecord(
        kind="versus",
        measurement_version=VERSIONS["versus"].current,
        commands=(public_command(commands["A"]), public_command(commands["B"])),
        minutes=minutes,
        started_at=started_at,
        finished_at=now(),
        dpscale_version=dpscale.__version__,
        turns=measurement.turns,
        why=measurement.why,
        blocks=measurement.blocks,
    )


def step_ratio(blocks: Sequence[VersusBlock], is_started_anew: bool = False) -> Figure:
    """Return B's seconds per step over A's: the median over pairs, with the interval of order statistics. Where not
    every pair is started anew, it is as much wider as two starts of one script differ."""
    a, b = step_s(blocks, "A"), step_s(blocks, "B")
    ratio = median_of_blocks([b[pair] / a[pair] for pair in a])
    start = 0.0 if is_started_anew else _OF_STARTS * START_SPREAD * ratio.value
    low, high = (hypot(end - ratio.value, start) for end in (ratio.low, ratio.high))
    return replace(ratio, low=ratio.value - low, high=ratio.value + high)


def step_s(blocks: Sequence[VersusBlock], script: Name) -> dict[int, float]:
    """Return the seconds per step of a script in each pair."""
    return {block.pair: block.seconds / block.steps for block in blocks if block.script == script}


def answer(record: VersusRecord) -> str:
    """Say how long B's step is beside A's, and which one to keep."""
    ratio = per_sample = step_ratio(record.blocks, record.turns == "runs")
    samples = {
        script: median(block.samples or 0.0 for block in record.blocks if block.script == script)
        for script in ("A", "B")
    }
    if all(samples.values()) and abs(samples["B"] / samples["A"] - 1) > SAME_BATCH:
        per_sample = multiplied(ratio, samples["A"] / samples["B"])
    step_ms = {script: 1e3 * median(step_s(record.blocks, script).values()) for script in ("A", "B")}
    text = TEXTS.get_template("versus.txt.j2").render(
        record=record, ratio=ratio, per_sample=per_sample, samples=samples, step_ms=step_ms
    )
    return " ".join(text.split())

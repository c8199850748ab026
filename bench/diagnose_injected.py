"""How often `dpscale diagnose` names the cause that was injected, and how well it predicts what a remedy saves.

    python bench/diagnose_injected.py --device cuda --times 3 --out /tmp/injected.json   # two GPUs, about an hour
    python bench/diagnose_injected.py --device cpu --times 3 --out /tmp/injected.json    # what a CPU can have

Every cause is injected into a run of the command itself: by a workload of bench/injected, an option, a variable of the
environment, or a process beside it. Prints the confusion matrix, and predicted and measured savings side by side;
`--out` gets the same as JSON, with every answer and every record. The exit status is 1 where more than one of twelve
causes is not named first.

Nothing else may run on the machine. On a CPU the slow link needs root, ip and tc.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import click

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/helpers"))

from dpscale.analyse.answer.diagnosis import diagnose
from dpscale.present.diagnosis.page import text
from shaped_network import missing_requirement, slow_loopback

ROOT = Path(__file__).parents[1]
WORKLOADS = ("bench/injected", "examples")
GPUS = 2
RATE_MBIT = 200
LIMIT_S = 600
RIGHT_SHARE = 11 / 12
BUSY_GPU = """
import torch
numbers = torch.randn(8192, 8192, device="cuda:1")
while True:
    numbers @ numbers
    torch.cuda.synchronize()
"""
BUSY_S = 15.0  # until it computes
NO_SHORT_CUTS = {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"}


@dataclass(frozen=True)
class Injection:
    """A cause and how it gets into a run: workload and options of the command, what the command is started by,
    variables, and what happens beside it."""

    cause: str
    workload: str
    options: str
    prefix: Sequence[str] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    beside: str = ""


def injections(device: str) -> list[Injection]:
    """All causes that this kind of device can have."""
    cores = sorted(os.sched_getaffinity(0))
    one, few = ["taskset", "-c", str(cores[0])], ["taskset", "-c", ",".join(map(str, cores[:4]))]
    if device == "cpu":
        return [
            Injection("slow_loader", "slow_loader", "--batch-per-gpu 8 --loader-workers 0"),
            Injection("too_few_cores", "costly", "--batch-per-gpu 8 --loader-workers 1", prefix=one),
            Injection("too_many_workers", "many_workers", "--batch-per-gpu 8 --loader-workers 20"),
            Injection("small_batch", "small", "--batch-per-gpu 1 --loader-workers 0"),
            Injection("slow_link", "many_workers", "--batch-per-gpu 8 --loader-workers 0", beside="slow link"),
            Injection("heavy_gradients", "wide", "--batch-per-gpu 2 --loader-workers 0"),
            Injection("slow_device", "busy_core", "--batch-per-gpu 8 --loader-workers 0"),
            Injection("batch_not_scaled", "small", "--global-batch 2 --loader-workers 0"),
            Injection("started_twice", "healthy", "--batch-per-gpu 8 --loader-workers 0", beside="another launch"),
            Injection("nothing", "healthy", "--batch-per-gpu 16 --loader-workers 0"),
        ]
    resnet = "cifar_resnet18"
    return [
        Injection("slow_loader", "slow_loader", "--batch-per-gpu 32 --loader-workers 0"),
        Injection("too_few_cores", "costly", "--batch-per-gpu 64 --loader-workers 4", prefix=one),
        Injection("too_many_workers", "many_workers", "--batch-per-gpu 64 --loader-workers 20", prefix=few),
        Injection("small_batch", resnet, "--batch-per-gpu 8 --loader-workers 2"),
        Injection("slow_link", "gpt", "--batch-per-gpu 8 --loader-workers 2", variables=NO_SHORT_CUTS),
        Injection("heavy_gradients", "wide", "--batch-per-gpu 8 --loader-workers 0"),
        Injection("slow_device", "healthy", "--batch-per-gpu 64 --loader-workers 4", beside="busy GPU"),
        Injection("data_parallel", resnet, "--batch-per-gpu 32 --loader-workers 6 --strategy dp"),
        Injection("hidden_synchronisation", "waiting", "--batch-per-gpu 64 --loader-workers 0"),
        Injection("batch_not_scaled", resnet, "--global-batch 64 --loader-workers 4"),
        Injection("started_twice", resnet, "--batch-per-gpu 128 --loader-workers 2", beside="another launch"),
        Injection("nothing", "healthy", "--batch-per-gpu 64 --loader-workers 4"),
    ]


@click.command()
@click.option("--device", type=click.Choice(["cuda", "cpu"]), default="cuda", show_default=True)
@click.option("--times", type=click.IntRange(min=1), default=3, show_default=True, help="Runs of every cause.")
@click.option("--cause", "only", multiple=True, help="This cause alone. Can be given several times.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), required=True, help="The JSON file to write.")
def main(device: str, times: int, only: tuple[str, ...], out: Path) -> None:
    chosen = [injection for injection in injections(device) if not only or injection.cause in only]
    rows: list[dict[str, Any]] = []
    for number in range(times):
        for injection in chosen:
            rows += run(injection, device)
            out.write_text(json.dumps({"device": device, "times": times, "runs": rows}, indent=1))
            last = rows[-1]
            click.echo(f"{number + 1}. {injection.cause}: {last['first']} in {last['seconds']:.0f} s", err=True)
    errors = savings(rows)
    causes = [injection.cause for injection in chosen]
    right = sum(all(row["first"] == cause for row in rows if row["injected"] == cause) for cause in causes)
    click.echo(f"\nright as first cause in every run: {right} of {len(causes)} causes")
    whole = {"device": device, "times": times, "right": right, "causes": len(causes), "matrix": matrix(rows, causes)}
    out.write_text(json.dumps({**whole, "median_error_of_savings": median(errors or [0.0]), "runs": rows}, indent=1))
    sys.exit(right < RIGHT_SHARE * len(causes))


def run(injection: Injection, device: str) -> list[dict[str, Any]]:
    """What one run of the command answers, or each of several that run at once."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        prefix = [*injection.prefix, *stack.enter_context(beside(injection.beside))]
        launches = 2 if injection.beside == "another launch" else 1
        gpus = GPUS // launches
        started, start = [], time.monotonic()
        for launch in range(launches):
            visible = {"CUDA_VISIBLE_DEVICES": str(launch)} if launches > 1 else {}
            command = [
                sys.executable, "-m", "dpscale", "diagnose", "--workload", place(injection.workload),
                "--gpus", str(gpus), "--device", device, *injection.options.split(),
                "--json", str(Path(name, f"{launch}.json")),
            ]  # fmt: skip
            started.append(
                subprocess.Popen(
                    [*prefix, *command],
                    cwd=ROOT,
                    env={**os.environ, **injection.variables, **visible},
                    stdout=subprocess.DEVNULL,
                )
            )
        codes = [process.wait(LIMIT_S) for process in started]
        if any(codes):
            raise click.ClickException(f"{injection.cause}: the command ended with {codes}")
        seconds = time.monotonic() - start
        records = [json.loads(Path(name, f"{launch}.json").read_text()) for launch in range(launches)]
    return [row(injection, record, seconds) for record in records]


def place(workload: str) -> str:
    """A file of these folders, or a built-in network."""
    files = [f"{folder}/{workload}.py" for folder in WORKLOADS]
    return next((file for file in files if (ROOT / file).exists()), workload)


@contextmanager
def beside(what: str) -> Iterator[Sequence[str]]:
    """What happens beside the command, and what the command is started by for that."""
    if what == "slow link":
        if reason := missing_requirement():
            raise click.ClickException(reason)
        with slow_loopback(RATE_MBIT) as namespace:
            yield ["ip", "netns", "exec", namespace]
    elif what == "busy GPU":
        with subprocess.Popen([sys.executable, "-c", BUSY_GPU]) as busy:
            time.sleep(BUSY_S)
            try:
                yield []
            finally:
                busy.kill()
    else:
        yield []


def row(injection: Injection, record: dict[str, Any], seconds: float) -> dict[str, Any]:
    diagnosis = diagnose(record)
    tried = [
        {
            "cause": finding.cause.name,
            "remedy": remedy.name,
            "predicted_s": remedy.predicted_s.value,
            "measured_s": remedy.measured_s.value,
        }
        for finding in diagnosis.reasons[:1]
        for remedy in finding.remedies
        if remedy.predicted_s and remedy.measured_s
    ]
    return {
        "injected": injection.cause,
        "first": diagnosis.first.name,
        "reasons": {finding.cause.name: finding.share.value for finding in diagnosis.reasons},
        "smaller": {finding.cause.name: finding.share.value for finding in diagnosis.smaller},
        "whole_s": diagnosis.whole_s.value,
        "efficiency": diagnosis.efficiency.value,
        "remedies": tried,
        "seconds": seconds,
        "device_model": record["hardware"]["device_model"],
        "answer": text(diagnosis, record).splitlines(),
        "record": record,
    }


def matrix(rows: Sequence[Mapping[str, Any]], causes: Sequence[str]) -> dict[str, dict[str, int]]:
    """Prints and returns how often each injected cause (row) was found as which (column)."""
    found = {cause: Counter(row["first"] for row in rows if row["injected"] == cause) for cause in causes}
    columns = [*causes, *sorted({name for counts in found.values() for name in counts} - set(causes))]
    width = max(map(len, columns))
    click.echo("\ninjected, and how often which cause was first:")
    for cause in causes:
        told = ", ".join(f"{name} {found[cause][name]}" for name in columns if found[cause][name])
        click.echo(f"{cause:{width}}  {told}")
    return {cause: dict(counts) for cause, counts in found.items()}


def savings(rows: Sequence[Mapping[str, Any]]) -> list[float]:
    """Prints predicted and measured savings, and returns by how much of the measured one they differ."""
    errors = []
    click.echo("\nremedies of the first cause, ms of a step: predicted, measured, error")
    for run_of in rows:
        for tried in run_of["remedies"]:
            predicted, measured = tried["predicted_s"] * 1e3, tried["measured_s"] * 1e3
            error = abs(predicted - measured) / abs(measured)
            errors.append(error)
            click.echo(f"{tried['cause']:22} {tried['remedy']:14} {predicted:8.2f} {measured:8.2f} {error:6.0%}")
    if errors:
        click.echo(f"median error {median(errors):.0%}")
    return errors


if __name__ == "__main__":
    main()

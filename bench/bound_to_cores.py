"""Whether runs of a host-bound cell differ less where ranks and their loaders are bound to cores near their GPUs.

    python bench/bound_to_cores.py --runs 5 --out /tmp/machine-1.json     # on every machine
    python bench/bound_to_cores.py --read /tmp/machine-1.json --read ...  # all machines together

Bound and free cells run in turns, in random order, without loading (compute) and with it (end_to_end). The measure is
the standard deviation of ln(step) over the runs of a machine: bound over free, with a 95 % interval of F. Below 1 in
all of it, binding narrows what runs differ by. Beside it stands the step of bound cells over that of free ones, of
geometric means.
"""

import json
import math
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean, geometric_mean, variance

import click
import scipy
import torch

from dpscale.formulas.figure import INTERVAL, Figure

ROOT = Path(__file__).parents[1]
ON_GPU = torch.cuda.is_available()
# A step at batch 32 is bound by the host on every GPU that was measured.
GPUS, BATCH, SAMPLES = (torch.cuda.device_count(), 32, 6_400) if ON_GPU else (2, 4, 64)
KINDS = ("free", "bound")
SCOPES = ("compute", "end_to_end")
Steps = Mapping[str, list[float]]  # the steps of every kind, run by run
Machine = Mapping[str, Steps]  # by scope


@click.command()
@click.option("--runs", type=click.IntRange(min=2), default=5, show_default=True, help="Cells of either kind.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Where to keep this machine's times.")
@click.option("--read", "machines", multiple=True, type=click.Path(exists=True, path_type=Path), help="Times kept.")
def main(runs: int, out: Path | None, machines: tuple[Path, ...]) -> None:
    found = [json.loads(machine.read_text()) for machine in machines] or [measured(runs)]
    if out:
        out.write_text(json.dumps(found[0], indent=1))
    for scope in SCOPES:
        show(scope, [machine[scope] for machine in found])


def show(scope: str, machines: list[Steps]) -> None:
    for steps in machines:
        for kind in KINDS:
            times = ", ".join(f"{step * 1e3:.3f}" for step in steps[kind])
            click.echo(f"{scope}, {kind:5}: median step, ms: {times}; sd of ln {math.sqrt(spread(steps[kind])):.2%}")
    ratio = compared(machines)
    longer = geometric_mean([geometric_mean(steps["bound"]) / geometric_mean(steps["free"]) for steps in machines])
    click.echo(
        f"{scope}, bound / free: {ratio.value:.2f} [{ratio.low:.2f}, {ratio.high:.2f}] of the standard deviation, "
        f"{longer:.3f} of the step, machines: {len(machines)}"
    )


def measured(runs: int) -> Machine:
    order = list(KINDS) * runs
    random.Random(1).shuffle(order)
    machine: dict[str, dict[str, list[float]]] = {scope: {kind: [] for kind in KINDS} for scope in SCOPES}
    for number, kind in enumerate(order, start=1):
        steps = steps_s(kind)
        for scope in SCOPES:
            machine[scope][kind].append(steps[scope])
        times = ", ".join(f"{scope} {step * 1e3:.3f} ms" for scope, step in steps.items())
        click.echo(f"{number} of {len(order)}: {kind}, {times}", err=True)
    return machine


def steps_s(kind: str) -> dict[str, float]:
    """The median step of a cell in processes of its own, of both scopes."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "cell.json")
        command = [
            sys.executable, "-m", "dpscale", "time", "--workload", "bench/bound/resnet.py",
            "--strategy", "ddp" if GPUS > 1 else "single", "--gpus", str(GPUS), "--batch-per-gpu", str(BATCH),
            "--device", "cuda" if ON_GPU else "cpu", "--epoch-images", str(SAMPLES),
            *(option for scope in SCOPES for option in ("--scopes", scope)), "--warmup-epochs", "1",
            "--timed-epochs", "2", "--baseline", "own_cells", "--out", str(out),
        ]  # fmt: skip
        bound = {"BOUND_TO_CORES": "yes"} if kind == "bound" else {}
        subprocess.run(command, cwd=ROOT, env={**os.environ, **bound}, check=True, capture_output=True)
        scopes = json.loads(out.read_text())["scopes"]
        return {scope: fmean(scopes[scope]["step_s_median"]) for scope in SCOPES}


def spread(steps: list[float]) -> float:
    """The variance of ln(step) over runs."""
    return variance(math.log(step) for step in steps)


def ratio_of_deviations(own: float, free: int, other: float, other_free: int) -> Figure:
    """A standard deviation over another one, from variances of so many degrees of freedom, with its 95 % interval by
    Fisher's F: of values drawn independently from normal distributions. NaN where the other variance is zero."""
    if other == 0:
        return Figure.of(math.nan, math.nan, math.nan)
    low, high = (
        math.sqrt(own / other / float(scipy.special.fdtri(free, other_free, share))) for share in INTERVAL[::-1]
    )
    return Figure.of(math.sqrt(own / other), low, high)


def compared(machines: list[Steps]) -> Figure:
    """The standard deviation within a machine, bound over free, with its 95 % interval: of the quotient of variances
    that are pooled over machines."""
    freedom = {kind: sum(len(steps[kind]) - 1 for steps in machines) for kind in KINDS}
    pooled = {
        kind: sum(spread(steps[kind]) * (len(steps[kind]) - 1) for steps in machines) / freedom[kind] for kind in KINDS
    }
    return ratio_of_deviations(pooled["bound"], freedom["bound"], pooled["free"], freedom["free"])


if __name__ == "__main__":
    main()

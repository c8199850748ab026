"""What the clock of a cell costs a step that waits for the host, beside a loop as one writes it by hand.

    python bench/clock_cost.py --out /tmp/machine-1.json

Epochs of both loops run in turns in one process, on one network: processes that wait for the host differ by several
percent, and so do two replicated networks in one process. Printed are the cell's epoch over that by hand, of means of
logarithms, and what of it was timed inside: the marks between steps, and what copying a batch as a tree of tensors
takes longer than copying two tensors. Brackets are 95 % t intervals over rounds.
"""

import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import click
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from dpscale.formulas.figure import Figure
from dpscale.formulas.statistics import mean_with_t_interval, paired_difference
from dpscale.measure.worker import epoch_timer
from dpscale.measure.worker.epoch_timer import CudaMarks, EpochTimer, HostMarks
from dpscale.measure.worker.timing import TimingWorker
from dpscale.measure.workload.batches import to_device
from dpscale.measure.workload.loading import Room
from dpscale.plan.study import Study

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
MARKS = CudaMarks if DEVICE == "cuda" else HostMarks
WARM_UP = 2
Seconds = dict[str, list[float]]  # per step, round by round


@click.command()
@click.option("--strategy", type=click.Choice(["single", "dp"]), default="single", show_default=True)
@click.option("--gpus", type=click.IntRange(min=1), default=1, show_default=True)
@click.option("--batch-per-gpu", type=click.IntRange(min=1), default=32, show_default=True)
@click.option("--images", type=click.IntRange(min=1), default=4_000, show_default=True, help="Of an epoch; made up.")
@click.option("--rounds", type=click.IntRange(min=2), default=30, show_default=True, help="Epochs of either loop.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Where to keep the seconds per step.")
def main(strategy: str, gpus: int, batch_per_gpu: int, images: int, rounds: int, out: Path | None) -> None:
    """Time epochs of a cell and of a loop by hand in turns."""
    with tempfile.TemporaryDirectory() as folder:
        worker = worker_of(strategy, gpus, batch_per_gpu, images, Path(folder))
        found = in_turns(worker, rounds)
    show(found)
    if out:
        out.write_text(json.dumps(found, indent=1) + "\n")


def worker_of(strategy: str, gpus: int, batch: int, images: int, folder: Path) -> TimingWorker:
    """The only worker of a cell, on made-up images."""
    dataset = folder / "dataset"
    source = ["--source", "synthetic", "--images", str(images), "--out", str(dataset)]
    subprocess.run([sys.executable, "-m", "dpscale", "dataset", *source], check=True, capture_output=True)
    values = {"study": "clock", "device": DEVICE, "dataset": {"source": "synthetic", "images": images}}
    job = {"configuration": [strategy, gpus, batch], "seed": 1, "settings": Study(values).settings.to_json()}
    places = {"dataset": str(dataset), "folder": str(folder), "timeout_s": 600}
    worker = TimingWorker({**job, **places, "baseline_at_global_batch": False}, rank=0)
    worker.prepare()
    return worker


def in_turns(worker: TimingWorker, rounds: int) -> dict[str, Seconds]:
    """The seconds of a step in epochs by hand and of the cell: of all of it, and of parts that were timed inside."""
    network, optimiser = worker.build()
    step = worker.step_of(network, optimiser)
    timer = EpochTimer(worker.devices, worker.workers)
    batches, _ = worker.epoch_in_memory((0, 1, worker.batch), Room(math.inf))

    def by_hand() -> dict[str, float]:
        copies: list[float] = []
        epoch_s = epoch_by_hand(network, optimiser, batches, worker.devices or [worker.device], copies)
        return {"step_s": epoch_s, "copy_s": sum(copies)}

    def cell() -> dict[str, float]:
        copies: list[float] = []
        marks: list[float] = []
        with (
            patch.object(epoch_timer, "to_device", timed(to_device, copies)),
            patch.object(MARKS, "mark", timed(MARKS.mark, marks)),
        ):
            epoch_s = timer.time(step, batches, len(batches)).epoch_s
        return {"step_s": epoch_s, "copy_s": sum(copies), "mark_s": sum(marks)}

    loops = {"by_hand": by_hand, "cell": cell}
    found: dict[str, Seconds] = {name: {} for name in loops}
    for number in range(WARM_UP + rounds):
        for name in loops if number % 2 else reversed(loops):
            for part, seconds in loops[name]().items():
                found[name].setdefault(part, []).append(seconds / len(batches))
    return {name: {part: seconds[WARM_UP:] for part, seconds in parts.items()} for name, parts in found.items()}


def epoch_by_hand(
    network: nn.Module,
    optimiser: Optimizer,
    batches: Iterable[tuple[Tensor, Tensor]],
    devices: Sequence[torch.device],
    copies: list[float],
) -> float:
    """Seconds of an epoch, from all devices idle to all devices idle; those of its copies are added to `copies`."""
    criterion = nn.CrossEntropyLoss()
    wait_for(devices)
    start = time.perf_counter()
    for images, targets in batches:
        before = time.perf_counter()
        images = images.to(devices[0], non_blocking=True)
        targets = targets.to(devices[0], non_blocking=True)
        copies.append(time.perf_counter() - before)
        optimiser.zero_grad()
        loss = criterion(network(images), targets)
        loss.backward()
        optimiser.step()
    wait_for(devices)
    return time.perf_counter() - start


def wait_for(devices: Iterable[torch.device]) -> None:
    for device in devices:
        if device.type == "cuda":
            torch.cuda.synchronize(device)


def timed(function: Callable[..., Any], seconds: list[float]) -> Callable[..., Any]:
    """`function`, which adds what every call of it takes to `seconds`."""

    def call(*arguments: Any, **named: Any) -> Any:
        before = time.perf_counter()
        result = function(*arguments, **named)
        seconds.append(time.perf_counter() - before)
        return result

    return call


def show(found: dict[str, Seconds]) -> None:
    cell, by_hand = found["cell"], found["by_hand"]
    logarithms = [[math.log(step) for step in loop["step_s"]] for loop in (cell, by_hand)]
    longer = paired_difference(*logarithms)
    low, value, high = (math.exp(end) for end in (longer.low, longer.value, longer.high))
    rounds, step_s = len(by_hand["step_s"]), median(by_hand["step_s"])
    click.echo(f"{DEVICE}: rounds {rounds}, a step by hand {step_s * 1e3:.3f} ms (median)")
    click.echo(f"epoch of the cell over that by hand: {value:.4f} [{low:.4f}, {high:.4f}]")
    click.echo(f"marks: {microseconds(mean_with_t_interval(cell['mark_s']))} a step")
    click.echo(
        f"copies, beyond those by hand: {microseconds(paired_difference(cell['copy_s'], by_hand['copy_s']))} a step"
    )


def microseconds(figure: Figure) -> str:
    return f"{figure.value * 1e6:.1f} µs [{figure.low * 1e6:.1f}, {figure.high * 1e6:.1f}]"


if __name__ == "__main__":
    main()

"""Where two GPUs lose time at a small batch, and what gives it back: a step of ddp, switch by switch.

    python bench/small_batch.py --out h100.json
    python bench/small_batch.py --table h100.json other-machine.json ...

All variants are built in the same two processes and take turns, in a random order, in every round; between rounds
nothing runs. `captured` ones are a whole step in a CUDA graph, in bfloat16 and channels last, with the fused optimiser;
`eager` ones are torch as it is, in float32. A speedup is twice the time of one GPU over that of two. One GPU is timed
while the other idles, with the faster of both ways to compile. Intervals are over rounds on one machine, and over
machines in the table of several.
"""

import json
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from datetime import timedelta
from functools import partial
from operator import itemgetter
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import click
import torch
import torch._dynamo
import torch.distributed as dist
from torch import Tensor
from torch.multiprocessing.spawn import start_processes

from dpscale.formulas.figure import OnServer
from dpscale.formulas.statistics import estimate_of_blocks
from dpscale.measure.model.precision import in_precision
from dpscale.measure.model.resnet import build_network
from dpscale.measure.model.units import units
from dpscale.measure.worker.captured_step import CapturedStep
from dpscale.measure.worker.epoch_timer import training_step
from dpscale.measure.workload.images import classification_loss
from dpscale.schemas.settings import TimingSettings
from dpscale.strategies.ddp.reducer import ForeachReducer
from dpscale.strategies.in_torch import parallelise

GPUS = 2
ROUNDS = 7
STEPS = {True: 120, False: 25}
WARM_UP_STEPS = 10

FAST = {
    "precision": "bfloat16",
    "memory_format": "channels_last",
    "compile": "default",
    "cuda_graph": True,
    "fused_optimiser": True,
}
REGIONAL = {**FAST, "compile": "regional"}
NO_BUFFERS = {"ddp_broadcast_buffers": False}
VIEWS = {**NO_BUFFERS, "ddp_gradient_as_bucket_view": True}
FOREACH = {**NO_BUFFERS, "ddp_reducer": "foreach"}
BFLOAT16 = {"ddp_gradient_dtype": "bfloat16"}
FUSED = {"fused_optimiser": True}
# By name: the strategy (`alone` and `together` are plain networks, on one GPU and on both), and its settings.
VARIANTS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "captured: alone": ("alone", FAST),
    "captured: alone, regional": ("alone", REGIONAL),
    "captured: together": ("together", REGIONAL),
    "captured: copies, nothing sent": ("copies", {**REGIONAL, **FOREACH}),
    "captured: foreach": ("ddp", {**REGIONAL, **FOREACH}),
    "captured: foreach, 1 MiB": ("ddp", {**REGIONAL, **FOREACH, "ddp_bucket_mb": 1}),
    "captured: foreach, 2 MiB": ("ddp", {**REGIONAL, **FOREACH, "ddp_bucket_mb": 2}),
    "captured: foreach, 8 MiB": ("ddp", {**REGIONAL, **FOREACH, "ddp_bucket_mb": 8}),
    "captured: foreach, bfloat16": ("ddp", {**REGIONAL, **FOREACH, **BFLOAT16}),
    "captured: ddp": ("ddp", FAST),
    "captured: ddp, no buffers": ("ddp", {**FAST, **NO_BUFFERS}),
    "captured: ddp, views": ("ddp", {**FAST, **VIEWS}),
    "captured: ddp, views, 10 MiB": ("ddp", {**FAST, **VIEWS, "ddp_bucket_mb": 10}),
    "captured: ddp, views, bfloat16": ("ddp", {**FAST, **VIEWS, **BFLOAT16}),
    "eager: alone": ("alone", {}),
    "eager: ddp": ("ddp", {}),
    "eager: ddp, views": ("ddp", VIEWS),
    "eager: alone, fused": ("alone", FUSED),
    "eager: ddp, views, fused": ("ddp", {**VIEWS, **FUSED}),
    "eager: foreach, fused": ("ddp", {**FOREACH, **FUSED}),
    "eager: foreach, fused, 25 MiB": ("ddp", {**FOREACH, **FUSED, "ddp_bucket_mb": 25}),
}
# What each rung adds to the one before it: together they are the step.
LADDER = ("alone, regional", "together", "copies, nothing sent", "foreach")
Times = dict[str, list[float]]


class CopiesAlone(ForeachReducer):
    """Messages are filled, and not sent."""

    def send(self, message: Tensor) -> Callable[[], Any]:
        return bool


@click.command()
@click.option("--batch", type=click.IntRange(min=1), default=32, show_default=True, help="Images per GPU and step.")
@click.option("--only", default="", help="Variants whose names begin so.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="The JSON file to write.")
@click.option("--table", "shows", is_flag=True, help="Show the files of several machines, and measure nothing.")
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
def main(batch: int, only: str, out: Path | None, shows: bool, files: tuple[Path, ...]) -> None:
    """Measure on the two GPUs of this machine, or show what was measured on several."""
    if not shows:
        if out is None or torch.cuda.device_count() < GPUS:
            raise click.UsageError(f"needs {GPUS} GPUs and --out")
        with TemporaryDirectory() as folder:
            names = [name for name in VARIANTS if name.startswith(only)]
            start_processes(_rank, (names, batch, out.absolute(), folder), nprocs=GPUS, start_method="spawn")
        files = (out,)
    measured = [json.loads(file.read_text()) for file in files]
    for line in table([each["times_s"] for each in measured]):
        click.echo(line)


def table(machines: list[Times]) -> Iterator[str]:
    """A line per variant: its step and its speedup; then the ladder of the best."""
    for name in machines[0]:
        mode = name.split(":")[0]
        step = _figure(machines, itemgetter(name))
        alike = _ratios(machines, mode, name, f"{mode}: alone{', fused' if 'fused' in name else ''}")
        yield f"{name:34} {1e3 * step.value:.3f} ms  speedup {_shown(alike)}"
    before: list[float] | None = None
    for rung in LADDER if "captured: foreach" in machines[0] else ():
        now = [median(times[f"captured: {rung}"]) for times in machines]
        added = now if before is None else [b - a for a, b in zip(before, now, strict=True)]
        yield f"  {rung:34} {1e3 * sum(added) / len(added):+.3f} ms"
        before = now


def _ratios(machines: list[Times], mode: str, name: str, one: str) -> Any:
    """Speedup over the fastest step of one GPU in the same mode."""
    ones = [one, *(other for other in (f"{mode}: alone, regional",) if other in machines[0])]

    def of_rounds(times: Times) -> list[float]:
        fastest = min(ones, key=lambda each: median(times[each]))
        return [GPUS * a / b for a, b in zip(times[fastest], times[name], strict=True)]

    return _figure(machines, of_rounds)


def _figure(machines: list[Times], values: Callable[[Times], list[float]]) -> Any:
    blocks = {
        OnServer(f"{machine}-{number}", machine): value
        for machine, times in enumerate(machines)
        for number, value in enumerate(values(times))
    }
    return estimate_of_blocks(blocks)


def _shown(figure: Any) -> str:
    return f"{figure.value:.3f} [{figure.low:.3f}, {figure.high:.3f}]"


def _rank(rank: int, names: list[str], batch: int, out: Path, folder: str) -> None:
    torch.set_num_threads(1)
    device = torch.device("cuda", rank)
    torch.cuda.set_device(device)
    torch._dynamo.config.recompile_limit = 256
    place = f"file://{folder}/meet"
    limit = timedelta(seconds=120)
    dist.init_process_group("cpu:gloo,cuda:nccl", init_method=place, rank=rank, world_size=GPUS, timeout=limit)
    # A graph with collectives in it has to be captured before any without.
    built = {
        name: _built(*VARIANTS[name], batch, device) for name in sorted(names, key=lambda name: _kind(name) != "ddp")
    }
    times: Times = {name: [] for name in names}
    order = random.Random(1)
    for number in range(ROUNDS + 1):
        for name in order.sample(names, len(names)):
            step_s = _timed(built[name], STEPS[name.startswith("captured")], idle=rank > 0 and _kind(name) == "alone")
            if number:  # the first round warms up
                times[name].append(step_s)
    if rank == 0:
        name = torch.cuda.get_device_name(device)
        out.write_text(
            json.dumps({"gpu": name, "torch": torch.__version__, "batch": batch, "times_s": times}, indent=1)
        )
    dist.barrier(device_ids=[rank])
    torch.cuda.synchronize()


def _kind(name: str) -> str:
    return VARIANTS[name][0]


def _built(kind: str, changes: Mapping[str, Any], batch: int, device: torch.device) -> Callable[[], Any]:
    """A step without arguments."""
    settings = TimingSettings(dataset_source="synthetic", **changes)
    layout = torch.channels_last if settings.memory_format == "channels_last" else torch.contiguous_format
    torch.manual_seed(0)
    network = build_network("cifar_resnet18", 64)
    network = in_precision(network, settings.precision, "cuda").to(device).to(memory_format=layout)
    torch.backends.cudnn.benchmark = settings.cuda_graph
    if settings.compile != "none":
        for part in units(network) if settings.compile == "regional" else [network]:
            part.compile(dynamic=False)
    stream = torch.cuda.Stream(device) if settings.cuda_graph else None
    with torch.cuda.stream(stream) if stream else nullcontext():
        if kind == "ddp":
            network = parallelise(network, "ddp", [device], settings)
        elif kind == "copies":
            network = CopiesAlone(network, 4)
    fused = settings.fused_optimiser or None
    optimiser = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4, fused=fused)
    step = training_step(network, optimiser, classification_loss, device, layout)
    data = (torch.randn(batch, 3, 32, 32, device=device), torch.randint(0, 10, (batch,), device=device))
    step(data)
    run: Callable[[Any], Any] = CapturedStep(step, data, device, stream) if stream else step
    torch._dynamo.reset()  # what is captured needs no code any more
    return partial(run, data)


def _timed(step: Callable[[], Any], steps: int, idle: bool) -> float:
    """Seconds of a step of the slower rank, by the device's clock."""
    torch.cuda.synchronize()
    dist.all_reduce(torch.zeros(1))  # all meet, on the host
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    seconds = 0.0
    if not idle:
        for _ in range(WARM_UP_STEPS):
            step()
        start.record()
        for _ in range(steps):
            step()
        end.record()
        torch.cuda.synchronize()
        seconds = start.elapsed_time(end) / 1e3 / steps
    slower = torch.tensor([seconds])
    dist.all_reduce(slower, dist.ReduceOp.MAX)
    return float(slower)


if __name__ == "__main__":
    main()

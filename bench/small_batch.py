"""Where two GPUs lose time at a small batch, and what gives it back: a step of ddp, switch by switch.

    python bench/small_batch.py --out h100.json
    python bench/small_batch.py --table h100.json other-machine.json ...

All variants are built in the same two processes and take turns, in a random order, in every round; between rounds
nothing runs. `captured` ones are a whole step in a CUDA graph, in bfloat16 and channels last, with the fused optimiser;
`eager` ones are torch as it is, in float32. A speedup is twice the time of one GPU over that of two. One GPU is timed
while the other idles. Intervals are over rounds on one machine, and over
machines in the table of several.
"""

import json
import random
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from datetime import timedelta
from functools import partial
from operator import itemgetter
from pathlib import Path
from statistics import fmean, median
from tempfile import TemporaryDirectory
from typing import Any

import click
import torch
import torch._dynamo
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.debugging_hooks import noop_hook
from torch.multiprocessing.spawn import start_processes

from dpscale.formulas import OnServer
from dpscale.formulas.figure import estimate_of_blocks
from dpscale.measure.worker.step_worker import CapturedStep
from dpscale.measure.workload.images import classification_loss
from dpscale.measure.workload.networks import CifarResNet18, in_precision
from dpscale.measure.workload.update import training_step
from dpscale.schemas.settings import TimingSettings
from dpscale.strategies.in_torch import parallelise
from dpscale.strategies.units import compile_by_unit

GPUS = 2
RIVALS = ("one channel", "four channels", "symmetric")
SENDING = ("ddp", "unsent", "unaveraged", *RIVALS)
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
NO_BUFFERS = {"ddp_broadcast_buffers": False}
VIEWS = {**NO_BUFFERS, "ddp_gradient_as_bucket_view": True}
BEST_OF_TORCH = {**FAST, **VIEWS, "ddp_bucket_mb": 10}
BY_UNIT = {**FAST, "compile": "by-unit"}
COPIES = {**BY_UNIT, **NO_BUFFERS, "ddp_reducer": "copies"}
FUSED = {"fused_optimiser": True}
# By name: what is trained (`alone` and `together` are plain networks, on one GPU and on both; `unsent` is ddp that
# fills its buckets and sends nothing, `unaveraged` sends gradients and averages nothing, RIVALS are ddp over a
# communicator of its own, see `_rival`), and its settings.
VARIANTS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "captured: alone": ("alone", FAST),
    "captured: together": ("together", FAST),
    "captured: ddp": ("ddp", FAST),
    "captured: ddp, no buffers": ("ddp", {**FAST, **NO_BUFFERS}),
    "captured: ddp, views, 10 MiB": ("ddp", BEST_OF_TORCH),
    "captured: ddp, views, 10 MiB, unsent": ("unsent", BEST_OF_TORCH),
    "captured: ddp, views, 10 MiB, one channel": ("one channel", BEST_OF_TORCH),
    "captured: ddp, views, 10 MiB, four channels": ("four channels", BEST_OF_TORCH),
    "captured: ddp, views, 10 MiB, symmetric": ("symmetric", BEST_OF_TORCH),
    "captured: together, by unit": ("together", BY_UNIT),
    "captured: copies, unaveraged": ("unaveraged", COPIES),
    "captured: copies": ("ddp", COPIES),
    "eager: alone": ("alone", {}),
    "eager: ddp": ("ddp", {}),
    "eager: ddp, views": ("ddp", VIEWS),
    "eager: ddp, views, one channel": ("one channel", VIEWS),
    "eager: ddp, views, four channels": ("four channels", VIEWS),
    "eager: ddp, views, symmetric": ("symmetric", VIEWS),
    "eager: copies": ("ddp", {**NO_BUFFERS, "ddp_reducer": "copies"}),
    "eager: alone, fused": ("alone", FUSED),
    "eager: ddp, views, fused": ("ddp", {**VIEWS, **FUSED}),
}
# What each rung adds to the one before it: together they are the step.
LADDERS = (
    ("alone", "together", "ddp, views, 10 MiB, unsent", "ddp, views, 10 MiB"),
    ("alone", "together", "together, by unit", "copies, unaveraged", "copies"),
)
Times = dict[str, list[float]]


@click.command()
@click.option("--batch", type=click.IntRange(min=1), default=32, show_default=True, help="Images per GPU and step.")
@click.option(
    "--only",
    default="captured|eager",
    show_default=True,
    help="Variants whose names this fits, as a regular expression.",
)
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="The JSON file to write.")
@click.option("--table", "shows", is_flag=True, help="Show the files of several machines, and measure nothing.")
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
def main(batch: int, only: str, out: Path | None, shows: bool, files: tuple[Path, ...]) -> None:
    """Measure on the two GPUs of this machine, or show what was measured on several."""
    if not shows:
        if out is None or torch.cuda.device_count() < GPUS:
            raise click.UsageError(f"needs {GPUS} GPUs and --out")
        with TemporaryDirectory() as folder:
            names = [name for name in VARIANTS if re.match(only, name)]
            start_processes(_rank, (names, batch, out.absolute(), folder), nprocs=GPUS, start_method="spawn")
        files = (out,)
    measured = [json.loads(file.read_text()) for file in files]
    for line in table([each["times_s"] for each in measured]):
        click.echo(line)


def table(machines: list[Times]) -> Iterator[str]:
    """A line per variant: its step and its speedup; then the ladders of ddp's best and of copies."""
    measured = [name for name in machines[0] if all(name in times for times in machines)]
    for name in measured:
        mode = name.split(":")[0]
        step = _figure(machines, itemgetter(name))
        one = f"{mode}: alone{', fused' if 'fused' in name else ''}"
        speedup = _figure(machines, partial(_speedups, one, name))
        words = f"  speedup {_shown(speedup)}" if _kind(name) != "alone" else ""
        yield f"{name:43} {1e3 * step.value:.3f} ms{words}"
    for ladder in LADDERS:
        if not {f"captured: {rung}" for rung in ladder} <= {*measured}:
            continue
        before = [0.0] * len(machines)
        for rung in ladder:
            now = [median(times[f"captured: {rung}"]) for times in machines]
            yield f"  {rung:43} {1e3 * fmean(b - a for a, b in zip(before, now, strict=True)):+.3f} ms"
            before = now
        yield ""


def _speedups(one: str, two: str, times: Times) -> list[float]:
    return [GPUS * a / b for a, b in zip(times[one], times[two], strict=True)]


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
    in_order = sorted(names, key=lambda name: _kind(name) not in SENDING)
    built = {name: _built(*VARIANTS[name], batch, device) for name in in_order}
    times: Times = {name: [] for name in names}
    order = random.Random(1)
    for number in range(ROUNDS + 1):
        for name in order.sample(names, len(names)):
            step_s = _timed(built[name], STEPS[name.startswith("captured")], idle=rank > 0 and _kind(name) == "alone")
            if number:  # the first round warms up
                times[name].append(step_s)
    kernels = {name: _nccl_kernels(built[name]) for name in names if _kind(name) in SENDING}
    if rank == 0:
        measured = {
            "gpu": torch.cuda.get_device_name(device),
            "torch": torch.__version__,
            "nccl": ".".join(map(str, torch.cuda.nccl.version())),
            "batch": batch,
            "times_s": times,
            "kernels": kernels,
        }
        out.write_text(json.dumps(measured, indent=1))
    built.clear()  # no rank ends while another one's graph still reads its memory
    torch.cuda.synchronize()
    dist.all_reduce(torch.zeros(1))
    for backend, pool in SYMMETRIC_POOLS:
        backend.deregister_mem_pool(pool)


def _kind(name: str) -> str:
    return VARIANTS[name][0]


def _built(kind: str, changes: Mapping[str, Any], batch: int, device: torch.device) -> Callable[[], Any]:
    """A step without arguments."""
    settings = TimingSettings(dataset_source="synthetic", **changes)
    layout = torch.channels_last if settings.memory_format == "channels_last" else torch.contiguous_format
    torch.manual_seed(0)
    network: torch.nn.Module = CifarResNet18(64)
    network = in_precision(network, settings.precision, "cuda").to(device).to(memory_format=layout)
    torch.backends.cudnn.benchmark = settings.cuda_graph
    if settings.compile == "by-unit":
        compile_by_unit(network)
    elif settings.compile != "none":
        network.compile(dynamic=False)
    stream = torch.cuda.Stream(device) if settings.cuda_graph else None
    with torch.cuda.stream(stream) if stream else nullcontext():
        if kind in RIVALS:
            network = _rival(network, kind, settings, device)
        elif kind in SENDING:
            network = parallelise(network, "ddp", [device], settings)
        if kind == "unsent":
            network.register_comm_hook(None, noop_hook)  # type: ignore[operator]
        if kind == "unaveraged":
            _average_nothing(network)
    fused = settings.fused_optimiser or None
    optimiser = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4, fused=fused)
    step = training_step(network, optimiser, classification_loss, device, layout)
    data = (torch.randn(batch, 3, 32, 32, device=device), torch.randint(0, 10, (batch,), device=device))
    step(data)
    if kind == "symmetric":
        _move_buckets(network, device)
    run: Callable[[Any], Any] = CapturedStep(step, data, device, stream) if stream else step
    torch._dynamo.reset()  # what is captured needs no code any more
    return partial(run, data)


def _rival(network: torch.nn.Module, kind: str, settings: TimingSettings, device: torch.device) -> torch.nn.Module:
    """DDP over a communicator of its own: with one or four channels, which are as many multiprocessors (what
    NCCL_MAX_CTAS sets for all), or with its buckets in memory that NCCL reaches on all GPUs (see `_move_buckets`)."""
    options = dist.ProcessGroupNCCL.Options()
    if kind != "symmetric":
        options.config.min_ctas = options.config.max_ctas = {"one channel": 1, "four channels": 4}[kind]
    return torch.nn.parallel.DistributedDataParallel(
        network,
        device_ids=[device],
        process_group=dist.new_group(backend="nccl", pg_options=options),
        bucket_cap_mb=settings.ddp_bucket_mb or None,
        broadcast_buffers=settings.ddp_broadcast_buffers,
        gradient_as_bucket_view=settings.ddp_gradient_as_bucket_view,
    )


# A communicator and the pool of its buckets, which is taken from it before it ends.
SYMMETRIC_POOLS: list[tuple[Any, Any]] = []


def _move_buckets(network: Any, device: torch.device) -> None:
    """Let DDP build its buckets anew, as after every first step, in memory that is registered as a symmetric window:
    NCCL's kernels then load and store in the other GPU's memory and need no buffers in between."""
    backend = network.process_group._get_backend(device)
    pool = torch.cuda.MemPool(backend.mem_allocator)
    with torch.cuda.use_mem_pool(pool):
        assert network.reducer._rebuild_buckets(), "DDP has built its buckets before"
    backend.register_mem_pool(pool, symm=True)
    SYMMETRIC_POOLS.append((backend, pool))


def _nccl_kernels(step: Callable[[], Any]) -> list[str]:
    """The names of NCCL's kernels in a step: those of symmetric memory are called Symk."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        step()
        torch.cuda.synchronize()
    return sorted({event.key for event in profile.key_averages() if "nccl" in event.key.lower()})


def _average_nothing(network: Any) -> None:
    for message in network._messages:
        message.average = partial(network._memory.wait_for_peers, message._sent)
        message.arrive = message.put_in_place = lambda: None


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

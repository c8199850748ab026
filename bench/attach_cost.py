"""What the hooks of `dpscale diagnose -- COMMAND` cost a step, inside one process that puts them in and takes them out.

    python bench/attach_cost.py --device cpu
    python bench/attach_cost.py --device cuda

One process trains, alone in its process group: a DataLoader, DDP, an allreduce and a number asked in every step. A step
takes about 10 ms, nearly all of it the host's own work, which hooks could slow. Blocks of steps come in rounds of four,
two with all hooks and two with none, in random order. Printed is a step with hooks over one without: the median over
rounds, with its interval; beside it the same of two equal blocks, which is noise. All of it by the wall, and by the
time that the process itself worked, which other work on the machine changes less. At most 1.02 is what we promise.
"""

import os
import random
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

import click
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from dpscale.diagnosis.attach import calls, hooks, loader
from dpscale.diagnosis.attach.hooks import ACCOUNT, NOW
from dpscale.diagnosis.attach.run import install
from dpscale.diagnosis.attach.schedule import AttachJob
from dpscale.formulas.statistics import median_of_blocks
from dpscale.vocabulary.causes import PROBES

LAYERS = 40  # of the first trial
SKIPPED = 3  # steps after a switch
# Of a block of such steps in a run, which notes the parts of some of a GPU's.
BLOCK_STEPS = 100


class Seconds(NamedTuple):
    """Per step, by two clocks."""

    wall: float
    own_work: float


Round = Mapping[bool, list[Seconds]]  # its blocks with hooks, and without


@click.command()
@click.option("--device", type=click.Choice(["cpu", "cuda"]), default="cpu", show_default=True)
@click.option("--step-ms", type=float, default=10.0, show_default=True, help="What a step takes, about.")
@click.option("--block-steps", type=int, default=10, show_default=True)
@click.option("--seconds", type=float, default=40.0, show_default=True, help="Of all blocks together.")
def main(device: str, step_ms: float, block_steps: int, seconds: float) -> None:
    """Train with hooks and without in blocks, and print the ratio."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        dist.init_process_group("gloo" if device == "cpu" else "nccl", f"file://{folder}/store", rank=0, world_size=1)
        trial = training(device, LAYERS)
        trial_s = min(measured(trial, 50).own_work for _ in range(6))  # the first ones are slow
        steps = training(device, round(LAYERS * step_ms / 1e3 / trial_s))
        # No interventions: what they leave behind in caches is not the hooks' cost.
        install(AttachJob(minutes=60.0, leave_out=list(PROBES)), Path(folder))
        while not NOW.as_it_is:
            next(steps)
        rounds = list(in_rounds(steps, step_ms / 1e3, block_steps, seconds))
        report(device, rounds)
        dist.destroy_process_group()


def training(device: str, layers: int) -> Iterator[None]:
    """Steps of a script, one after the other."""
    inner = [layer for _ in range(layers) for layer in (nn.Linear(64, 64), nn.ReLU())]
    net = nn.parallel.DistributedDataParallel(
        nn.Sequential(nn.Linear(256, 64), nn.BatchNorm1d(64), *inner, nn.Linear(64, 10)).to(device)
    )
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    data = TensorDataset(torch.randn(6400, 256), torch.randint(0, 10, (6400,)))
    while True:
        for x, y in DataLoader(data, batch_size=64, shuffle=True):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(x.to(device)), y.to(device))
            loss.backward()
            optimizer.step()
            told = loss.detach()
            dist.all_reduce(told)
            told.item()
            yield


def measured(steps: Iterator[None], count: int) -> Seconds:
    """Of a step, once those that belong to a switch are done. Each ends with an answer from the device."""
    for _ in range(SKIPPED):
        next(steps)
    wall, worked = time.perf_counter(), time.process_time()
    for _ in range(count):
        next(steps)
    return Seconds((time.perf_counter() - wall) / count, (time.process_time() - worked) / count)


def in_rounds(steps: Iterator[None], step_s: float, count: int, seconds: float) -> Iterator[Round]:
    """Two blocks with hooks, and two without; with hooks it begins and ends."""
    until, hooked, order = time.monotonic() + seconds, True, random.Random(0)
    while time.monotonic() < until:
        found: Round = {True: [], False: []}
        for wanted in order.sample([True, True, False, False], 4):
            if wanted != hooked:
                put_back() if wanted else hooks.take_out()
                hooked = wanted
                assert hooks_at_their_places() == {hooked}
            if wanted:
                ACCOUNT.record(step_s, BLOCK_STEPS)
            found[wanted].append(measured(steps, count))
        yield found
    if not hooked:
        put_back()


def put_back() -> None:
    for put_in, _ in hooks.ALL:
        put_in()


def hooks_at_their_places() -> set[bool]:
    """Whether a hook is where there can be one."""
    places = [*calls.PLACES, *loader.PLACES]
    there = [getattr(owner, name, None) for owner, names, _ in places for name in names.split()]
    return {hasattr(one, "dpscale_hook") for one in there if one is not None}


def report(device: str, rounds: Sequence[Round]) -> None:
    told = torch.cuda.get_device_name() if device == "cuda" else f"{os.cpu_count()} cores"
    click.echo(f"{device} ({told}), torch {torch.__version__}, {len(rounds)} rounds")
    for clock in Seconds._fields:
        each = [{kind: [getattr(block, clock) for block in found[kind]] for kind in found} for found in rounds]
        with_hooks, without = (1e3 * median(sum(of[kind]) / 2 for of in each) for kind in (True, False))
        click.echo(f"{clock}: {with_hooks:.3f} ms with hooks, {without:.3f} ms without")
        click.echo(f"  ratio {shown([sum(of[True]) / sum(of[False]) for of in each])}")
        for kind, name in ((True, "with hooks"), (False, "without")):
            click.echo(f"  two equal blocks {name} {shown([of[kind][0] / of[kind][1] for of in each])}")


def shown(ratios: list[float]) -> str:
    of = median_of_blocks(ratios)
    return f"{of.value:.4f} [{of.low:.4f}, {of.high:.4f}]"


if __name__ == "__main__":
    main()

"""How often one GPU alone and several GPUs should take turns inside a timing job, at the same GPU time.

    python bench/turns.py --out machine-1.json                  # on two GPUs, 3 minutes a round
    python bench/turns.py --table machine-1.json machine-2.json

A job trains the plain network on its first GPU and the parallel one on both. `turns` is into how many stretches the
steps of the parallel network are cut; before and after each of them comes half a stretch of the plain one. One turn is
the order A B A. A job times all numbers of turns, in a random order, each with the same steps, so with the same GPU
time. Jobs are processes of their own, and a round has one of every strategy and batch.

The rule by which the table decides, written before the first run:

- The spread is the standard deviation of ln S between the rounds of a machine, pooled over machines, strategies and
  batches. The fewest turns win whose spread is no more than a tenth above the smallest.
- Stretches must not lengthen what they time: at no strategy and batch may the time of all stretches be longer by more
  than 1 % than that in one turn, in the median over rounds.
- S is formed in the job's own turns only if its spread is a fifth less than that of the block: the geometric mean of
  one GPU's times in all jobs of the round at that batch, over the time of both.
"""

import json
import math
import random
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import torch
import torch.distributed as dist
from torch.multiprocessing.spawn import start_processes

from dpscale.measure.ranks import meet
from dpscale.measure.worker.communication import steps_of
from dpscale.measure.worker.epoch_timer import EpochTimer
from dpscale.measure.workload.batches import Batch, Step
from dpscale.measure.workload.images import classification_loss
from dpscale.measure.workload.networks import CifarResNet18
from dpscale.measure.workload.update import training_step
from dpscale.schemas.settings import TimingSettings
from dpscale.strategies.in_torch import parallelise

WORKERS = 2
TURNS = (1, 3, 6, 12)
# Steps of the plain network by batch; the parallel one makes half as many. All can be cut into the most turns.
STEPS: Mapping[str, Mapping[int, int]] = {"cuda": {32: 288, 128: 192, 512: 72}, "cpu": {4: 24, 12: 24}}
WARM_UP_STEPS = 12
BATCHES = 8
WIDTHS: Mapping[str, int] = {"cuda": 64, "cpu": 4}
ALLOWED_SPREAD, ALLOWED_LENGTHENING, BETTER = 1.1, 0.01, 0.8

# strategy, batch per GPU and turns
Place = tuple[str, int, int]
Job = dict[str, Any]
# ln S of a round, from the jobs of a machine, a place and the number of the round.
OfRound = Callable[[Sequence[Job], Place, int], float]


@click.command()
@click.option("--rounds", type=click.IntRange(min=1), default=3, show_default=True, help="Jobs of every kind.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="The JSON file to write.")
@click.option("--device", type=click.Choice(["cuda", "cpu"]), default="cuda", show_default=True)
@click.option("--table", "shows", is_flag=True, help="Show the files of several machines, and measure nothing.")
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
def main(rounds: int, out: Path | None, device: str, shows: bool, files: tuple[Path, ...]) -> None:
    """Measure on two GPUs of this machine, or show what was measured on several machines."""
    if not shows:
        if out is None:
            raise click.UsageError("needs --out")
        measure(rounds, out.absolute(), device)
        files = (out,)
    for line in table([json.loads(file.read_text())["jobs"] for file in files]):
        click.echo(line)


def measure(rounds: int, out: Path, device: str) -> None:
    """Write the jobs of this machine after each of them: what was measured survives an end."""
    strategies = ("ddp", "dp") if device == "cuda" else ("ddp",)
    gpus = [str(torch.cuda.get_device_properties(index).uuid) for index in range(WORKERS)] if device == "cuda" else []
    kinds = [(strategy, batch) for strategy in strategies for batch in STEPS[device]]
    order = random.Random(len(kinds))
    jobs: list[Job] = []
    for number in range(1, rounds + 1):
        for strategy, batch in order.sample(kinds, len(kinds)):
            with TemporaryDirectory() as folder:
                words = (device, strategy, batch, number, folder)
                start_processes(_rank, words, nprocs=WORKERS if strategy == "ddp" else 1, start_method="spawn")
                jobs += json.loads((Path(folder) / "jobs.json").read_text())
            out.write_text(json.dumps({"gpus": gpus, "torch": torch.__version__, "jobs": jobs}))
            click.echo(f"round {number}: {strategy} at batch {batch}", err=True)


def _rank(rank: int, device_type: str, strategy: str, batch: int, number: int, folder: str) -> None:
    """One process of a job. Rank 0 writes the stretches of every number of turns, in seconds of the slowest rank."""
    torch.set_num_threads(1)
    workers = WORKERS if strategy == "ddp" else 1
    on_gpu = device_type == "cuda"
    device = torch.device("cuda", rank) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    if workers > 1:
        meet(Path(folder), rank, workers, 120, on_gpu)
    devices = [torch.device("cuda", index) for index in ([rank] if workers > 1 else range(WORKERS))] if on_gpu else []
    whole_step, plain_step = _step(device, devices, strategy), _step(device, [], "single")
    own = batch if workers > 1 else batch * WORKERS
    whole = EpochTimer(devices, workers), whole_step, _batches(own, on_gpu)
    plain = EpochTimer(devices[:1], 1), plain_step, _batches(batch, on_gpu)
    steps = STEPS[device_type][batch]
    _stretch(whole, WARM_UP_STEPS)
    if rank == 0:
        _stretch(plain, WARM_UP_STEPS)
    jobs: list[Job] = []
    orders = random.Random(f"{strategy} {batch} {number}")
    for turns in orders.sample(TURNS, len(TURNS)):
        alone_s: list[float] = []
        parallel_s: list[float] = []
        for _ in range(turns):
            alone_s += [_stretch(plain, steps // (2 * turns))] if rank == 0 else []
            parallel_s.append(_stretch(whole, steps // WORKERS // turns))
            alone_s += [_stretch(plain, steps // (2 * turns))] if rank == 0 else []
        coordinates = {"strategy": strategy, "batch": batch, "turns": turns, "round": number}
        jobs.append({**coordinates, "alone_s": alone_s, "parallel_s": parallel_s})
    if rank == 0:
        (Path(folder) / "jobs.json").write_text(json.dumps(jobs))
    if workers > 1:
        dist.all_reduce(torch.zeros(1))


def _step(device: torch.device, devices: Sequence[torch.device], strategy: str) -> Step:
    """The training step of a network as a strategy trains it."""
    torch.manual_seed(0)
    network: torch.nn.Module = CifarResNet18(WIDTHS[device.type]).to(device)
    if strategy != "single":
        network = parallelise(network, strategy, devices, TimingSettings(device=device.type))
    optimiser = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4)
    return training_step(network, optimiser, classification_loss, device, torch.contiguous_format)


def _batches(batch: int, pinned: bool) -> list[Batch]:
    """Some batches of noise in (pinned) host memory, which steps use in turn."""
    made = [(torch.randn(batch, 3, 32, 32), torch.randint(0, 10, (batch,))) for _ in range(BATCHES)]
    return [tuple(tensor.pin_memory() if pinned else tensor for tensor in each) for each in made]


def _stretch(timed: tuple[EpochTimer, Step, list[Batch]], steps: int) -> float:
    """The seconds of a stretch of steps, of the slowest rank."""
    timer, step, batches = timed
    return timer.time(step, steps_of(batches, steps), steps).epoch_s


def table(machines: Sequence[Sequence[Job]]) -> Iterator[str]:
    """The table of docs/method/statistics.md, and what the rule takes."""
    kinds = sorted({(job["strategy"], job["batch"]) for jobs in machines for job in jobs}, key=lambda kind: kind[::-1])

    def line(what: str, values: Mapping[int, float], sign: str = "") -> str:
        return f"| {what} | " + " | ".join(f"{100 * values[turns]:{sign}.2f} %" for turns in TURNS) + " |"

    def spread(of_round: OfRound, *some: tuple[str, int]) -> dict[int, float]:
        return {turns: deviation(machines, [(*kind, turns) for kind in some], of_round) for turns in TURNS}

    yield "| | " + " | ".join(f"{turns} turn{'s' * (turns > 1)}" for turns in TURNS) + " |"
    yield "|---" * (1 + len(TURNS)) + "|"
    for strategy, batch in kinds:
        yield line(f"between runs: {strategy}, batch {batch}", spread(own_job, (strategy, batch)))
    pooled, blocks = spread(own_job, *kinds), spread(own_block, *kinds)
    yield line(f"between runs: all ({freedom(machines, kinds)} degrees of freedom)", pooled)
    yield line("the same with the block's time of one GPU", blocks)
    for strategy, batch in kinds:
        apart = {turns: between_machines(machines, (strategy, batch, turns)) for turns in TURNS}
        yield line(f"between machines: {strategy}, batch {batch}", apart)
    as_one = [together(machines)]
    everything = {turns: deviation(as_one, [(*kind, turns) for kind in kinds], own_job) for turns in TURNS}
    yield line(f"runs and machines: all ({freedom(as_one, kinds)} degrees of freedom)", everything)
    longer = {turns: statistics.geometric_mean(lengths(machines, kinds, turns)) - 1 for turns in TURNS}
    yield line("same steps in stretches, over one turn: mean of all", longer, "+")
    lengthened = {
        turns: max(statistics.median(lengths(machines, [kind], turns)) for kind in kinds) - 1 for turns in TURNS
    }
    yield line("same steps in stretches, over one turn: largest median", lengthened, "+")
    yield ""
    if not freedom(machines, kinds):
        yield "The rule takes nothing yet: a spread needs two rounds of a machine."
        return
    allowed = [turns for turns in TURNS if lengthened[turns] <= ALLOWED_LENGTHENING]
    least = min(pooled[turns] for turns in allowed)
    chosen = next(turns for turns in allowed if pooled[turns] <= ALLOWED_SPREAD * least)
    pairing = "the job's own turns" if pooled[chosen] <= BETTER * blocks[chosen] else "the block's time of one GPU"
    share = f"the own job's spread is {pooled[chosen] / blocks[chosen]:.2f} of the block's"
    yield f"The rule takes {chosen} turn{'s' * (chosen > 1)}, and {pairing}: {share}."


def own_job(jobs: Sequence[Job], place: Place, number: int) -> float:
    """ln S of a round from the stretches of its own job: the mean over turns of their logarithms."""
    job = _job(jobs, place, number)
    halves = job["alone_s"]
    ratios = [(halves[2 * turn] + halves[2 * turn + 1]) / job["parallel_s"][turn] for turn in range(place[2])]
    return statistics.fmean(map(math.log, ratios))


def own_block(jobs: Sequence[Job], place: Place, number: int) -> float:
    """ln S of a round from all of its one-GPU times at the batch."""
    _, batch, turns = place
    alone = [job for job in jobs if (job["batch"], job["turns"], job["round"]) == (batch, turns, number)]
    alone_s = statistics.fmean(math.log(sum(job["alone_s"])) for job in alone)
    return alone_s - math.log(sum(_job(jobs, place, number)["parallel_s"]))


def _job(jobs: Sequence[Job], place: Place, number: int) -> Job:
    return next(job for job in jobs if (job["strategy"], job["batch"], job["turns"], job["round"]) == (*place, number))


def together(machines: Sequence[Sequence[Job]]) -> list[Job]:
    """The jobs of all machines as if one had run them, in rounds of their own."""
    return [{**job, "round": (number, job["round"])} for number, jobs in enumerate(machines) for job in jobs]


def freedom(machines: Sequence[Sequence[Job]], kinds: Sequence[tuple[str, int]]) -> int:
    """Degrees of freedom of a pooled deviation."""
    return sum(len(_rounds(jobs, batch)) - 1 for jobs in machines for _, batch in kinds if _rounds(jobs, batch))


def deviation(machines: Sequence[Sequence[Job]], places: Sequence[Place], of_round: OfRound) -> float:
    """The standard deviation between rounds of a machine, pooled over machines and places."""
    squares, free = 0.0, 0
    for jobs in machines:
        for place in places:
            values = [of_round(jobs, place, number) for number in _rounds(jobs, place[1])]
            squares += sum((value - statistics.fmean(values)) ** 2 for value in values)
            free += len(values) - 1
    return math.sqrt(squares / free) if free else math.nan


def _rounds(jobs: Sequence[Job], batch: int) -> list[int]:
    """The rounds that have the jobs of all strategies at a batch."""
    done: dict[int, set[str]] = {}
    for job in jobs:
        if job["batch"] == batch:
            done.setdefault(job["round"], set()).add(job["strategy"])
    return [number for number, strategies in done.items() if len(strategies) == len({job["strategy"] for job in jobs})]


def lengths(machines: Sequence[Sequence[Job]], kinds: Sequence[tuple[str, int]], turns: int) -> list[float]:
    """The time of the steps in so many turns over that of the same steps in one: of both networks, in every round."""
    return [
        sum(_job(jobs, (*kind, turns), number)[part]) / sum(_job(jobs, (*kind, 1), number)[part])
        for part in ("alone_s", "parallel_s")
        for kind in kinds
        for jobs in machines
        for number in _rounds(jobs, kind[1])
    ]


def between_machines(machines: Sequence[Sequence[Job]], place: Place) -> float:
    """The largest difference of ln S between two machines, each the mean over its rounds; 0 of one machine."""
    means = [statistics.fmean(own_job(jobs, place, number) for number in _rounds(jobs, place[1])) for jobs in machines]
    return max(means) - min(means)


if __name__ == "__main__":
    main()

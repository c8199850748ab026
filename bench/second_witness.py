"""README's first table computed a second time: from the records, by the definitions of docs/method alone.

    python bench/second_witness.py

Nothing of dpscale is imported: a mistake of its readers, its statistics or its tables would have to be made here again.
Every figure is printed beside that of README. The exit status is 1 where one of them differs by more than rounding.

Computed are, from nothing but the numbers in the records:

- the speedups of two GPUs, and their 95 % intervals over servers;
- the speedups of four GPUs, and the interval of those whose steps are even;
- what the terminal shows of two GPUs at the batch of the answer: epoch times, the speedup and the range over servers.

Not checked are: intervals of two servers whose steps wait for the host, which borrow the spread of other configurations
(`bench/interval_coverage.py` simulates these); the verdict, the causes and the advice; and the records themselves. That
records may be pooled is checked no further than that all of a study name the same GPUs, torch, CUDA, NCCL and driver.
"""

import json
import math
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from statistics import fmean, geometric_mean, median, stdev
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
TWO_H100, FOUR_H200 = "recorded-two-gpus", "recorded"
# Student's t at 97.5 %, by degrees of freedom, from a printed table.
STUDENT = (12.7062, 4.30265, 3.18245, 2.77645, 2.57058, 2.44691, 2.36462, 2.30600, 2.26216)
# Above it, quartiles of a run's step times are so far apart that two servers of it borrow, in shares of the median.
UNEVEN = 0.02
FULL_STEPS = 10  # an epoch with fewer has no speedup in the table
Place = tuple[str, int]  # a strategy and its batch per GPU
Values = list[float]  # a value, or a value with the ends of its interval


class Job(NamedTuple):
    """A timing job without loading: where and when it ran, its epoch in seconds, and those of one GPU that it timed."""

    strategy: str
    gpus: int
    batch: int
    run: int
    server: int
    started: datetime
    epoch_s: float
    alone_s: float | None
    full_steps: int
    is_uneven: bool


class Speedup(NamedTuple):
    """The speedup of every server, and whether steps of it are uneven, or its epochs too short."""

    of_servers: list[float]
    is_uneven: bool
    is_short: bool


def records(study: str) -> Iterator[Mapping[str, Any]]:
    """Every timing record of the study's own grid."""
    for file in sorted((ROOT / "results" / study / "cells").rglob("*.json*")):
        texts = file.read_text().splitlines() if file.suffix == ".jsonl" else [file.read_text()]
        for record in map(json.loads, texts):
            if record["status"] == "ok":
                yield record


def epoch_s(scope: Mapping[str, Any]) -> float:
    """Return the median over timed epochs of the slowest rank's time."""
    return float(median(max(of_ranks) for of_ranks in scope["rank_epoch_s"]))


def alone_s(record: Mapping[str, Any]) -> float | None:
    """Return what one GPU alone took in this job: of a parallel one, before and after its epochs."""
    if record["cell"]["strategy"] == "single":
        return epoch_s(record["scopes"]["compute"])
    for alone in record.get("alone") or []:
        if alone["batch_per_gpu"] == record["cell"]["batch_per_gpu"] and alone["status"] == "ok":
            return geometric_mean(epoch_s(half) for half in alone["scopes"]["compute"].values())
    return None


def servers(found: Iterable[Mapping[str, Any]]) -> Mapping[str, int]:
    """Return the server of every GPU: GPUs that one job used are of one server."""
    groups: list[set[str]] = []
    for record in found:
        group = {gpu["uuid"] for gpu in record["hardware"]["gpus"]}
        for other in [one for one in groups if one & group]:
            groups.remove(other)
            group |= other
        groups.append(group)
    return {gpu: number for number, group in enumerate(groups) for gpu in group}


def jobs(study: str) -> list[Job]:
    found = list(records(study))
    machines = {
        (
            record["hardware"]["device_model"],
            *(record["software"][name] for name in ("torch", "cuda", "nccl", "driver")),
        )
        for record in found
    }
    assert len(machines) == 1, f"{study} has records of {len(machines)} kinds of machines"
    server = servers(found)
    return [
        Job(
            **{name: record["cell"][name] for name in ("strategy", "gpus", "run")},
            batch=record["cell"]["batch_per_gpu"],
            server=server[record["hardware"]["gpus"][0]["uuid"]],
            started=datetime.fromisoformat(record["started_at"]),
            epoch_s=epoch_s(record["scopes"]["compute"]),
            alone_s=alone_s(record),
            full_steps=record["scopes"]["compute"]["full_steps_per_epoch"],
            is_uneven=(steps["p75"] - steps["p25"]) / steps["median"] > UNEVEN
            if (steps := record["scopes"]["compute"].get("step_s_quantiles"))
            else False,
        )
        for record in found
    ]


def one_gpu_s(found: list[Job], batch: int) -> Mapping[tuple[int, int], float]:
    """Return T(1,b) of every block, a run on a server: the geometric mean over its jobs that timed one GPU."""
    times = defaultdict(list)
    for job in found:
        if job.batch == batch and job.alone_s is not None:
            times[job.server, job.run].append(job.alone_s)
    return {block: geometric_mean(of_jobs) for block, of_jobs in times.items()}


def speedup(found: list[Job], gpus: int, place: Place) -> Speedup:
    """Return T(1,b) / T(N,b), formed in blocks: those of a server are averaged."""
    strategy, batch = place
    one_s = one_gpu_s(found, batch)
    parallel = [job for job in found if (job.strategy, job.gpus, job.batch) == (strategy, gpus, batch)]
    beside = defaultdict(list)
    for job in parallel:
        alone = [other for other in found if other.batch == batch and other.server == job.server and other.alone_s]
        if alone:
            # Its own block, or where that has none, the block of the job on its server that is nearest in time.
            nearest = min(alone, key=lambda other: (other.run != job.run, abs(other.started - job.started)))
            beside[job.server, nearest.run].append(job.epoch_s)
    of_servers = defaultdict(list)
    for block, times in beside.items():
        of_servers[block[0]].append(one_s[block] / geometric_mean(times))
    return Speedup(
        [geometric_mean(ratios) for ratios in of_servers.values()],
        any(job.is_uneven for job in parallel),
        any(job.full_steps < FULL_STEPS for job in parallel),
    )


def with_interval(of_servers: list[float]) -> Values:
    """Return the geometric mean, and Student's 95 % interval of the logarithms."""
    logs = [math.log(value) for value in of_servers]
    half = STUDENT[len(logs) - 2] * stdev(logs) / math.sqrt(len(logs))
    return [math.exp(fmean(logs) + part) for part in (0, -half, half)]


def table(study: str, gpus: int, batches: Iterable[int]) -> dict[Place, Values]:
    """Return the speedups of a study at these batches, with intervals where no other configuration is needed."""
    found, shown = jobs(study), {}
    for place in ((strategy, batch) for batch in batches for strategy in ("ddp", "dp")):
        one = speedup(found, gpus, place)
        values = with_interval(one.of_servers) if one.of_servers and not one.is_short else []
        is_borrowing = one.is_uneven and len(one.of_servers) == 2
        shown[place] = values[:1] if is_borrowing else values
    return shown


def answer(batch: int) -> dict[str, Values]:
    """Return what the terminal shows of `ddp` on two GPUs: mean times, and the speedup of table and sentence."""
    found = jobs(TWO_H100)
    by_server: dict[int, dict[int, list[float]]] = {1: defaultdict(list), 2: defaultdict(list)}
    for (server, _), seconds in one_gpu_s(found, batch).items():
        by_server[1][server].append(seconds)
    for job in found:
        if (job.strategy, job.gpus, job.batch) == ("ddp", 2, batch):
            by_server[2][job.server].append(job.epoch_s)
    times = {
        gpus: with_interval([geometric_mean(runs) for runs in of_servers.values()])
        for gpus, of_servers in by_server.items()
    }
    gained = with_interval(speedup(found, 2, ("ddp", batch)).of_servers)
    return {
        "epoch of one GPU, s": times[1],
        "epoch of two GPUs, s": times[2],
        "speedup": gained,
        "efficiency, %": [100 * gained[0] / 2],
        "GPU-seconds, ×": [2 / gained[0]],
        "speedup in words": gained,
    }


def numbers(text: str) -> list[str]:
    return re.findall(r"\d[\d,]*(?:\.\d+)?", text)


def printed_table(readme: str) -> dict[tuple[str, int], list[str]]:
    """Return the numbers of README's table with the digits they have, by the head of their column and the batch."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in _made(readme, "speedups").splitlines()
        if line.startswith("|")
    ]
    head, _, *body = rows
    return {
        (name.replace("`", ""), int(row[0].replace(",", ""))): numbers(cell)
        for row in body
        for name, cell in zip(head[1:], row[1:], strict=True)
    }


def printed_answer(readme: str) -> dict[str, list[str]]:
    """Return the numbers that README shows of the terminal, by the names of `answer`."""
    shown = _made(readme, "summary")
    one, two = (numbers(re.findall(rf"(?m)^ +{gpus} +(.*)$", shown)[0]) for gpus in (1, 2))
    said = re.findall(r"2 GPUs are (.*?) times as fast as 1 \[(.*?), (.*?)\]", shown)[0]
    return {
        "epoch of one GPU, s": one[2:5],
        "epoch of two GPUs, s": two[4:7],
        "speedup": two[:3],
        "efficiency, %": two[3:4],
        "GPU-seconds, ×": two[7:8],
        "speedup in words": list(said),
    }


def _made(readme: str, name: str) -> str:
    return readme.partition(f"<!-- made: {name} -->")[2].partition("<!-- end -->")[0]


def agree(computed: float, printed: str) -> bool:
    """Return whether a number, rounded to the digits of the printed one, is that."""
    digits = len(printed.partition(".")[2])
    off = abs(computed - float(printed.replace(",", "")))
    return off <= 0.5 * 0.1**digits + 1e-9


def compared(readme: str) -> Iterator[tuple[bool, str]]:
    """Whether a figure is README's, and a line with both of them; a line per figure of README."""
    shown = printed_table(readme)
    batches = sorted({batch for _, batch in shown})
    pairs: list[tuple[str, Values, list[str]]] = []
    for label, study, gpus in (("2 H100", TWO_H100, 2), ("4 H200", FOUR_H200, 4)):
        for (strategy, batch), values in table(study, gpus, batches).items():
            pairs.append((f"{strategy}, {label}, batch {batch:,}", values, shown[f"{strategy}, {label}", batch]))
    terminal = printed_answer(readme)
    pairs += [(f"terminal: {name}", values, terminal[name]) for name, values in answer(128).items()]
    for name, values, printed in pairs:
        # Of an interval that borrows, the value alone is compared.
        is_complete = len(values) == len(printed) or (len(values), len(printed)) == (1, 3)
        is_same = is_complete and all(map(agree, values, printed))
        unchecked = ", interval not checked" if len(values) < len(printed) else ""
        mine = " ".join(f"{value:.4f}" for value in values) or "none"
        yield is_same, f"{name:36}{mine:24}README: {' '.join(printed) or 'none'}{unchecked}"


def main(readme: Path) -> int:
    differing = 0
    for is_same, line in compared(readme.read_text()):
        print(f"{'' if is_same else 'DIFFERS  '}{line}")
        differing += not is_same
    print(f"Differ by more than rounding: {differing}" if differing else "All agree to the last digit printed")
    return min(differing, 1)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "README.md"))

"""Which one-GPU time a speedup should be formed with: that of its own job, or that of its block.

    python bench/pairings.py

Of the recorded studies of several servers whose parallel jobs time one GPU too, at batches where the host decides how
long a step takes. A block is a run on a server; its one-GPU time is the geometric mean over all of its jobs that timed
one GPU at the batch. Shown is the standard deviation of ln S over servers, pooled over configurations, with its degrees
of freedom. The configurations of a study ran on the same servers, so these are fewer than they seem.
"""

import math
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean, median
from typing import NamedTuple

from dpscale.analyse.records import places, servers_of
from dpscale.records.files import decoded
from dpscale.records.files_of_runs import files_of_runs, lines_of
from dpscale.records.kinds import TimingRecord

SCOPE = "compute"
VERSION = 2  # the first whose jobs have a baseline of their own
# Below it the host decides how long a step of ResNet-18 takes.
HOST_LIMITED_BELOW = 512


class Job(NamedTuple):
    """A timing job: what it ran, where, its run, and the logarithms of one GPU's and of all GPUs' epoch in seconds."""

    study: str
    strategy: str
    gpus: int
    batch: int
    server: int
    run: int
    alone: float | None
    parallel: float


def main() -> None:
    for line in table(Path(__file__).parents[1] / "results"):
        print(line)


def table(results: Path) -> Iterator[str]:
    """The lines of a table in Markdown: the studies of several servers, then all of them together."""
    jobs = [job for folder in sorted(results.glob("recorded*/cells")) for job in jobs_in(folder)]
    studies = [name for name in dict.fromkeys(job.study for job in jobs) if len(servers_in(jobs, name)) > 1]
    kinds = {
        f"{name}, batch below {HOST_LIMITED_BELOW}": [job for job in jobs if job.study == name] for name in studies
    }
    kinds["all of them"] = [job for job in jobs if job.study in studies]
    yield "| jobs | own job | block | own over block | degrees of freedom |"
    yield "|---|---|---|---|---|"
    for name, some in kinds.items():
        limited = [job for job in some if job.batch < HOST_LIMITED_BELOW]
        (own, free), (block, _) = (deviation(limited, jobs, is_own) for is_own in (True, False))
        if free:
            yield f"| {name} | {100 * own:.1f} % | {100 * block:.1f} % | {own / block:.2f} | {free} |"


def servers_in(jobs: list[Job], study: str) -> set[int]:
    """The servers that jobs of several GPUs of a study ran on."""
    return {job.server for job in jobs if job.study == study and job.gpus > 1}


def jobs_in(cells: Path) -> Iterator[Job]:
    """The jobs of a study, of the version with a baseline in each."""
    files = [file for file in files_of_runs(cells.parent) if file.parent == cells]
    records = [decoded(TimingRecord, line) for file in files for line in lines_of(file)]
    current = [one for one in records if one.measurement_version == VERSION and SCOPE in one.scopes]
    server = servers_of(current)
    for record in current:
        cell = record.cell
        parallel = math.log(median(record.scopes[SCOPE].epoch_s))
        yield Job(
            cells.parent.name,
            cell.strategy,
            cell.gpus,
            cell.batch_per_gpu,
            server[places(record)[0]],
            cell.run,
            parallel if cell.gpus == 1 else alone_of(record),
            parallel,
        )


def alone_of(record: TimingRecord) -> float | None:
    """The logarithm of one GPU's epoch in a parallel job at its own batch: the mean of those before and after."""
    for baseline in record.alone or ():
        if baseline.batch_per_gpu == record.cell.batch_per_gpu and SCOPE in baseline.scopes:
            return fmean(math.log(median(half.epoch_s)) for half in baseline.scopes[SCOPE].measured)
    return None


def deviation(jobs: list[Job], all_jobs: list[Job], is_own: bool) -> tuple[float, int]:
    """The pooled standard deviation of ln S, and its degrees of freedom."""
    squares, free = 0.0, 0
    configurations: dict[tuple[str, str, int, int], list[Job]] = defaultdict(list)
    for job in jobs:
        if job.gpus > 1 and job.alone is not None:
            configurations[job[:4]].append(job)
    for of_configuration in configurations.values():
        by_server: dict[int, list[float]] = defaultdict(list)
        for job in of_configuration:
            one_gpu = [job.alone] if is_own else [other.alone for other in all_jobs if is_same_block(job, other)]
            by_server[job.server].append(fmean(alone for alone in one_gpu if alone is not None) - job.parallel)
        units = [fmean(values) for values in by_server.values()]
        squares += sum((unit - fmean(units)) ** 2 for unit in units)
        free += len(units) - 1
    return math.sqrt(squares / free) if free else math.nan, free


def is_same_block(job: Job, other: Job) -> bool:
    """Whether another job is of the same run on the same server, at the same batch, and timed one GPU."""
    same = (job.study, job.server, job.run, job.batch) == (other.study, other.server, other.run, other.batch)
    return same and other.alone is not None


if __name__ == "__main__":
    main()

"""Cells that share a job of Slurm, where config/cluster.yaml has `cells_per_job`.

They run one after another, each as a step of its own with its own record and log, without Snakemake in the job. To
Snakemake each is a job by itself: what was measured is kept, and what is missing is submitted again. Of its own groups
of jobs it starts every cell again where one has failed.
"""

import math
import shlex
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from threading import Lock
from typing import Any

from snakemake.iocontainers import ResourceList
from snakemake.shell import shell

from dpscale.scheduler.patience import Patient

SEED = 0
COLLECT_S = 1
SCRIPT = """\
failed=0
# A cell that a signal has ended takes the job with it.
ended() {{ failed=1; if [ $1 -ge 128 ]; then exit 1; fi; }}
{}
exit $failed"""
NOT_BEGUN = "job {} ended before all of its cells had begun: those are submitted again, and no attempt is counted"

Size = tuple[int, int, str, int]


def spread(cells: Mapping[str, Size], cells_per_job: int) -> list[list[str]]:
    """The cells on as few jobs as hold so many each, of one size and one run, those of the first run first.

    Which job a cell comes to, and when, is left to chance (the same each time), so neither goes with the batch. Two
    runs of one configuration share no job: that would be one server, and one unit.
    """
    alike = defaultdict(list)
    for cell in sorted(cells):
        alike[cells[cell]].append(cell)
    jobs = []
    for _, some in sorted(alike.items()):
        Random(SEED).shuffle(some)
        number = math.ceil(len(some) / cells_per_job)
        jobs += [some[first::number] for first in range(number)]
    return jobs


class SharedJob:
    """What the executor submits as one job: a cell, in whose name it runs, and those after it."""

    def __init__(self, cells: Sequence[Any]):
        self.cells = cells
        first, *_ = asked = [cell.resources for cell in cells]
        total = {"mem_mb": max(each.mem_mb for each in asked), "runtime": sum(each.runtime for each in asked)}
        self.resources = ResourceList(fromdict={**dict(first.items()), **total})

    def __getattr__(self, name: str) -> Any:
        return getattr(self.cells[0], name)

    @property
    def script(self) -> str:
        commands = [shlex.join(["bash", "-c", f"{shell._process_prefix or ''}{cell.shellcmd}"]) for cell in self.cells]
        return SCRIPT.format("\n".join(f"{command} || ended $?" for command in commands))


class Sharing(Patient):
    """Submits cells as shared jobs: `cell_rules` have cells, and at most `most_jobs` of them are in Slurm at once."""

    @classmethod
    def take_over(cls, executor: Any, **more: Any) -> None:
        super().take_over(executor, in_slurm=set(), to_share={}, one_by_one=Lock(), began={}, **more)
        executor.workflow.executor_settings.pass_command_as_script = True

    def run_jobs(self, jobs: Sequence[Any]) -> None:
        super().run_jobs([job for job in jobs if job.rule.name not in self.cell_rules])
        for cell in (job for job in jobs if job.rule.name in self.cell_rules):
            self.run_job_pre(cell)
            self.workflow.async_run(cell.prepare())
            Path(cell.log[0]).unlink(missing_ok=True)
            self.to_share[str(cell.output[0])] = cell
        self._job_submission_executor.submit(self.share)

    def share(self) -> None:
        """After a moment: those that a job has lost come one by one."""
        time.sleep(COLLECT_S)
        with self.one_by_one:
            cells = dict(self.to_share)
            self.to_share.clear()
        for paths in spread({path: _size(cell) for path, cell in cells.items()}, self.cells_per_job):
            self._job_submission_executor.submit(self.run_job, SharedJob([cells[path] for path in paths]))

    def run_job(self, job: Any) -> None:
        with self.one_by_one:
            while self.wait and len(self.in_slurm) >= self.most_jobs:
                time.sleep(1)
            super().run_job(job)

    def format_job_exec(self, job: Any) -> str:
        return job.script if isinstance(job, SharedJob) else str(super().format_job_exec(job))

    def _report_job_submission_threadsafe(self, info: Any) -> None:
        self.in_slurm.add(info.external_jobid)
        cells = getattr(info.job, "cells", [])
        for job in cells or [info.job]:
            super()._report_job_submission_threadsafe(replace(info, job=job, aux={**info.aux, "cells": cells}))

    def report_job_error(self, info: Any, msg: str | None = None, **more: Any) -> None:
        cells = (info.aux or {}).get("cells", [])
        if isinstance(info.job, SharedJob):  # Slurm did not take it
            for cell in info.job.cells:
                self.report_job_error(replace(info, job=cell), msg, **more)
        elif cells and _is_made(info.job):
            self.report_job_success(info)
        elif self.began.setdefault(info.external_jobid, any(map(_has_begun, cells))) and not _has_begun(info.job):
            self.say_once(NOT_BEGUN, info.external_jobid)
            self.submit_again(info.job)
        else:
            super().report_job_error(info, msg, **more)

    async def check_active_jobs(self, active_jobs: Sequence[Any]) -> AsyncIterator[Any]:
        """A cell has ended when its record is there, also while its job goes on."""
        running, alive = [], set()
        for info in active_jobs:
            if info.aux["cells"] and _is_made(info.job):
                self.report_job_success(info)
            else:
                running.append(info)
        async for info in super().check_active_jobs(running):
            alive.add(info.external_jobid)
            yield info
        self.in_slurm -= {info.external_jobid for info in active_jobs} - alive


def _size(cell: Any) -> Size:
    """Of a cell its run or seed, which is its last wildcard, and what its job asks for."""
    asked = cell.resources
    return int(cell.wildcards[-1]), asked.nodes, asked.get("gres", ""), asked.cpus_per_task


def _is_made(cell: Any) -> bool:
    return Path(cell.output[0]).exists()


def _has_begun(cell: Any) -> bool:
    return Path(cell.log[0]).exists()

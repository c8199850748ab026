"""Snakemake's executor for Slurm, which here waits for what passes by itself, and can have cells share a job.

The plugin's executor forgets its jobs when their states cannot be asked, fails a job that Slurm does not take at once,
never ends one that was preempted, and looks less and less often.

Cells share jobs where config/cluster.yaml has `cells_per_job`. They run one after another, each as a step of its own
with its own record and log, without Snakemake in the job. To Snakemake each is a job by itself: what was measured is
kept, and what is missing is submitted again. Of its own groups of jobs it starts every cell again where one has failed.
"""

import asyncio
import math
import re
import shlex
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from threading import Lock
from typing import Any, NamedTuple

import snakemake_executor_plugin_slurm as plugin
from snakemake.iocontainers import ResourceList

from dpscale.scheduler.cluster import SHELL_PREFIX

TRY_AGAIN_S = 10
# The answers of sbatch where it may take the same job later.
PASSING = {
    re.compile(
        r"\w*MaxSubmitJob\w*"
    ): "your account or QOS may have no more jobs in Slurm's queue ({}): the others are submitted as these end",
    re.compile(
        r"Unable to contact slurm controller|Socket timed out|Connection refused", re.IGNORECASE
    ): "Slurm does not take jobs now ({}): they are submitted when it does",
}
PREEMPTED = (
    "job {} was preempted: a job that comes first took its place. It is submitted again, and no attempt is counted. If "
    "that happens often, name a partition or qos in config/cluster.yaml that is not preempted"
)
SILENT = "Slurm does not say how the jobs are: they run on, and it is asked again"
NOT_BEGUN = "job {} ended before all of its cells had begun: those are submitted again, and no attempt is counted"

SEED = 0
COLLECT_S = 1
SCRIPT = """\
failed=0
# A cell that a signal has ended takes the job with it.
ended() {{ failed=1; if [ $1 -ge 128 ]; then exit 1; fi; }}
{}
exit $failed"""


class PatientExecutor(plugin.Executor):  # type: ignore[misc]
    """An executor that waits, and says so once."""

    already_said: set[tuple[str, ...]]
    preempted: set[str]  # The numbers of jobs, which are failed for the plugin.
    submitting: ThreadPoolExecutor

    @classmethod
    def take_over(cls, executor: Any, **attributes: Any) -> None:
        """Make an executor one of these. Snakemake makes it before a workflow can say how."""
        executor.__class__ = cls
        pool = ThreadPoolExecutor(2)
        vars(executor).update(attributes, already_said=set(), preempted=set(), submitting=pool)
        plugin.query_job_status = partial(executor.query_job_status, plugin.query_job_status)

    def say_once(self, text: str, *words: str) -> None:
        if (text, *words) not in self.already_said:
            self.already_said.add((text, *words))
            self.logger.warning(text.format(*words))

    def get_account_arg(self, job: Any) -> Iterator[str]:
        """Yield the option that names the account. Without one Slurm charges the user's own: the plugin would guess."""
        return super().get_account_arg(job) if job.resources.get("slurm_account") else iter([""])

    def run_job(self, job: Any) -> None:
        if self.wait:  # not cancelled
            super().run_job(job)

    def submit(self, work: Callable[..., None], *arguments: Any) -> None:
        """Let a thread do what submits a job, unless this run was cancelled."""
        if self.wait:
            self.submitting.submit(work, *arguments)

    def submit_later(self, job: Any) -> None:
        time.sleep(TRY_AGAIN_S)
        self.run_job(job)

    def submit_again(self, job: Any) -> None:
        """Have Snakemake submit a job again, with no attempt counted."""
        job.attempt -= 1  # Snakemake adds one
        self.workflow.scheduler.error_callback(job)

    def is_refused_for_now(self, info: Any, msg: str | None) -> bool:
        """Return whether Slurm may take a job later that it has not taken. It is then submitted later."""
        for pattern, text in PASSING.items():
            if info.external_jobid is None and (match := pattern.search(msg or "")):
                self.say_once(text, match[0])
                self.submit(self.submit_later, info.job)
                return True
        return False

    def report_job_error(self, info: Any, msg: str | None = None, **more: Any) -> None:
        if info.external_jobid in self.preempted:
            self.say_once(PREEMPTED, info.external_jobid)
            self.submit_again(info.job)
        elif not self.is_refused_for_now(info, msg):
            super().report_job_error(info, msg, **more)

    async def query_job_status(self, ask: Any, command: str, logger: Any) -> tuple[dict[str, str], float]:
        """Return the states of jobs and how long it took to ask for them. No answer is no news; to the plugin it would
        be the end of all jobs. To it a job has failed that was preempted."""
        states, took_s = await ask(command, logger)
        if states is None:
            self.say_once(SILENT)
        preempted = {number for number, state in (states or {}).items() if state == "PREEMPTED"}
        self.preempted |= preempted
        return {**(states or {}), **dict.fromkeys(preempted, "FAILED")}, took_s or 0.0

    async def sleep(self) -> None:
        """Wait until the next look. The plugin waits 10 s longer after each look that found no job ended, up to 180 s,
        and has no setting for that: a cancelled cell, and the end of the last one, would go unnoticed for so long."""
        steady_s = self.workflow.remote_execution_settings.seconds_between_status_checks
        await asyncio.sleep(min(self.next_seconds_between_status_checks, steady_s))

    def cancel(self) -> None:
        self.wait = False
        self.submitting.shutdown(wait=False, cancel_futures=True)
        super().cancel()


class Size(NamedTuple):
    """A run (or seed), and the demands of a cell. Cells that differ in one of these share no job."""

    run: int
    nodes: int
    gres: str
    cpus_per_task: int

    @classmethod
    def of_cell(cls, cell: Any) -> "Size":
        run = int(cell.wildcards[-1])
        return cls(run, cell.resources.nodes, cell.resources.get("gres", ""), cell.resources.cpus_per_task)


def spread(sizes: Mapping[str, Size], cells_per_job: int) -> list[list[str]]:
    """Return the cells on as few jobs as hold so many each, of one size and one run, those of the first run first.

    Which job a cell comes to, and when, is left to chance (the same each time), so neither goes with the batch. Two
    runs of one configuration share no job: that would be one server, and one unit.
    """
    cells_by_size = defaultdict(list)
    for cell in sorted(sizes):
        cells_by_size[sizes[cell]].append(cell)
    jobs = []
    for _, cells in sorted(cells_by_size.items()):
        Random(SEED).shuffle(cells)
        number = math.ceil(len(cells) / cells_per_job)
        jobs += [cells[first::number] for first in range(number)]
    return jobs


class SharedJob:
    """A job of several cells to the executor, in the name of the first one."""

    def __init__(self, cells: Sequence[Any]):
        self.cells = cells
        demands = [cell.resources for cell in cells]
        total = {"mem_mb": max(job.mem_mb for job in demands), "runtime": sum(job.runtime for job in demands)}
        self.resources = ResourceList(fromdict={**dict(demands[0].items()), **total})

    def __getattr__(self, name: str) -> Any:
        return getattr(self.cells[0], name)

    @property
    def script(self) -> str:
        commands = [shlex.join(["bash", "-c", f"{SHELL_PREFIX}{cell.shellcmd}"]) for cell in self.cells]
        return SCRIPT.format("\n".join(f"{command} || ended $?" for command in commands))


class SharingExecutor(PatientExecutor):
    """An executor that submits cells as shared jobs: `cell_rules` have cells, and at most `most_jobs` of them are in
    Slurm at once."""

    cell_rules: Collection[str]
    cells_per_job: int
    most_jobs: int
    in_slurm: set[str]
    to_share: dict[str, Any]
    began: dict[str, bool]  # By the number of a job, whether one of its cells had begun when it ended.
    one_by_one: Lock

    @classmethod
    def take_over(cls, executor: Any, **attributes: Any) -> None:
        super().take_over(executor, in_slurm=set(), to_share={}, one_by_one=Lock(), began={}, **attributes)
        executor.workflow.executor_settings.pass_command_as_script = True

    def run_jobs(self, jobs: Sequence[Any]) -> None:
        super().run_jobs([job for job in jobs if job.rule.name not in self.cell_rules])
        for cell in (job for job in jobs if job.rule.name in self.cell_rules):
            self.run_job_pre(cell)
            self.workflow.async_run(cell.prepare())
            Path(cell.log[0]).unlink(missing_ok=True)
            self.to_share[str(cell.output[0])] = cell
        self.submit(self.share)

    def share(self) -> None:
        """Submit the cells after a moment: those that a job has lost come one by one."""
        time.sleep(COLLECT_S)
        with self.one_by_one:
            cells = dict(self.to_share)
            self.to_share.clear()
        for paths in spread({path: Size.of_cell(cell) for path, cell in cells.items()}, self.cells_per_job):
            self.submit(self.run_job, SharedJob([cells[path] for path in paths]))

    def run_job(self, job: Any) -> None:
        with self.one_by_one:
            while self.wait and len(self.in_slurm) >= self.most_jobs:
                time.sleep(1)
            super().run_job(job)

    def format_job_exec(self, job: Any) -> str:
        return job.script if isinstance(job, SharedJob) else str(super().format_job_exec(job))

    def report_job_submission(self, info: Any, register_job: bool = True) -> None:
        self.in_slurm.add(info.external_jobid)
        cells = info.job.cells if isinstance(info.job, SharedJob) else []
        for job in cells or [info.job]:
            super().report_job_submission(replace(info, job=job, aux={**info.aux, "cells": cells}), register_job)

    def report_job_error(self, info: Any, msg: str | None = None, **more: Any) -> None:
        cells = (info.aux or {}).get("cells", [])
        if isinstance(info.job, SharedJob):  # Slurm did not take it
            if not self.is_refused_for_now(info, msg):
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
        """Yield the jobs that have not ended. A cell has ended when its record is there, also while its job goes on."""
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


def _is_made(cell: Any) -> bool:
    return Path(cell.output[0]).exists()


def _has_begun(cell: Any) -> bool:
    return Path(cell.log[0]).exists()

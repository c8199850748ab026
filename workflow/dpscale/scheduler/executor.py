"""Snakemake's executor for Slurm, which here waits for what passes by itself, and can have cells share a job.

The plugin's executor forgets its jobs when their states cannot be asked, waits for ever for one that Slurm has
forgotten, fails a job that Slurm does not take at once, never ends one that was preempted, and looks less and less
often. A cell whose record is there has succeeded, however its job ended: a job takes seconds to end after that.

Cells share jobs where config/cluster.yaml has `cells_per_job`. They run one after another, each as a step of its own
with its own record and log, without Snakemake in the job. To Snakemake each is a job by itself: what was measured is
kept, and what is missing is submitted again. Of its own groups of jobs it starts every cell again where one has failed.
"""

import asyncio
import math
import re
import shlex
import time
from collections import Counter, defaultdict
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

from dpscale.errors import RecordError
from dpscale.records.files import claim_space
from dpscale.scheduler import slurm
from dpscale.scheduler.cluster import SHELL_PREFIX

TRY_AGAIN_S = 10
# A job that waits longer is named, with Slurm's reason.
LONG_WAIT_S = 300
# Looks in a row at which Slurm does not list a job, until it has forgotten that job.
LOOKS = 3
# The answers of sbatch where it may take the same job later.
PASSING = {
    re.compile(
        r"\w*(Max|Grp)SubmitJob\w*"
    ): "your account or QOS may have no more jobs in Slurm's queue ({}): the others are submitted as these end",
    re.compile(
        r"Unable to contact slurm controller|timed out|Connection refused|Zero Bytes were transmitted"
        r"|temporarily un\w+|connection failure|standby mode|Munge \w+ failed|authentication (error|credential)",
        re.IGNORECASE,
    ): "Slurm does not take jobs now ({}): they are submitted when it does",
}
# What srun says of a cell that could not begin, since Slurm went away.
LOST = r"srun: error: (Unable to confirm allocation|.* has expired)"
LOST_STARTS = 10
REFUSED = re.compile(r"The error message was '(.*?)'\.\n", re.DOTALL)
PREEMPTED = (
    "job {} was preempted: a job that comes first took its place. It is submitted again, and no attempt is counted. If "
    "that happens often, name a partition or qos in config/cluster.yaml that is not preempted"
)
SILENT = "Slurm does not say how the jobs are: they run on, and it is asked again"
NO_START = "job {} could not begin, since Slurm went away: it is submitted again, and no attempt is counted"
FULL = "nothing more is submitted: {}, then run the same command again: only what is missing is measured"
WAITING = "jobs wait in Slurm's queue, with the reason {}; expected start of the first: {start}"
FORGOTTEN = "job {} ended, and Slurm has forgotten how: what it wrote is kept, the rest is submitted again"
NOT_BEGUN = "job {} ended before all of its cells had begun: those are submitted again, and no attempt is counted"

# What the accounting says of a job that Slurm has lost, or that ended for nothing of its own.
LOST_STATES = ("", "PENDING", "RUNNING", "PREEMPTED")

SEED = 0
COLLECT_S = 1
SCRIPT = """\
failed=0
# A cell that a signal has ended takes the job with it, and so does one that Slurm did not start.
ended() {{ failed=1; if [ $1 -ge 128 ] || grep -qsE {lost} "$2"; then exit 1; fi; }}
{commands}
exit $failed"""


class ChosenNodes(set[str]):
    """The nodes that the user excluded. The plugin would add one that failed, until the end; Slurm starts nothing on it
    before it is back."""

    def add(self, node: str) -> None:
        pass


class PatientExecutor(plugin.Executor):  # type: ignore[misc]
    """An executor that waits, and says so once."""

    cell_rules: Collection[str]  # These have cells.
    already_said: set[tuple[str, ...]]
    preempted: set[str]  # The numbers of jobs, which are failed for the plugin.
    lost_starts: Counter[Any]  # By job, how often Slurm went away before it could begin.
    is_full: bool  # Whether there was no space for a record.
    next_question_s: float  # When Slurm is asked why jobs wait, on the monotonic clock.
    listed: Collection[str] | None  # The numbers of jobs in Slurm's last answer; None before the first one.
    unlisted_looks: Mapping[str, int]  # By the number of a job, looks in a row at which Slurm did not list it.
    submitting: ThreadPoolExecutor

    @classmethod
    def take_over(cls, executor: Any, **attributes: Any) -> None:
        """Make an executor one of these. Snakemake makes it before a workflow can say how."""
        vars(executor).update(
            attributes,
            already_said=set(),
            preempted=set(),
            listed=None,
            unlisted_looks={},
            lost_starts=Counter(),
            is_full=False,
            _failed_nodes=ChosenNodes(executor._failed_nodes),
            next_question_s=time.monotonic() + LONG_WAIT_S,
            submitting=ThreadPoolExecutor(2),
        )
        executor.__class__ = cls
        # Otherwise the command goes through a shell of the login node, which expands $(...) in the project's path.
        executor.workflow.executor_settings.pass_command_as_script = True
        plugin.query_job_status = partial(executor.query_job_status, plugin.query_job_status)

    def say_once(self, text: str, *words: str, start: str = "") -> None:
        if (text, *words) not in self.already_said:
            self.already_said.add((text, *words))
            self.logger.warning(text.format(*words, start=start))

    # Slurm was asked about account and partition before anything was submitted. The plugin asks again, guesses what is
    # not named, and fails the job where there is no answer.
    def get_account_arg(self, job: Any) -> Iterator[str]:
        """Yield the option that names the account. Without one Slurm charges the user's own."""
        account = job.resources.get("slurm_account")
        yield f" -A {shlex.quote(account)}" if account else ""

    def get_partition_arg(self, job: Any) -> str:
        """Return the option that names the partition. Without one Slurm takes its default."""
        return str(super().get_partition_arg(job)) if job.resources.get("slurm_partition") else ""

    def is_cell(self, job: Any) -> bool:
        return job.rule.name in self.cell_rules

    def is_made(self, job: Any) -> bool:
        """Return whether a cell has its record: complete, and of this attempt."""
        return self.is_cell(job) and Path(job.output[0]).exists()

    def run_job_pre(self, job: Any) -> None:
        """Remove what earlier attempts at a cell left behind: a record or a log that is there later is of this one."""
        super().run_job_pre(job)
        if self.is_cell(job):
            self.workflow.async_run(job.prepare())
            Path(job.log[0]).unlink(missing_ok=True)

    def run_job(self, job: Any) -> None:
        if self.is_full:
            for cell in getattr(job, "cells", [job]):
                self.workflow.scheduler.error_callback(cell)
        elif self.wait:  # not cancelled
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
        if self.is_made(info.job):
            self.report_job_success(info)
        elif info.external_jobid in self.preempted:
            self.say_once(PREEMPTED, info.external_jobid)
            self.submit_again(info.job)
        elif lost_its_start(info, self.is_cell(info.job)) and self.lost_starts[info.job] < LOST_STARTS:
            self.lost_starts[info.job] += 1
            self.say_once(NO_START, info.external_jobid)
            self.submit_again(info.job)
        elif not self.is_refused_for_now(info, msg):
            if info.external_jobid is None:
                keep_words(info.job, msg or "")
            super().report_job_error(info, msg, **more)
            self.end_without_space(info.job)

    def end_without_space(self, job: Any) -> None:
        """Submit nothing more, and let what runs end, where a cell failed and no record can be written."""
        try:
            if self.is_cell(job) and not self.is_full:
                claim_space(Path(job.output[0]).parent).close()
        except RecordError as error:
            self.is_full = True
            self.say_once(FULL, str(error))
            self.workflow.scheduler.exit_gracefully()

    async def check_active_jobs(self, active_jobs: Sequence[Any]) -> AsyncIterator[Any]:
        """Yield the jobs that have not ended. The plugin waits for ever for one that Slurm has forgotten: after an
        outage that was longer than MinJobAge, or where this process was suspended."""
        self.listed = None
        waiting = [info async for info in super().check_active_jobs(active_jobs)]
        self.say_what_waits()
        if self.listed is not None:
            unlisted = {info.external_jobid for info in waiting}.difference(self.listed)
            self.unlisted_looks = {number: self.unlisted_looks.get(number, 0) + 1 for number in unlisted}
        for info in waiting:
            if self.unlisted_looks.get(info.external_jobid, 0) < LOOKS:
                yield info
            else:
                self.report_forgotten(info)

    def say_what_waits(self) -> None:
        """Say every reason of Slurm for which jobs wait once, when they have waited for minutes."""
        if time.monotonic() >= self.next_question_s:
            self.next_question_s = time.monotonic() + LONG_WAIT_S
            for reason, start in slurm.reasons_to_wait(self.run_uuid).items():
                self.say_once(WAITING, reason, start=start)

    def report_forgotten(self, info: Any) -> None:
        """Report how a job ended that squeue does not list: by its record, then by the accounting. Otherwise it is
        submitted again, and no attempt is counted."""
        state = slurm.state_in_accounting(info.external_jobid)
        if state == "COMPLETED" or self.is_made(info.job):
            self.report_job_success(info)
        elif state in LOST_STATES:
            self.say_once(FORGOTTEN, info.external_jobid)
            self.submit_again(info.job)
        else:
            self.report_job_error(info, f"SLURM status is: '{state}'")

    async def query_job_status(self, ask: Any, command: str, logger: Any) -> tuple[dict[str, str], float]:
        """Return the states of jobs and how long it took to ask for them. No answer is no news; to the plugin it would
        be the end of all jobs. To it a job has failed that was preempted."""
        states, took_s = await ask(command, logger)
        if states is None:
            self.say_once(SILENT)
        else:
            self.listed = states.keys()
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


def lost_its_start(info: Any, is_cell: bool) -> bool:
    """Return whether a job failed since Slurm went away before it could begin. A cell may be a step of its own."""
    logs = [(info.aux or {}).get("slurm_logfile"), *(Path(log) for log in info.job.log if is_cell)]
    return any(log and log.exists() and re.search(LOST, log.read_text(errors="replace")) for log in logs)


def keep_words(job: Any, refusal: str) -> None:
    """Write why a job was not submitted into its log: it has no other."""
    words = match[1] if (match := REFUSED.search(refusal)) else refusal
    line = "; ".join(words.replace("sbatch: error: ", "").splitlines())
    for log in map(Path, job.log):
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(f"sbatch: error: {line}\n")


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
        commands = [
            f"{shlex.join(['bash', '-c', f'{SHELL_PREFIX}{cell.shellcmd}'])} || ended $? {shlex.quote(cell.log[0])}"
            for cell in self.cells
        ]
        return SCRIPT.format(lost=shlex.quote(LOST), commands="\n".join(commands))


class SharingExecutor(PatientExecutor):
    """An executor that submits cells as shared jobs, at most `most_jobs` of which are in Slurm at once."""

    cells_per_job: int
    most_jobs: int
    in_slurm: set[str]
    to_share: dict[str, Any]
    began: dict[str, bool]  # By the number of a job, whether one of its cells had begun when it ended.
    one_by_one: Lock

    @classmethod
    def take_over(cls, executor: Any, **attributes: Any) -> None:
        super().take_over(executor, in_slurm=set(), to_share={}, one_by_one=Lock(), began={}, **attributes)

    def run_jobs(self, jobs: Sequence[Any]) -> None:
        super().run_jobs([job for job in jobs if not self.is_cell(job)])
        for cell in filter(self.is_cell, jobs):
            self.run_job_pre(cell)
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
        elif (
            not self.is_made(info.job)
            and self.began.setdefault(info.external_jobid, any(map(_has_begun, cells)))
            and not _has_begun(info.job)
        ):
            self.say_once(NOT_BEGUN, info.external_jobid)
            self.submit_again(info.job)
        else:
            super().report_job_error(info, msg, **more)

    async def check_active_jobs(self, active_jobs: Sequence[Any]) -> AsyncIterator[Any]:
        """Yield the jobs that have not ended. A cell has ended when its record is there, also while its job goes on."""
        running, alive = [], set()
        for info in active_jobs:
            if info.aux["cells"] and self.is_made(info.job):
                self.report_job_success(info)
            else:
                running.append(info)
        async for info in super().check_active_jobs(running):
            alive.add(info.external_jobid)
            yield info
        self.in_slurm -= {info.external_jobid for info in active_jobs} - alive


def _has_begun(cell: Any) -> bool:
    return Path(cell.log[0]).exists()

"""Snakemake's executor for Slurm, which here waits for what passes by itself.

The plugin's executor forgets its jobs when their states cannot be asked, fails a job that Slurm does not take at once,
never ends one that was preempted, and looks less and less often.
"""

import asyncio
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import snakemake_executor_plugin_slurm as plugin

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


class PatientExecutor(plugin.Executor):  # type: ignore[misc]
    """An executor that waits, and says so once."""

    already_said: set[tuple[str, ...]]
    preempted: set[str]  # The numbers of jobs, which are failed for the plugin.
    submitting: ThreadPoolExecutor

    @classmethod
    def take_over(cls, executor: Any) -> None:
        """Make an executor one of these. Snakemake makes it before a workflow can say how."""
        executor.__class__ = cls
        pool = ThreadPoolExecutor(2)
        vars(executor).update(already_said=set(), preempted=set(), submitting=pool)
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

    def submit_later(self, job: Any) -> None:
        time.sleep(TRY_AGAIN_S)
        self.run_job(job)

    def is_refused_for_now(self, info: Any, msg: str | None) -> bool:
        """Return whether Slurm may take a job later that it has not taken. It is then submitted later."""
        for pattern, text in PASSING.items():
            if info.external_jobid is None and (match := pattern.search(msg or "")):
                self.say_once(text, match[0])
                if self.wait:
                    self.submitting.submit(self.submit_later, info.job)
                return True
        return False

    def report_job_error(self, info: Any, msg: str | None = None, **more: Any) -> None:
        if info.external_jobid in self.preempted:
            self.say_once(PREEMPTED, info.external_jobid)
            info.job.attempt -= 1  # Snakemake adds one
            self.workflow.scheduler.error_callback(info.job)
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

"""What passes by itself is waited for: Slurm that does not answer, a full queue, a job that was preempted.

Snakemake's executor for Slurm forgets its jobs when their states cannot be asked, fails a job that Slurm does not take
at once, never ends one that was preempted, and looks less and less often.
"""

import re
import time
from typing import Any

import snakemake_executor_plugin_slurm as plugin

TRY_AGAIN_S = 10
# What sbatch says where it may take the same job later.
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

# The numbers of jobs that were preempted, which are failed for the executor.
_preempted: set[str] = set()


class Patient(plugin.Executor):  # type: ignore[misc]
    """Waits, and says so once. An executor becomes one: Snakemake makes it before a workflow can say how."""

    @classmethod
    def take_over(cls, executor: Any, **more: Any) -> None:
        plugin.query_job_status = _await_answers(plugin.query_job_status)
        executor.__class__ = cls
        # Without an account Slurm charges the user's own: the executor would guess one, and warn that it cannot.
        vars(executor).update(more, said=set(), _fallback_account_arg="")

    def say_once(self, text: str, *words: str) -> None:
        if (text, *words) not in self.said:
            self.said.add((text, *words))
            self.logger.warning(text.format(*words))

    def submit_again(self, job: Any) -> None:
        """With no attempt counted."""
        job.attempt -= 1  # Snakemake adds one, and tries again
        self.workflow.scheduler.error_callback(job)

    def report_job_error(self, info: Any, msg: str | None = None, **more: Any) -> None:
        if info.external_jobid not in _preempted:
            super().report_job_error(info, msg, **more)
            return
        self.say_once(PREEMPTED, info.external_jobid)
        self.submit_again(info.job)

    def _report_job_error_threadsafe(self, info: Any, msg: str) -> None:
        """Slurm did not take a job."""
        for pattern, text in PASSING.items():
            if match := pattern.search(msg):
                self.say_once(text, match[0])
                time.sleep(TRY_AGAIN_S)
                try:
                    self._job_submission_executor.submit(self.run_job, info.job)
                    return
                except RuntimeError:  # cancelled meanwhile
                    pass
        super()._report_job_error_threadsafe(info, msg)

    def cancel(self) -> None:
        self.wait = False
        self._job_submission_executor.shutdown(wait=False, cancel_futures=True)
        super().cancel()

    @property
    def next_seconds_between_status_checks(self) -> float:
        """The executor waits 10 s longer after each check that found no job ended, up to 180 s, and has no setting for
        that. A cancelled cell would go unnoticed for so long, and the last cell of a study would end so late."""
        steady: float = self.workflow.remote_execution_settings.seconds_between_status_checks
        return min(self._next_seconds_between_status_checks or steady, steady)

    @next_seconds_between_status_checks.setter
    def next_seconds_between_status_checks(self, seconds: float) -> None:
        self._next_seconds_between_status_checks = seconds


def _await_answers(ask: Any) -> Any:
    """Take no answer for no news."""
    is_silent = False

    async def query_job_status(command: str, logger: Any) -> tuple[dict[str, str], float]:
        nonlocal is_silent
        states, took_s = await ask(command, logger)
        if states is None and not is_silent:
            logger.warning(SILENT)
        is_silent = states is None
        lost = {number for number, state in (states or {}).items() if state == "PREEMPTED"}
        _preempted.update(lost)
        return {**(states or {}), **dict.fromkeys(lost, "FAILED")}, took_s or 0.0

    return query_job_status

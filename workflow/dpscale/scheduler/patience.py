"""What passes by itself is waited for: Slurm that does not answer, a full queue, a job that was preempted.

Snakemake's executor for Slurm forgets its jobs when their states cannot be asked, fails a job that Slurm does not take
at once, and never ends one that was preempted.
"""

import re
import sys
import time
from typing import Any

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


def wait_for_what_passes(executor: Any) -> None:
    """Have the class of Snakemake's executor for Slurm wait, and say so once."""
    preempted = _await_answers(sys.modules[executor.__module__])
    report, refused, cancel = executor.report_job_error, executor._report_job_error_threadsafe, executor.cancel
    said = set()

    def report_job_error(self: Any, info: Any, msg: str | None = None, **more: Any) -> None:
        if info.external_jobid not in preempted:
            report(self, info, msg, **more)
            return
        self.logger.warning(PREEMPTED.format(info.external_jobid))
        info.job.attempt -= 1  # Snakemake adds one, and tries again
        self.workflow.scheduler.error_callback(info.job)

    def report_refusal(self: Any, info: Any, msg: str) -> None:
        found = ((text, match[0]) for pattern, text in PASSING.items() if (match := pattern.search(msg)))
        text, words = next(found, ("", ""))
        if text and text not in said:
            said.add(text)
            self.logger.warning(text.format(words))
        time.sleep(TRY_AGAIN_S if text else 0)
        try:
            if text:
                self._job_submission_executor.submit(self.run_job, info.job)
                return
        except RuntimeError:  # cancelled meanwhile
            pass
        refused(self, info, msg)

    def cancel_all(self: Any) -> None:
        self._job_submission_executor.shutdown(wait=False, cancel_futures=True)
        cancel(self)

    executor.report_job_error, executor._report_job_error_threadsafe = report_job_error, report_refusal
    executor.cancel = cancel_all


def _await_answers(plugin: Any) -> set[str]:
    """Take no answer for no news. The numbers of jobs that were preempted, which are failed for the executor."""
    ask, preempted = plugin.query_job_status, set()
    is_silent = False

    async def query_job_status(command: str, logger: Any) -> tuple[dict[str, str], float]:
        nonlocal is_silent
        states, took_s = await ask(command, logger)
        if states is None and not is_silent:
            logger.warning(SILENT)
        is_silent = states is None
        lost = {number for number, state in (states or {}).items() if state == "PREEMPTED"}
        preempted.update(lost)
        return {**(states or {}), **dict.fromkeys(lost, "FAILED")}, took_s or 0.0

    plugin.query_job_status = query_job_status
    return preempted

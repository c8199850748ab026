"""The terminal of a run of Snakemake with `--logger dpscale`: a line per cell as it ends, and per stage that fails.

Snakemake finds it through the package snakemake_logger_plugin_dpscale. Everything else that Snakemake says is in its
own log, which is named at the start.
"""

import os.path
import re
import sys
from collections.abc import Iterator
from logging import INFO, LogRecord
from pathlib import Path
from typing import TYPE_CHECKING

from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

from dpscale.records.failures import last_lines
from dpscale.records.progress import Progress
from dpscale.terminal import RED, say

if TYPE_CHECKING:
    from snakemake.workflow import Workflow

# The begin of what Snakemake says again of a job that failed, with its whole command, or of what is meant to be so.
_SAID_ALREADY = (
    "--keep-incomplete mode is set",
    "RuleException:\nCalledProcessError",
    "Exiting because a job execution failed",
    "WorkflowError:\nAt least",
)
_NOTHING_TO_DO = "Nothing to be done"
# How Slurm ended a job, such as NODE_FAIL. FAILED says no more than the log does.
_STATUS = re.compile(r"SLURM status is: '(?!FAILED)(\w+)'")


def follow(workflow: "Workflow", progress: Progress) -> None:
    """Give the handler of this run, where it has ours, its progress; at its start, when the jobs are known."""
    for handler in workflow.logger_manager.get_log_handlers():
        if isinstance(handler, LogHandler):
            handler.follow(progress, workflow.logger_manager.get_logfile())


class LogHandler(LogHandlerBase):
    """A handler that says nothing of a dry run, which Snakemake describes itself."""

    has_filter = has_formatter = True
    writes_to_file = needs_rulegraph = False

    def __post_init__(self) -> None:
        self._progress: Progress | None = None
        self._outputs: dict[int, list[str]] = {}

    @property
    def writes_to_stream(self) -> bool:
        return not self.common_settings.dryrun

    def follow(self, progress: Progress, logs: list[str]) -> None:
        self._progress = progress
        say("; ".join([progress.standing(), *(f"full log: {os.path.relpath(log)}" for log in logs)]), sys.stderr)

    def emit(self, record: LogRecord) -> None:
        if self.common_settings.dryrun:
            return
        try:
            for line in self._lines(record):
                say(line, sys.stderr, RED if record.levelno > INFO else "", indent="    ")
        except Exception:
            self.handleError(record)

    def _lines(self, record: LogRecord) -> Iterator[str]:
        """Yield the lines that say a message of Snakemake to a reader."""
        message = vars(record)
        event = message.get("event")
        if event == LogEvent.JOB_INFO:
            self._outputs[message["jobid"]] = message["output"]
            if self._progress and message["output"]:
                self._progress.begin(message["output"][0])
        elif event == LogEvent.JOB_FINISHED:
            if line := self._cell_at(self._outputs[message["job_id"]]):
                yield line
        elif event == LogEvent.JOB_ERROR:
            line = self._cell_at(message["output"]) or _failed(message["rule_name"], message["log"])
            status = _STATUS.search(message["rule_msg"] or "")
            yield f"{line}; Slurm: {status[1]}" if status else line
        elif _is_worth_saying(record):
            yield record.getMessage()

    def _cell_at(self, outputs: list[str]) -> str:
        return self._progress.end(outputs[0]) if self._progress and outputs else ""


def _failed(rule: str, logs: list[str]) -> str:
    """Return the line of a stage that failed, with the last line of its log."""
    # The last line of Slurm's own log, which comes second, is Snakemake's, which gives no reason.
    lines = [line for log in logs for line in last_lines(Path(log))[-1:]]
    reasons = [line.removeprefix("Error: ") for line in lines[:1]]
    return "; ".join([f"{rule}: failed", *reasons, f"log: {', '.join(map(os.path.relpath, logs))}"])


def _is_worth_saying(record: LogRecord) -> bool:
    message = record.getMessage()
    return message.startswith(_NOTHING_TO_DO) or (record.levelno > INFO and not message.startswith(_SAID_ALREADY))

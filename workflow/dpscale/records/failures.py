"""Cells that failed, by their logs. The last lines of logs go into tables and pages, which people publish: what is
private is removed here, where the logs are read."""

import re
from dataclasses import dataclass
from pathlib import Path

from dpscale.plan.cells import AnyCell
from dpscale.plan.study import DATASET_MANIFEST
from dpscale.records.redaction import without_private
from dpscale.regular_files import read_end

LOG_LINES = 20
LINE_CHARACTERS = 300
LOG_BYTES = 1_000_000  # of a log's end, that are read

# Where Snakemake's executor for Slurm leaves the logs of jobs that failed, relative to the project's folder.
SLURM_LOGS = Path(".snakemake/slurm_logs")

# How the last line of a log begins where a cell, or making the dataset, succeeded.
RECORD_WRITTEN = "record: "
DATASET_MADE = "dataset: "

# What Slurm says of a job that it ended itself, such as
# slurmstepd-gn1: error: *** JOB 7 ON gn1 CANCELLED AT 2026-11-20T12:00:00 DUE TO TIME LIMIT ***
_MEMORY = re.compile(r"oom.kill|exceeded .*memory limit", re.IGNORECASE)
_ENDED_BY_SLURM = re.compile(rf"error: (\*\*\* (?:JOB|STEP) .*\*\*\*|.*(?:{_MEMORY.pattern}).*)", re.IGNORECASE)
# Where Slurm says no more than that: someone cancelled the job, or srun ended the step since a launcher had failed,
# which newer versions of Slurm say.
_CANCELLED = re.compile(r"CANCELLED AT \S+ (DUE TO (TASK FAILURE|SIGNAL \w+) )?\*\*\*$", re.IGNORECASE)
# What a cell says of an end that came from outside.
_STOPPED = re.compile(r"SIGTERM|SIGHUP|was stopped")
# The last line of a traceback.
_RAISED = re.compile(r"[A-Za-z_][\w.]*(Error|Exception): .")
# Lines of Slurm itself in a log that is otherwise Snakemake's.
_SLURMS_OWN = re.compile(r"(slurm|srun|sbatch)[\w.-]*: ")
# What a job's log has that failed before its cell began. Without it, the cell is about to begin.
_FAILED_EARLY = re.compile(r"error|exception|failed|not found|denied", re.IGNORECASE)


@dataclass(frozen=True)
class Failure:
    """Why a cell has no record: its state, the reason in one line, and the last lines of the logs that say so.

    A cell has `failed` where its log says so, or where Slurm ended it. Otherwise it is `unfinished`: it was killed, or
    it is still running.
    """

    state: str
    reason: str
    log: str


def find_failure(results: Path, cell: AnyCell) -> Failure | None:
    """Return how the last attempt at `cell` ended. None where there was no attempt, or where it succeeded."""
    log = (results / "logs" / cell.path).with_suffix(".log")
    slurm_log = _slurm_log(results, cell, since=log)
    lines = last_lines(log)
    # A cell on several nodes is a step of its own: what Slurm says of it stands in the cell's log.
    own_lines, of_step = (
        [line for line in lines if bool(_SLURMS_OWN.match(line)) is slurms] for slurms in (False, True)
    )
    if own_lines and own_lines[-1].startswith(RECORD_WRITTEN):
        own_lines = []  # of an earlier attempt, whose record is gone
    # Where the cell wrote no line, all of Slurm's log is of interest. Otherwise only Slurm's own lines are.
    slurm_lines = [*of_step, *(last_lines(slurm_log, _SLURMS_OWN if own_lines else None) if slurm_log else [])]
    if not own_lines and not slurm_lines:
        return None
    parts = [_part(path, lines) for path, lines in ((log, own_lines), (slurm_log, slurm_lines)) if path and lines]
    return Failure(*_state_and_reason(own_lines, slurm_lines), "\n\n".join(parts))


def find_dataset_failure(results: Path) -> Failure | None:
    """Return why no cell could start, where the reason is that the dataset could not be made."""
    log = results / "logs/dataset.log"
    lines = last_lines(log)
    if (results / DATASET_MANIFEST).exists() or not lines or lines[-1].startswith(DATASET_MADE):
        return None
    return Failure("failed", f"the dataset was not made: {lines[-1]}", _part(log, lines))


def _part(log: Path, lines: list[str]) -> str:
    return "\n".join([f"{without_private(str(log))}:", *lines])


def ended_by_slurm(line: str) -> str:
    """Return the end of a job that Slurm ended itself, as a line of its log says it; empty for any other line."""
    ended = _ENDED_BY_SLURM.search(line)
    memory = "out of host memory: " if _MEMORY.search(line) else ""
    return f"ended by Slurm: {memory}{ended[1].strip('* ')}" if ended else ""


def _state_and_reason(own_lines: list[str], slurm_lines: list[str]) -> tuple[str, str]:
    """Return Slurm's reason where Slurm ended the job, otherwise the error in the log, or its last line.

    A launcher that fails makes srun cancel those of the other nodes: a cause that the cell names comes first then.
    """
    errors = [line for line in own_lines if line.startswith("Error: ")]
    causes = [line for line in errors if not _STOPPED.search(line)]
    endings = [line for line in slurm_lines if ended_by_slurm(line) and not (causes and _CANCELLED.search(line))]
    if endings:
        return "failed", ended_by_slurm(min(endings, key=lambda line: bool(_CANCELLED.search(line))))
    if not own_lines:
        # Snakemake's own last words give no reason.
        reasons = [line for line in slurm_lines if line.startswith("srun: error: ")] or slurm_lines
        return "failed" if any(map(_FAILED_EARLY.search, slurm_lines)) else "unfinished", reasons[-1]
    if errors:
        raised = [line for line in own_lines if _RAISED.match(line)]
        reason = (causes or errors)[-1]
        return "failed", reason.replace("; see its traceback above", f": {raised[-1]}") if raised else reason
    return "unfinished", f"killed, or still running: its log ends with: {own_lines[-1]}"


def _slurm_log(results: Path, cell: AnyCell, since: Path) -> Path | None:
    """Return Slurm's log of the newest job that was to make this record, and not that of another study's cell.

    Jobs of other studies have the same names, and a job that failed early names no record at all. The log must not be
    older than the cell's own log `since`: otherwise the last attempt was made without Slurm. An empty one says nothing
    of that: Snakemake makes it when a job has failed.
    """
    wildcards = "_".join(str(value) for name, value in cell.coordinates.items() if name != "nodes")
    folder = SLURM_LOGS / f"rule_{cell.rule}" / wildcards
    oldest = since.stat().st_mtime if since.exists() and since.stat().st_size else 0.0
    logs = filter(Path.is_file, folder.glob("*.log"))
    for path in sorted(logs, key=lambda path: path.stat().st_mtime, reverse=True):
        text = read_end(path, LOG_BYTES).decode(errors="replace")
        if path.stat().st_mtime >= oldest and (f"{results.name}/{cell.path}" in text or cell.path not in text):
            return path
    return None


def last_lines(log: Path, only: re.Pattern[str] | None = None) -> list[str]:
    """Return the last lines of a log that are not blank (and match `only`), each cut to a readable length.

    Secrets are removed before the cut: a token cut in two would not be recognised.
    """
    try:
        lines = read_end(log, LOG_BYTES).decode(errors="replace").splitlines()
    except FileNotFoundError:
        return []
    except OSError as error:
        lines = [f"(it cannot be read: {error.strerror})"]
    wanted = [line[: 10 * LINE_CHARACTERS] for line in lines if line.strip() and (only is None or only.match(line))]
    return [without_private(line)[:LINE_CHARACTERS].rstrip() for line in wanted[-LOG_LINES:]]

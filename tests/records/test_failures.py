"""Reasons of cells that have no record, from their logs."""

import os
import re
from pathlib import Path

import pytest

from dpscale.plan.cells import CollectivesCell, Configuration, TimingCell
from dpscale.records.failures import (
    LINE_CHARACTERS,
    LOG_LINES,
    SLURM_LOGS,
    Failure,
    find_failure,
)

CELL = TimingCell(Configuration("ddp", 2, 64), 1)
RESULTS = Path("results/s")
# As Slurm 22.05 writes them.
CANCELLED = "slurmstepd-gn1: error: *** JOB 47 ON gn1 CANCELLED AT 2026-11-20T13:33:56 ***"
TIME_LIMIT = "slurmstepd-gn1: error: *** JOB 48 ON gn1 CANCELLED AT 2026-11-20T13:33:56 DUE TO TIME LIMIT ***"
# As newer ones write it, where srun has --kill-on-bad-exit.
TASK_FAILURE = "slurmstepd: error: *** JOB 49 ON gn1 CANCELLED AT 2026-04-29T23:36:37 DUE TO TASK FAILURE ***"
SIGNAL = TASK_FAILURE.replace("TO TASK FAILURE", "to SIGNAL Terminated")


@pytest.fixture(autouse=True)
def project_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(path: Path, text: str, modified_s: float = 1e9) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (modified_s, modified_s))
    return path


def own_log(text: str) -> Path:
    return write(RESULTS / "logs/cells/ddp/gpus-2/batch-64/run-1.log", text)


def slurm_log(text: str, number: int = 48, study: str = "s") -> Path:
    header = f"Building DAG of jobs...\n    output: results/{study}/{CELL.path}\n"
    return write(SLURM_LOGS / f"rule_time/ddp_2_64_1/{number}.log", header + text, modified_s=1e9 + number)


def failure_of(results: Path = RESULTS) -> Failure:
    failure = find_failure(results, CELL)
    assert failure, "no failure was found"
    return failure


def test_a_cell_that_was_never_tried_has_no_failure() -> None:
    own_log("Error: of the timing cell\n")
    assert find_failure(RESULTS, CollectivesCell(2, 1)) is None


@pytest.mark.parametrize(
    ("errors", "ending", "reason"),
    [
        (["Error: node 1 (gn2) has gone", "Error: stopped by SIGTERM"], CANCELLED, "Error: node 1 (gn2) has gone"),
        (["Error: worker 2 of 4 ended with exit code 1"], TASK_FAILURE, "Error: worker 2 of 4 ended"),
        (["Error: worker 2 of 4 ended with exit code 1"], SIGNAL, "Error: worker 2 of 4 ended"),
        (["Error: stopped by SIGTERM"], TASK_FAILURE, "ended by Slurm: STEP 49.0"),
        (["Error: node 1 (gn2) was stopped", "Error: stopped by SIGTERM"], CANCELLED, "ended by Slurm: STEP 47.0"),
        (["Error: worker 0 of 4 was killed by SIGTERM"], CANCELLED, "ended by Slurm: STEP 47.0"),
        (["Error: worker 0 of 4 was killed by SIGKILL"], TIME_LIMIT, "ended by Slurm: STEP 48.0"),
    ],
)
def test_srun_cancels_a_step_whose_launcher_failed(errors: list[str], ending: str, reason: str) -> None:
    """A cause that the cell names comes before Slurm's line, in either order, unless it was stopped from outside."""
    step = re.sub(r"JOB (\d+)", r"STEP \1.0", ending)
    for lines in ([*errors, step], [step, *errors]):
        own_log("\n".join(["12:00:01 warm-up epoch 1", *lines]))
        assert failure_of().state == "failed"
        assert failure_of().reason.startswith(reason)


def test_a_record_that_was_deleted_is_no_failure() -> None:
    own_log(f"compute: epochs of 1.0 s\nrecord: {RESULTS}/{CELL.path}\n")
    assert find_failure(RESULTS, CELL) is None


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (CANCELLED, "ended by Slurm: JOB 47 ON gn1 CANCELLED AT 2026-11-20T13:33:56"),
        (
            f"{CANCELLED}\nslurmstepd: error: Detected 1 oom-kill event(s) in StepId=9.0.",
            "ended by Slurm: out of host memory: Detected 1 oom-kill event(s) in StepId=9.0.",
        ),
    ],
)
def test_what_slurm_ended_has_slurms_reason(line: str, reason: str) -> None:
    own_log("12:00:01 warm-up epoch 1\nError: stopped by SIGTERM\n")
    path = slurm_log(f"Select jobs to execute...\n{line}\n")
    failure = failure_of()
    assert failure.reason == reason
    assert failure.log.endswith(f"Error: stopped by SIGTERM\n\n{path}:\n{line}")


def test_where_the_cell_never_spoke_all_of_slurms_log_counts() -> None:
    refused = "srun: error: Unable to create step for job 68: Invalid generic resource (gres) specification"
    slurm_log(f"{refused}\nWorkflowError:\nAt least one job did not complete successfully.\n")
    failure = failure_of()
    assert failure.reason == refused
    assert "Building DAG of jobs" in failure.log


def test_a_job_that_failed_before_it_named_its_record_counts() -> None:
    path = write(
        SLURM_LOGS / "rule_time/ddp_2_64_1/48.log", "slurm_script: 4: /opt/python: not found\n", modified_s=2e9
    )
    failure = failure_of()
    assert (failure.state, failure.reason) == ("failed", "slurm_script: 4: /opt/python: not found")
    own_log(f"record: {RESULTS}/{CELL.path}\n")  # an earlier attempt went well, and its record was deleted
    assert failure_of().log == f"{path}:\nslurm_script: 4: /opt/python: not found"


def test_the_newest_job_of_this_study_counts() -> None:
    own_log("Error: stopped by SIGTERM\n")
    slurm_log(CANCELLED, number=47)
    slurm_log(TIME_LIMIT, number=48)
    slurm_log("slurmstepd: error: *** JOB 49 ON gn1 CANCELLED ***", number=49, study="other")
    assert failure_of().reason.endswith("DUE TO TIME LIMIT")


def test_an_attempt_without_slurm_that_came_later_counts_alone() -> None:
    slurm_log(TIME_LIMIT)
    os.utime(own_log("Error: stopped after 5 s\n"), (2e9, 2e9))
    assert failure_of().reason == "Error: stopped after 5 s"


def test_an_empty_log_that_came_later_is_no_attempt() -> None:
    slurm_log("slurmstepd: error: Exceeded job memory limit\n")
    os.utime(own_log(""), (2e9, 2e9))
    assert "out of host memory" in failure_of().reason


def test_long_logs_are_cut() -> None:
    own_log("\n".join(f"{number} " + "x" * 1000 for number in range(100)))
    lines = failure_of().log.splitlines()[1:]
    assert len(lines) == LOG_LINES
    assert lines[-1].startswith("99 ")
    assert all(len(line) == LINE_CHARACTERS for line in lines)


def test_what_is_private_is_in_neither_reason_nor_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/gpfs/people/alice")
    token = "ghp_" + "a1B2" * 9
    own_log(
        "reading /gpfs/people/alice/x, /home/bob/y and /fast/alice/z\n"
        f"{'x' * (LINE_CHARACTERS - 10)} {token}\n"
        f"Error: login as alice@login1 with password=hunter2 failed in results/{CELL.path}\n"
    )
    failure = failure_of()
    assert failure.reason == f"Error: login as [user]@login1 with password=[secret] failed in results/{CELL.path}"
    assert "reading [home]/x, [home]/y and /fast/[user]/z" in failure.log
    assert "ghp_" not in failure.log
    assert not re.search("alice|bob|hunter2", failure.log)


@pytest.mark.parametrize(
    ("line", "state"),
    [
        ("srun: cluster configuration lacks support for cpu binding", "unfinished"),
        ("/bin/sh: singularity: command not found", "failed"),
    ],
)
def test_a_job_whose_cell_has_not_begun_has_failed_only_where_its_log_says_so(line: str, state: str) -> None:
    slurm_log(f"{line}\n")
    assert (failure_of().state, failure_of().reason) == (state, line)

"""Reasons of cells that have no record, from their logs; and the words that are removed before logs are published."""

import os
import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpscale.plan.cells import CollectivesCell, Configuration, TimingCell
from dpscale.records.failures import (
    HOME,
    LINE_CHARACTERS,
    LOG_LINES,
    SLURM_LOGS,
    USER,
    Failure,
    find_dataset_failure,
    find_failure,
    redacted,
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


def test_what_slurm_says_of_a_cell_on_several_nodes_is_no_line_of_the_cell() -> None:
    """Its step is a part of the job: what Slurm says of it stands in the cell's own log, behind the reason."""
    lost_node = "Error: node 1 (gn2) has gone"
    own_log(f"12:00:01 warm-up epoch 1\n{lost_node}\nsrun: error: gn1: task 0: Exited with exit code 1\n")
    assert (failure_of().state, failure_of().reason) == ("failed", lost_node)


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


def test_the_last_line_is_the_reason() -> None:
    path = own_log("12:00:01 warm-up epoch 1\n\nError: stopped after 5 s\n")
    failure = failure_of()
    assert (failure.state, failure.reason) == ("failed", "Error: stopped after 5 s")
    assert failure.log == f"{path}:\n12:00:01 warm-up epoch 1\nError: stopped after 5 s"


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


def test_where_the_dataset_was_not_made_that_is_the_reason() -> None:
    assert find_dataset_failure(RESULTS) is None
    log = write(RESULTS / "logs/dataset.log", "Error: data: no CIFAR-10 there\n")
    failure = find_dataset_failure(RESULTS)
    assert failure
    assert (failure.state, failure.reason) == ("failed", "the dataset was not made: Error: data: no CIFAR-10 there")
    assert failure.log == f"{log}:\nError: data: no CIFAR-10 there"
    manifest = write(RESULTS / "dataset/manifest.json", "{}")
    assert find_dataset_failure(RESULTS) is None
    manifest.unlink()
    write(log, "dataset: results/s/dataset, 512 training and 0 test images from synthetic\n")
    assert find_dataset_failure(RESULTS) is None, "it was made and deleted"


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


GITHUB = "ghp_" + "a1B2" * 9
NAMES = st.from_regex(r"[a-z][a-z0-9_-]{2,15}", fullmatch=True)
HOME_OF_ROOT = "/root"
WORDS = st.text(alphabet="abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", min_size=1, max_size=40)


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("FileNotFoundError: '/home/alice/cifar-10/x.npy'", "FileNotFoundError: '[home]/cifar-10/x.npy'"),
        ("FileNotFoundError: '/Users/Jane Doe/x.npy'", "FileNotFoundError: '[home]/x.npy'"),
        (f'  File "{HOME_OF_ROOT}/dpscale/cli.py", line 3, in main', '  File "[home]/dpscale/cli.py", line 3, in main'),
        (f"cd {HOME_OF_ROOT} && ls {HOME_OF_ROOT}/x /rootfs/x", "cd [home] && ls [home]/x /rootfs/x"),
        ("PYTHONPATH=/home/alice/a:/gpfs/fs1/home/bob/b", "PYTHONPATH=[home]/a:[home]/b"),
        ("gcc -I/home/alice/include -L/home/alice/lib", "gcc -I[home]/include -L[home]/lib"),
        ("no space left: /scratch/ab1234/results", "no space left: /scratch/[user]/results"),
        ("cache in file:///home/alice/x", "cache in file:[home]/x"),
        ("../../home/alice/x, ~bob/y and ~/z", "..[home]/x, [home]/y and ~/z"),
        ("scp alice@login1.example.org:/home/alice/x .", "scp [user]@login1.example.org:[home]/x ."),
        (f"remote: {GITHUB} expired", "remote: [secret] expired"),
        (f"https://{GITHUB}@github.com/a/b", "https://[secret]@github.com/a/b"),
        ("github_pat_" + "A1_b" * 10, "[secret]"),
        ("hf_" + "AbCd" * 8, "[secret]"),
        ("aws AKIAIOSFODNN7EXAMPLE", "aws [secret]"),
        ("AWS_SECRET_ACCESS_KEY=wJalr/K7+x", "AWS_SECRET_ACCESS_KEY=[secret]"),
        ("Authorization: Bearer abc.def-123", "Authorization: Bearer [secret]"),
        ("password=hunter2, next", "password=[secret], next"),
        ('{"password": "a b", "epochs": 3}', '{"password": [secret], "epochs": 3}'),
        ("--api-key 12345 --epochs 3", "--api-key [secret] --epochs 3"),
        ("GET /x?token=abc&y=1", "GET /x?token=[secret]&y=1"),
        ("postgres://me:p@ss@db/x", "postgres://[secret]@db/x"),
        ("password='unfinished bus", "password=[secret]"),
    ],
)  # fmt: skip
def test_what_is_private_is_a_word_in_brackets(line: str, shown: str) -> None:
    assert redacted(line) == shown


@pytest.mark.parametrize(
    "line",
    [
        "commit 4be1f0c24be1f0c24be1f0c24be1f0c24be1f0c2, dirty",
        "GPU-0a1b2c3d-0000-4000-8000-0123456789ab",
        "results/tiny/cells/ddp/gpus-2/batch-64/run-1.json",
        "results/home/scratch/x: ./home/y",
        "slurmstepd-gn1: error: *** JOB 47 ON gn1 CANCELLED AT 2026-11-20T13:33:56 DUE TO TIME LIMIT ***",
        "undefined symbol: memcpy@@GLIBC_2.14, package@1.2.3, @torch.no_grad()",
        "see https://pytorch.org/docs/stable/home/index.html",
        "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 139.80 GiB",
        "12:00:01 warm-up epoch 1: 3.2 s, 512 tokens: no secrets",
    ],
)
def test_what_says_what_happened_stays(line: str) -> None:
    assert redacted(line, home="/home/alice") == line


def test_the_home_of_who_runs_this_can_be_anywhere() -> None:
    line = "open /gpfs/people/alice/x and /fast/alice/y, /gpfs/people/alice2/z, in results/alice/run-1.json"
    shown = "open [home]/x and /fast/[user]/y, /gpfs/people/alice2/z, in results/[user]/run-1.json"
    assert redacted(line, home="/gpfs/people/alice/") == shown


def test_the_name_of_who_runs_this_is_taken_out_as_a_word() -> None:
    line = "error: User alice (uid=1000(alice), alice's job on alice-laptop) malice alice2 palice.py"
    shown = "error: User [user] (uid=1000([user]), [user]'s job on [user]-laptop) malice alice2 palice.py"
    assert redacted(line, home="/home/alice") == shown
    assert redacted("user user@host", home="/home/user") == "[user] [user]@host"


@pytest.mark.parametrize("home", ["", "/", HOME_OF_ROOT, "~"])
def test_a_home_that_is_nobodys_hides_no_other_path(home: str) -> None:
    line = f"/usr/lib{HOME_OF_ROOT}/x ~/y"
    assert redacted(line, home) == line


@given(name=NAMES, folder=st.sampled_from(["/home", "/Users", "/gpfs/u/home", "/scratch", "/mnt/scratch"]), file=WORDS)
def test_no_user_name_is_left_in_a_path(name: str, folder: str, file: str) -> None:
    for line in (f"{folder}/{name}/{file}", f"at '{folder}/{name}': {file}", f"x={folder}/{name}:{folder}/{name}"):
        assert f"/{name}" not in redacted(line)
        assert HOME in redacted(line) or USER in redacted(line)


PIECES = ["/home/", "alice", "token", "bearer ", "://", "x9", "\n", *"@=:'\" /~.[]-"]


@given(st.text(max_size=200) | st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
def test_lines_stay_lines(text: str) -> None:
    assert redacted(text, home="/p/q/alice").count("\n") == text.count("\n")


@pytest.mark.slow
@pytest.mark.parametrize("piece", ["a", "a-", "/a", "token", "a.b+", "'/", "~a", "://a:", "--x ", "eyJ", "sk-proj-"])
def test_a_very_long_line_takes_no_time(piece: str) -> None:
    started = time.perf_counter()
    redacted(piece * (300_000 // len(piece)))
    assert time.perf_counter() - started < 5

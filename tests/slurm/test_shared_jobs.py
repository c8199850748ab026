"""Cells that share a job: what a job that is killed loses, and what is measured again."""

import os
import signal
from collections.abc import Callable
from contextlib import suppress

import pytest

from project import wait_for
from slurm_project import GPU_JOBS, SlurmProject, read

BATCHES = [4, 8, 16, 32]


def cancelled(project: SlurmProject, job: dict[str, str]) -> None:
    project.slurm.run("scancel", job["JobId"])


def killed(project: SlurmProject, job: dict[str, str]) -> None:
    for process in project.slurm.processes_on(job["NodeList"]):
        with suppress(ProcessLookupError):  # it has ended with one that was killed before
            os.kill(process.pid, signal.SIGKILL)


@pytest.mark.parametrize("end", [cancelled, killed])
def test_a_job_that_is_killed_loses_the_cell_in_it_alone(
    project: SlurmProject, end: Callable[[SlurmProject, dict[str, str]], None]
) -> None:
    project.configure_cluster(**GPU_JOBS, cells_per_job=10)
    project.change_study(strategies=["single"], gpus=[1], batch_per_gpu=BATCHES, runs=1, cell_timeout_s=600)
    logs = [project.folder / f"results/tiny/logs/cells/single/gpus-1/batch-{batch}/run-1.log" for batch in BATCHES]

    def warm() -> int:
        return sum("warm-up epoch 2:" in log.read_text() for log in logs if log.exists())

    project.endless(epochs=40)
    snakemake = project.start("--until", "time")
    wait_for(lambda: warm() == 1)
    project.endless()
    wait_for(lambda: warm() == 2)
    project.endless_no_more()
    (job,) = project.jobs("time")
    assert job["TimeLimit"] == "01:20:00"  # what the four have together: 10 minutes each, and 10 to start
    before = {path: path.read_bytes() for path in project.records() if "batch-64" not in str(path)}
    assert len(before) == 1
    end(project, job)
    assert snakemake.wait(240) == 0, project.output
    (again,) = project.jobs("time")[1:]
    assert again["TimeLimit"] == "01:10:00"  # the cell that was killed has twice its own
    (path,) = before
    assert before[path] == path.read_bytes()
    records = [read(path) for path in project.records() if "batch-64" not in str(path)]
    assert len(records) == len(BATCHES)
    assert {record["provenance"]["job_id"] for record in records} == {job["JobId"], again["JobId"]}
    assert "ended before all of its cells had begun" in " ".join(project.log.read_text().split())
    assert project.log.read_text().count("failed: ") == 1

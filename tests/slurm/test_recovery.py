"""What goes wrong under `snakemake --profile slurm`, and how a study goes on from there."""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress

import pytest

from processes import running_in
from project import wait_for
from slurm_project import SlurmProject, changed_configuration, read
from throwaway_slurm import ThrowawaySlurm


@pytest.fixture
def forgetful(slurm: ThrowawaySlurm) -> Iterator[None]:
    """Jobs that ended are forgotten after 100 s, as on a busy cluster; Snakemake must not turn to sacct for that."""
    with changed_configuration(slurm, "MinJobAge=3600", "MinJobAge=100"):
        yield


def test_a_cancelled_cell_is_noticed_and_tried_again(project: SlurmProject, forgetful: None) -> None:
    project.hurried = False
    snakemake = project.start_a_cell()
    (job,) = project.jobs("time")
    project.endless_no_more()
    project.slurm.run("scancel", job["JobId"])
    wait_for(lambda: "Slurm: CANCELLED" in project.log.read_text())
    assert snakemake.wait(240) == 0, project.output
    assert [job["JobState"] for job in project.jobs("time")] == ["CANCELLED", "COMPLETED"]
    assert read(project.record())["status"] == "ok"


def test_ctrl_c_cancels_the_jobs_and_the_next_run_goes_on(project: SlurmProject) -> None:
    snakemake = project.start_a_cell()
    os.killpg(snakemake.pid, signal.SIGINT)
    assert snakemake.wait(240) != 0
    wait_for(lambda: not project.alive())
    project.endless_no_more()
    assert project.run("--until", "time")["time"] == 1


def test_after_snakemake_was_killed_its_jobs_are_neither_lost_nor_measured_twice(project: SlurmProject) -> None:
    """The recovery that docs/cluster.md describes."""
    snakemake = project.start_a_cell(epochs=250)
    snakemake.kill()
    snakemake.wait()
    (job,) = project.alive()
    # Held, so that it cannot end while the next runs start, however fast the machine.
    assert project.slurm.run("scontrol", "suspend", job["JobId"]).returncode == 0

    refused = project.snakemake()
    assert refused.returncode != 0
    assert f"in this folder are still there: {job['JobId']} suspended" in refused.stdout
    assert len(project.jobs()) == 1

    assert project.slurm.run("scontrol", "resume", job["JobId"]).returncode == 0
    wait_for(lambda: not project.alive())
    assert [job["JobState"] for job in project.jobs()] == ["COMPLETED"]
    assert read(project.record())["provenance"]["job_id"] == job["JobId"]
    assert project.planned() == {"tables": 1, "report": 1, "all": 1}, "what it finished is kept"


def test_a_record_whose_job_died_before_snakemake_knew_is_kept(project: SlurmProject) -> None:
    """All nodes may go down at once. Snakemake has then marked the record as incomplete, which it never is."""
    record = project.record()
    content = record.read_bytes()
    project.start_a_cell()
    for process in running_in(project.folder):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    wait_for(lambda: not project.alive())
    record.write_bytes(content)
    assert project.snakemake("--unlock").returncode == 0
    assert project.planned() == {}

"""Records outlive the end of their jobs, and what passes on a cluster counts as no attempt. On a cluster of its own."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from project import Project, wait_for
from slurm_project import GPU_JOBS, SlurmProject
from throwaway_slurm import ThrowawaySlurm

# Programs give up on a controller that is away after 3 s; by default after 9.
CONFIGURATION = """\
AccountingStorageEnforce=limits,qos
EnforcePartLimits=ALL
MessageTimeout=4"""
# Programs that wait for a file before or after they do what they should.
SBATCH = """\
#!/bin/sh
/usr/bin/sbatch "$@" || exit
case "$*" in *--test-only*) touch submitting; until test -e away; do sleep 0.05; done ;; esac
"""
SRUN = """\
#!/bin/sh
touch {folder}/starting; until test -e {folder}/away-again; do sleep 0.05; done
{folder}/bin/srun-itself "$@" 2> {folder}/srun-$$
code=$?
cat {folder}/srun-$$ >&2
cat {folder}/srun-$$ >> {folder}/srun-says
exit $code
"""


@pytest.fixture(scope="module")
def faulty(slurm_is_installed: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThrowawaySlurm]:
    """One node with two GPUs, whose users have limits."""
    with ThrowawaySlurm(tmp_path_factory.mktemp("faulty"), {"gn1": ("v100", 2)}, CONFIGURATION) as slurm:
        yield slurm


Make = Callable[..., SlurmProject]


@pytest.fixture
def make(faulty: ThrowawaySlurm, finished: Project, tmp_path: Path) -> Make:
    def in_folder(folder: str = "project", **cluster: int) -> SlurmProject:
        """The tiny study, in a folder of this name, which tries and asks often."""
        project = SlurmProject.on(faulty, finished, tmp_path / folder)
        project.configure_cluster(**GPU_JOBS, **cluster)
        for name, usual_s, hurried_s in (("TRY_AGAIN_S", 10, 1), ("LONG_WAIT_S", 300, 2)):
            project.edit("scheduler/executor.py", f"{name} = {usual_s}", f"{name} = {hurried_s}")
        return project

    return in_folder


def test_a_record_outlives_its_job_and_slurms_memory_of_it(faulty: ThrowawaySlurm, make: Make) -> None:
    """Slurm ends the job after the record was written, and has forgotten it when Snakemake asks. In a folder whose name
    is a command to shells."""
    project = make("a $(touch pwned) `touch pwned`")
    content = project.record().read_bytes()
    snakemake = project.start_a_cell("--retries", "0")
    (job,) = project.jobs("time")
    os.killpg(snakemake.pid, signal.SIGSTOP)
    project.record().write_bytes(content)
    faulty.run("scancel", job["JobId"])
    wait_for(lambda: not project.alive())
    faulty.forget_jobs()
    os.killpg(snakemake.pid, signal.SIGCONT)
    assert snakemake.wait(240) == 0, project.output
    assert project.record().read_bytes() == content
    assert project.jobs() == [], "nothing was submitted again"
    assert not list(project.folder.parent.rglob("pwned"))


def said_by(project: SlurmProject, words: str) -> bool:
    return words in project.log.read_text()


@pytest.mark.parametrize(
    ("cells_per_job", "said"), [(1, "AssocGrpSubmitJobsLimit"), (10, "ended before all of its cells had begun")]
)
def test_what_passes_counts_as_no_attempt(faulty: ThrowawaySlurm, make: Make, cells_per_job: int, said: str) -> None:
    """Slurm is away when cells are first submitted and when they start, and takes one job at a time."""
    project = make(cells_per_job=cells_per_job)
    project.change_study(strategies=["single"], gpus=[1], batch_per_gpu=[4, 8], runs=1)
    (project.folder / "bin/sbatch").write_text(SBATCH)
    (project.folder / "bin/sbatch").chmod(0o755)
    (project.folder / "srun-says").touch()
    srun = project.folder / "bin/srun"
    srun.rename(srun.with_name("srun-itself"))
    srun.write_text(SRUN.format(folder=project.folder))
    srun.chmod(0o755)
    faulty.manage("modify", "account", "root", "set", "GrpSubmitJobs=1")
    try:
        snakemake = project.start("--until", "time", "--retries", "0")
        for at, away, noticed in (
            ("submitting", "away", "Slurm does not take jobs now"),
            ("starting", "away-again", "Slurm does not say how the jobs are"),
        ):
            wait_for((project.folder / at).exists)
            with faulty.away():
                (project.folder / away).touch()
                wait_for(partial(said_by, project, noticed))
                if at == "starting":  # Slurm stays away until srun gives up
                    wait_for(lambda: "srun: error" in (project.folder / "srun-says").read_text())
        assert snakemake.wait(240) == 0, project.output
    finally:
        faulty.manage("modify", "account", "root", "set", "GrpSubmitJobs=-1")
    printed = " ".join(project.log.read_text().split())
    assert said in printed
    assert "could not begin, since Slurm went away" in printed
    assert "failed: " not in printed and "Traceback" not in printed


def test_a_node_that_is_back_is_used_again_and_a_job_that_waits_is_named(faulty: ThrowawaySlurm, make: Make) -> None:
    project = make()
    snakemake = project.start_a_cell()
    project.endless_no_more()
    try:
        for state in ("DOWN", "DRAIN"):  # one that is down only comes back by itself
            faulty.run("scontrol", "update", "NodeName=gn1", f"State={state}", "Reason=test")
        wait_for(partial(said_by, project, "jobs wait in Slurm's queue"))
    finally:
        faulty.run("scontrol", "update", "NodeName=gn1", "State=RESUME")
    assert snakemake.wait(240) == 0, project.output
    assert [job["JobState"] for job in project.jobs("time")] == ["NODE_FAIL", "COMPLETED"]


def test_nothing_is_submitted_after_a_disk_was_full(make: Make) -> None:
    project = make()
    folder = project.record().parent
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", folder], check=True)
    try:
        done = project.command_line("--until", "time", "--jobs", "1")
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)
    assert done.returncode == 1
    assert len(project.jobs("time")) == 1
    assert " ".join(done.stdout.split()).count("nothing more is submitted: ") == 1
    assert "No space left on device" in done.stdout

"""What passes on a cluster is waited for, and what does not is told in a sentence. On a cluster of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from project import Project, wait_for
from slurm_project import GPU_JOBS, SlurmProject
from throwaway_slurm import ThrowawaySlurm

CONFIGURATION = """\
AccountingStorageEnforce=limits,qos
EnforcePartLimits=ALL
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill
PartitionName=urgent Nodes=ALL PriorityTier=10
PartitionName=class Nodes=ALL AllowQos=course"""


@pytest.fixture(scope="module")
def busy(slurm_is_installed: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThrowawaySlurm]:
    """One node with two GPUs, whose partitions preempt, want a QOS, and whose users have limits."""
    folder = tmp_path_factory.mktemp("busy")
    with ThrowawaySlurm(folder, {"gn1": ("v100", 2)}, configuration=CONFIGURATION) as slurm:
        slurm.manage("add", "qos", "course")
        yield slurm


@pytest.fixture
def cell(busy: ThrowawaySlurm, finished: Project, tmp_path: Path) -> SlurmProject:
    project = SlurmProject.on(busy, finished, tmp_path / "project")
    project.configure_cluster(**GPU_JOBS)
    return project


def test_a_preempted_cell_is_submitted_again_and_no_attempt_is_counted(
    busy: ThrowawaySlurm, cell: SlurmProject
) -> None:
    snakemake = cell.start_a_cell("--retries", "0")
    cell.endless_no_more()
    done = busy.run("sbatch", "--partition=urgent", "--gres=gpu:2", "--comment=other", "--wrap=true", cwd=cell.folder)
    assert done.returncode == 0, done.stderr
    assert snakemake.wait(240) == 0, cell.output
    (number, *_), states = zip(*((job["JobId"], job["JobState"]) for job in cell.jobs("time")), strict=True)
    assert states == ("PREEMPTED", "COMPLETED")
    assert {job["MinMemoryNode"] for job in cell.jobs("time")} == {"8002M"}
    assert f"job {number} was preempted" in cell.log.read_text()
    assert "failed" not in cell.log.read_text().partition("failed, ")[2]


def test_a_qos_and_a_reservation_reach_the_jobs_and_the_check_before(busy: ThrowawaySlurm, cell: SlurmProject) -> None:
    cell.record().unlink()
    gpu_jobs = {"gpu_type": "v100", "partition": "class"}
    cell.configure_cluster(**{**GPU_JOBS, "gpu_jobs": gpu_jobs})
    refused = cell.snakemake("--until", "time")
    assert "Correct config/cluster.yaml (account, qos" in refused.stdout
    assert "Invalid qos" in refused.stdout
    busy.manage("modify", "user", "root", "set", "qos+=course")
    lesson = "ReservationName=lesson Nodes=gn1 Users=root StartTime=now Duration=60"
    assert busy.run("scontrol", "create", "reservation", *lesson.split()).returncode == 0
    cell.configure_cluster(**{**GPU_JOBS, "gpu_jobs": gpu_jobs, "qos": "course", "reservation": "lesson"})
    assert cell.snakemake("--until", "time").returncode == 0
    asked = [(job["QOS"], job.get("Reservation")) for job in cell.jobs("time")]
    assert asked == [("course", "lesson")]
    busy.run("scontrol", "delete", "ReservationName=lesson")


def test_a_cell_that_slurm_ended_for_its_memory_says_so_and_is_tried_with_more(cell: SlurmProject) -> None:
    cell.edit("scheduler/cluster.py", "PROCESS_MB = 4000", "PROCESS_MB = 25")
    cell.record().unlink()
    cell.endless()
    snakemake = cell.start("--until", "time")
    wait_for(lambda: "ended by Slurm: out of host memory" in " ".join(cell.log.read_text().split()))
    cell.endless_no_more()
    snakemake.wait(240)
    assert [job["MinMemoryNode"] for job in cell.jobs("time")] == ["52M", "104M"]

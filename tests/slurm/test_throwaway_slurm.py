"""The throwaway cluster schedules, refuses, accounts and goes away as a real one must."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from throwaway_slurm import ThrowawaySlurm, processes_of

from project import wait_for

pytestmark = pytest.mark.slurm

# Neither SIGTERM nor the end of its slurmstepd ends it, and nothing in its child tells which cluster it is of.
STUBBORN = "trap '' TERM; env -i sleep 1000 & touch started; while :; do sleep 1; done"


def submit(slurm: ThrowawaySlurm, folder: Path, script: str, *options: str) -> str:
    done = slurm.run("sbatch", "--parsable", *options, "--wrap", script, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_jobs_on_one_node_get_different_gpus(slurm: ThrowawaySlurm, tmp_path: Path) -> None:
    options = ["--gres=gpu:v100:2", "--nodelist=gn2", "--output=%j.out"]
    jobs = [submit(slurm, tmp_path, "echo $CUDA_VISIBLE_DEVICES; sleep 3", *options) for _ in range(2)]
    together = [slurm.wait_for(job, "RUNNING") for job in jobs]
    assert {job["NodeList"] for job in together} == {"gn2"}
    for job in jobs:
        slurm.wait_for(job, "COMPLETED")
    devices = ",".join((tmp_path / f"{job}.out").read_text().strip() for job in jobs)
    assert sorted(devices.split(",")) == ["0", "1", "2", "3"]


def test_a_job_no_node_can_run_is_refused(slurm: ThrowawaySlurm) -> None:
    done = slurm.run("sbatch", "--gres=gpu:v100:5", "--wrap", "true")
    assert done.returncode != 0
    assert "Requested node configuration is not available" in done.stderr


def test_a_job_waits_for_gpus_that_are_in_use(slurm: ThrowawaySlurm, tmp_path: Path) -> None:
    jobs = [submit(slurm, tmp_path, "sleep 60", "--gres=gpu:v100:4") for _ in range(3)]
    assert {slurm.wait_for(job, "RUNNING")["NodeList"] for job in jobs[:2]} == {"gn1", "gn2"}
    assert next(job for job in slurm.jobs() if job["id"] == jobs[2])["state"] == "PENDING"
    slurm.run("scancel", *jobs)
    for job in jobs:
        slurm.wait_for(job, "CANCELLED")


def test_the_accounting_knows_finished_jobs(slurm: ThrowawaySlurm, tmp_path: Path) -> None:
    job = submit(slurm, tmp_path, "exit 3")
    slurm.wait_for(job, "FAILED")
    # slurmctld tells slurmdbd some seconds later.
    sacct = ["sacct", "-nPX", "--jobs", job, "--format", "State,ExitCode"]
    wait_for(lambda: slurm.run(*sacct).stdout == "FAILED|3:0\n")


def test_jobs_run_on_while_the_controller_is_down(slurm: ThrowawaySlurm, tmp_path: Path) -> None:
    job = submit(slurm, tmp_path, "sleep 2; echo survived", "--output=%j.out")
    slurm.wait_for(job, "RUNNING")
    slurm.stop_controller()
    assert slurm.run("scontrol", "ping").returncode != 0
    slurm.start_controller()
    slurm.wait_for(job, "COMPLETED")
    assert (tmp_path / f"{job}.out").read_text() == "survived\n"


def test_enforced_accounts_and_a_clean_end(own_slurm_folder: Path, slurm: ThrowawaySlurm, tmp_path: Path) -> None:
    with ThrowawaySlurm(own_slurm_folder, {"fat": ("h200", 8)}, accounts_enforced=True) as other:
        for account in ([], ["--account=chemistry"]):
            done = other.run("sbatch", *account, "--wrap", "true")
            assert "Invalid account" in done.stderr, done
        submit(other, tmp_path, STUBBORN, "--account=physics", "--gres=gpu:h200:8")
        wait_for((tmp_path / "started").exists)
        assert "sleep 1000" in other.processes().values()
    assert other.processes() == {}
    assert slurm.run("scontrol", "ping").returncode == 0, "another cluster is left alone"


def test_nothing_outlives_a_killed_test_process(own_slurm_folder: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "helpers")}
    owner = subprocess.Popen([sys.executable, "-c", OWNER, own_slurm_folder, STUBBORN], cwd=tmp_path, env=environment)
    wait_for((tmp_path / "started").exists)
    owner.kill()
    owner.wait()
    assert "sleep 1000" in processes_of(own_slurm_folder).values()
    wait_for(lambda: not processes_of(own_slurm_folder))


OWNER = """
import sys, time
from pathlib import Path
from throwaway_slurm import ThrowawaySlurm

with ThrowawaySlurm(Path(sys.argv[1])) as slurm:
    slurm.run("sbatch", "--wrap", sys.argv[2])
    time.sleep(1000)
"""

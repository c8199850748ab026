"""The throwaway cluster goes away without a trace. What a cluster does, the other tests here show of it."""

import os
import subprocess
import sys
from pathlib import Path

from project import wait_for
from stub_cell import HELPERS
from throwaway_slurm import ThrowawaySlurm, processes_of

# Neither SIGTERM nor the end of its slurmstepd ends it, and nothing in its child tells which cluster it is of.
STUBBORN = "trap '' TERM; env -i sleep 1000 & touch started; while :; do sleep 1; done"


def submit(slurm: ThrowawaySlurm, folder: Path, script: str, *options: str) -> str:
    done = slurm.run("sbatch", "--parsable", *options, "--wrap", script, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


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
    environment = {**os.environ, "PYTHONPATH": HELPERS}
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

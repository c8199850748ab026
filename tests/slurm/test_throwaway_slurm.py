"""The throwaway cluster goes away without a trace, also when its test is killed."""

import os
import subprocess
import sys
from pathlib import Path

from project import wait_for
from stub_cell import HELPERS
from throwaway_slurm import processes_of

# Neither SIGTERM nor the end of its slurmstepd ends it, and nothing in its child tells which cluster it is of.
STUBBORN = "trap '' TERM; env -i sleep 1000 & touch started; while :; do sleep 1; done"


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

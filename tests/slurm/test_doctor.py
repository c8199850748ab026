"""One small job says whether cells can run, before many of them wait."""

import subprocess
import sys

from slurm_project import GPU_JOBS, SlurmProject


def doctor(project: SlurmProject) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "dpscale", "doctor", "study.yaml"]
    return subprocess.run(words, cwd=project.folder, env=project.environment, capture_output=True, text=True)


def test_a_small_job_says_what_is_well_and_what_is_not(project: SlurmProject) -> None:
    well = doctor(project)
    asked, where, *lines = well.stdout.splitlines()
    assert well.returncode == 0, well.stderr
    assert asked.startswith("waiting for a small job: srun --nodes=1 --gres=gpu:v100:1")
    assert where.startswith("checked on ")
    assert [line.split(": ")[0] for line in lines] == ["ok", "ok", "ok"]
    project.configure_cluster(**GPU_JOBS, command_prefix="no-such-container exec")
    without_container = doctor(project)
    assert without_container.returncode != 0
    assert "no-such-container: command not found" in without_container.stderr

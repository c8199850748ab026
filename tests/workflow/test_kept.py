"""A folder has one run at a time, and what a killed one wrote is kept."""

import os
import signal
import subprocess

from project import Project, wait_for


def test_a_folder_has_one_run_and_the_lock_of_one_that_was_killed_is_taken(project: Project) -> None:
    project.record().unlink()
    project.endless()
    log = project.folder / "results/tiny/logs/cells/ddp/gpus-2/batch-64/run-1.log"
    command = project.command("--quiet", "all")
    run = subprocess.Popen(command, cwd=project.folder, env=project.environment, stderr=subprocess.DEVNULL)
    wait_for(lambda: log.exists() and "warm-up epoch" in log.read_text())
    refused = project.command_line("--logger", "dpscale")
    assert refused.returncode == 1
    assert refused.stdout.splitlines()[-1].startswith(f"Error: another run holds this folder (process {run.pid} on ")
    run.kill()
    run.wait()
    project.endless_no_more()
    done = project.command_line("--logger", "dpscale")
    assert done.returncode == 0, done.stdout
    assert f"the lock of a run that was killed is taken over: process {run.pid} on " in done.stdout
    assert project.record().exists()
    assert done.stdout.splitlines()[-1] == "page: report/tiny.html"


def test_a_record_that_was_there_when_its_run_was_killed_is_kept(project: Project) -> None:
    """Snakemake was to note its end, which takes longer than its last steps."""
    content = project.record().read_bytes()
    project.record().unlink()
    project.endless()
    log = project.folder / "results/tiny/logs/cells/ddp/gpus-2/batch-64/run-1.log"
    log.unlink()
    command = project.command("--quiet", "all")
    run = subprocess.Popen(
        command, cwd=project.folder, env=project.environment, stderr=subprocess.DEVNULL, start_new_session=True
    )
    wait_for(lambda: log.exists() and "warm-up epoch" in log.read_text())
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    project.record().write_bytes(content)
    project.endless_no_more()
    for option in ([], ["--rerun-incomplete"]):
        assert project.planned(*option) == {}

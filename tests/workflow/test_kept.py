"""A folder has one run at a time, and what a killed one wrote is kept."""

import os
import signal

from processes import running_in
from project import Project, wait_for


def test_a_folder_has_one_run_and_the_lock_of_one_that_was_killed_is_taken(project: Project) -> None:
    """SIGKILL hits Snakemake alone, as an out-of-memory killer would. It leaves neither a record nor a worker."""
    run = project.start_endless_cell()
    refused = project.snakemake("--logger", "dpscale")
    assert refused.returncode == 1
    assert refused.stdout.splitlines()[-1].startswith(f"Error: another run holds this folder (process {run.pid} on ")
    run.kill()
    run.wait()
    wait_for(lambda: not running_in(project.folder))
    assert not list(project.record().parent.glob("*run-1.json*"))
    project.endless_no_more()
    done = project.snakemake("--logger", "dpscale")
    assert done.returncode == 0, done.stdout
    assert f"the lock of a run that was killed is taken over: process {run.pid} on " in done.stdout
    assert project.record().exists()
    assert done.stdout.splitlines()[-1] == "page: report/tiny.html"


def test_a_record_that_was_there_when_its_run_was_killed_is_kept(project: Project) -> None:
    """Snakemake was to note its end, which takes longer than its last steps."""
    content = project.record().read_bytes()
    run = project.start_endless_cell()
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    project.record().write_bytes(content)
    project.endless_no_more()
    for option in ([], ["--rerun-incomplete"]):
        assert project.planned(*option) == {}

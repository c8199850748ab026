"""What Slurm would refuse, or never run, is said before anything is submitted; what fails says why."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cases import cases
from project import Project
from slurm_project import GPU_JOBS, SlurmProject, changed_configuration
from throwaway_slurm import ACCOUNTS_ENFORCED, ThrowawaySlurm


def test_more_time_than_the_partition_gives_is_said_at_once(project: SlurmProject) -> None:
    """Slurm would accept the job, and it would wait for ever."""
    project.record().unlink()
    with changed_configuration(project.slurm, "MaxTime=INFINITE", "MaxTime=100"):
        refused = project.snakemake()
    assert "attempt 2 of a job would ask for 130 min; partition all gives 1:40:00" in refused.stdout
    assert not project.jobs()


def test_a_stage_that_fails_says_its_own_reason_and_one_that_does_not_names_its_page(project: SlurmProject) -> None:
    """The last line of Slurm's own log gives no reason."""
    project.page.unlink()
    line = "    write_text(out, render"
    failing = f"    raise SystemExit('Error: no ink')\n{line}"
    project.edit("present/commands.py", line, failing)
    done = project.command_line("--retries", "0")
    assert done.returncode == 1
    printed = " ".join(done.stdout.split())
    assert "report: failed; no ink; log: results/tiny/logs/report.log" in printed
    assert "At least one job" not in printed
    project.edit("present/commands.py", failing, line)
    assert project.command_line().stdout.splitlines()[-1] == "page: report/tiny.html"


@pytest.fixture(scope="module")
def strict(slurm_is_installed: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThrowawaySlurm]:
    """A cluster that charges accounts, of one node with two GPUs."""
    folder = tmp_path_factory.mktemp("strict")
    with ThrowawaySlurm(folder, {"small": ("v100", 2)}, ACCOUNTS_ENFORCED) as slurm:
        yield slurm


@pytest.mark.parametrize(("cluster", "study", "message"), cases(__file__, "never"))
def test_what_slurm_will_never_run_is_said_at_once(
    strict: ThrowawaySlurm,
    finished: Project,
    tmp_path: Path,
    cluster: dict[str, Any],
    study: dict[str, Any],
    message: str,
) -> None:
    project = SlurmProject.on(strict, finished, tmp_path / "project")
    project.configure_cluster(**{**GPU_JOBS, **cluster})
    project.change_study(**{"batch_per_gpu": [32], **study})
    done = project.snakemake()
    assert done.returncode != 0
    assert message in done.stdout
    assert "nothing was submitted" in done.stdout
    assert "GPUs gpu:v100:2" in done.stdout and "physics|" in done.stdout
    assert not project.jobs()
    assert not list(project.folder.glob(".snakemake/locks/*"))

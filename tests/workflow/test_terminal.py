"""What a run prints in a terminal: a line per cell and stage, what failed and why, and where everything else stands."""

import re

from project import Project

FULL_LOG = re.compile(r"; full log:\s+(\.snakemake/log/.*\.log)$", re.MULTILINE)


def test_a_failed_cell_has_its_reason_and_its_log(project: Project) -> None:
    project.record().unlink()
    project.edit("measure/worker/timing.py", "WORKER = ", "raise RuntimeError('no such GPU')\nWORKER = ")
    done = project.command_line("--logger", "dpscale", "--keep-going")
    assert done.returncode == 1
    standing, log, lines = FULL_LOG.split(done.stdout)
    assert standing.startswith("tiny: 3 done, 0 running, 0 failed, 1 queued"), done.stdout
    assert "Job stats:" in (project.folder / log).read_text()
    failed, how_to_go_on = " ".join(lines.split()).split("What was measured is kept.")
    assert failed.startswith("[4/4] ddp, 2 workers, batch 64, run 1: failed: worker ")
    assert "RuntimeError: no such GPU" in failed
    assert (project.folder / failed.split("log: ")[1].strip()).exists()
    assert "partial" in how_to_go_on
    assert max(map(len, done.stdout.splitlines())) <= 120
    assert "\033" not in done.stdout, "this is no terminal"


def test_a_dry_run_is_told_by_snakemake_itself(project: Project) -> None:
    project.record().unlink()
    assert project.planned("--logger", "dpscale") == {"time": 1, "tables": 1, "report": 1, "all": 1}

"""What a run prints in a terminal: a line per cell and stage, what failed and why, and where everything else stands."""

import io
import re

import pytest

from dpscale.formulas.figure import Figure
from dpscale.tables.row import written
from dpscale.tables.timing import ServersRow
from dpscale.terminal import say
from project import Project

FULL_LOG = re.compile(r"; full log:\s+(\.snakemake/log/.*\.log)$", re.MULTILINE)


def test_a_failed_cell_has_its_reason_and_its_log(project: Project) -> None:
    project.record().unlink()
    project.edit("measure/worker/timing.py", "WORKER = ", "raise RuntimeError('no such GPU')\nWORKER = ")
    done = project.snakemake("--logger", "dpscale", "--keep-going")
    assert done.returncode == 1
    standing, log, lines = FULL_LOG.split(done.stdout)
    assert standing.startswith("tiny: 1 of 4 cells to be measured"), done.stdout
    assert "Job stats:" in (project.folder / log).read_text()
    failed, how_to_go_on = " ".join(lines.split()).split("What was measured is kept.")
    assert failed.startswith("[3/4] cells/ddp/gpus-2/batch-64/run-1: failed: worker ")
    assert "no such GPU" in failed  # of both workers, whose lines may run into each other
    assert (project.folder / failed.split("log: ")[1].strip()).exists()
    assert "partial" in how_to_go_on
    assert max(map(len, done.stdout.splitlines())) <= 120
    assert "\033" not in done.stdout, "this is no terminal"


def test_a_dry_run_is_told_by_snakemake_itself(project: Project) -> None:
    project.record().unlink()
    assert project.planned("--logger", "dpscale") == {"time": 1, "tables": 1, "report": 1, "all": 1}


def test_a_slow_server_is_named_before_the_page(project: Project) -> None:
    """As the tables have it, when all is done."""
    slow = ServersRow(server=2, host="gn2", gpu_uuids="GPU-1; GPU-2", times_as_long=Figure.of(2.0, 1.9, 2.1))
    (project.folder / "results/tiny/tables/servers.csv").write_text(written(ServersRow, [slow]))
    project.page.unlink()
    done = project.snakemake("--logger", "dpscale")
    *_, server, page = done.stdout.splitlines()
    assert server.startswith("Server 2 (gn2, with GPU-1, GPU-2) is slow: an epoch there takes 2.00"), done.stdout
    assert "To leave it out, delete its records" in server
    assert page == "page: report/tiny.html"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_colours_are_for_terminals_whose_users_want_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    wanted, unwanted, file = Terminal(), Terminal(), io.StringIO()
    line = f"[1/2] cells/ddp/gpus-2/batch-128/run-1: compute 1.64 s per epoch; {'a' * 30} {'b' * 30}"
    say(line, wanted)
    say(line, file)
    monkeypatch.setenv("NO_COLOR", "1")
    say(line, unwanted)
    assert ["\033[2m[1/2]\033[0m" in stream.getvalue() for stream in (wanted, unwanted, file)] == [True, False, False]
    assert [len(text) <= 80 for text in file.getvalue().splitlines()] == [True, True]

"""The Makefile: its list of targets, and what documents say of them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.processes
def test_what_targets_do_stands_in_one_column(root: Path) -> None:
    command = ["make", "--no-print-directory", "help"]
    shown = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
    lines = [re.match(r"  make ([a-z-]+) +(?=\S)", line) for line in shown.splitlines()]
    named = [line for line in lines if line]
    assert {"report", "assignment", "test-frameworks"} <= {line[1] for line in named}
    assert len(named) == len(lines) and len({line.end() for line in named}) == 1


def test_documents_name_the_target_that_installs_trackers(root: Path) -> None:
    (target,) = re.findall(
        r"^([a-z-]+): .*\n\t\$\(call install,.*\$\(TRACKERS\)\)$", (root / "Makefile").read_text(), re.M
    )
    assert f"In a clone, `make {target}` installs all of them" in (root / "docs/exports.md").read_text()


def said_of(root: Path, study: Path) -> list[str]:
    """What `make report CONFIG=<study>` ends with, a line each."""
    words = [sys.executable, "-m", "dpscale.run", str(study), "config/config.yaml", "", "summary"]
    done = subprocess.run(words, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    return done.stderr.strip().splitlines()


@pytest.mark.processes
def test_a_study_file_that_is_not_there_is_an_error_of_one_line(root: Path, tmp_path: Path) -> None:
    assert said_of(root, tmp_path / "none.yaml") == [f"Error: {tmp_path}/none.yaml: there is no such study file"]


@pytest.mark.processes
def test_an_error_of_the_study_is_one_line_without_the_place_in_the_rules(root: Path, tmp_path: Path) -> None:
    (study := tmp_path / "mine.yaml").write_text("study: mine\nbatch_per_gpu: [60000]\n")
    said = said_of(root, study)
    assert said[-1].startswith("Error: ") and "/mine.yaml: nothing can be run here: global batch 60000" in said[-1]
    assert not [line for line in said if "WorkflowError" in line or "common.smk" in line]

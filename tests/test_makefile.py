"""Errors of `make report` are told in one line."""

import subprocess
import sys
from pathlib import Path

import pytest


def error_lines(root: Path, study: Path) -> list[str]:
    """Return the lines that `make report CONFIG=<study>` ends with."""
    words = [sys.executable, "-m", "dpscale.run", str(study), "config/config.yaml", "", "summary"]
    done = subprocess.run(words, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    return done.stderr.strip().splitlines()


@pytest.mark.processes
def test_a_study_file_that_is_not_there_is_an_error_of_one_line(root: Path, tmp_path: Path) -> None:
    assert error_lines(root, tmp_path / "none.yaml") == [f"Error: {tmp_path}/none.yaml: there is no such study file"]


@pytest.mark.processes
def test_an_error_of_the_study_is_one_line_without_the_place_in_the_rules(root: Path, tmp_path: Path) -> None:
    (study := tmp_path / "mine.yaml").write_text("study: mine\nbatch_per_gpu: [60000]\n")
    lines = error_lines(root, study)
    assert lines[-1].startswith("Error: ") and "/mine.yaml: nothing can be run here: global batch 60000" in lines[-1]
    assert not [line for line in lines if "WorkflowError" in line or "common.smk" in line]

"""`make report RUNS=3`: more runs of a study than its file has, with a real Snakemake; its workers measure nothing."""

import json
import subprocess
from typing import Any

import pytest

import warm
from project import Project

pytestmark = pytest.mark.snakemake


def run(project: Project, runs: str) -> subprocess.CompletedProcess[str]:
    """Run `make report`'s command."""
    words = ["-m", "dpscale.run", "study.yaml", "study.yaml", runs, "summary"]
    return warm.python(words, project.folder, project.environment)


def test_a_larger_number_measures_only_the_runs_that_are_missing(project: Project) -> None:
    before = {path: path.read_bytes() for path in project.records()}
    done = run(project, "3")
    assert done.returncode == 0, done.stdout
    after = {path: path.read_bytes() for path in project.records()}
    assert {path.stem for path in set(after) - set(before)} == {"run-3"}
    assert len(after) == len(before) + 2, "one on one worker, one on two"
    assert {path: after[path] for path in before} == before
    assert "2 workers are 2.00 times as fast as 1" in done.stdout
    study: dict[str, Any] = json.loads((project.folder / "results/tiny/study.json").read_text())
    assert (study["runs"], study["network"]["width"], study["dataset"]["images"]) == (3, 4, 128), "nested keys stay"


def test_a_smaller_number_measures_nothing_and_the_answer_names_the_study_file(project: Project) -> None:
    before = {path: path.stat().st_mtime_ns for path in project.records()}
    done = run(project, "1")
    assert done.returncode == 0, done.stdout
    assert {path: path.stat().st_mtime_ns for path in project.records()} == before
    assert "one run, not confirmed" in " ".join(done.stdout.split())
    assert "make report CONFIG=study.yaml RUNS=3" in " ".join(done.stdout.split())

"""`make report RUNS=3`: more runs of a study than its file has, with a real Snakemake; its workers measure nothing."""

import json
from typing import Any

import pytest

import warm
from project import Project

pytestmark = pytest.mark.snakemake


def test_a_larger_number_measures_only_the_runs_that_are_missing(project: Project) -> None:
    before = {path: path.stat().st_mtime_ns for path in project.records()}
    words = ["-m", "dpscale.run", "study.yaml", "", "", "3", "summary"]
    done = warm.python(words, project.folder, project.environment)
    assert done.returncode == 0, done.stdout
    assert "2 workers are 2.00 times as fast as 1" in " ".join(done.stdout.split())
    after = {path: path.stat().st_mtime_ns for path in project.records()}
    assert after.items() > before.items()
    assert [path.stem for path in after if path not in before] == ["run-3"] * 2, "one on one worker, one on two"
    study: dict[str, Any] = json.loads((project.folder / "results/tiny/study.json").read_text())
    assert (study["runs"], study["network"]["width"], study["dataset"]["images"]) == (3, 4, 128), "nested keys stay"

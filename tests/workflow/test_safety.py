"""A study file is data, and nothing that was measured is deleted: with a real Snakemake."""

import os
import time

import pytest
import yaml

from project import STUDY, Project

pytestmark = pytest.mark.snakemake


def test_a_study_file_runs_nothing(project: Project) -> None:
    """Before Snakemake reads the Snakefile, it would run what stands there."""
    program = "- __import__('pathlib').Path('ran').touch()"
    text = f"__use_yte__: true\n__definitions__:\n{program}\n{yaml.safe_dump(STUDY)}"
    (project.folder / "study.yaml").write_text(text)
    done = project.snakemake("-n")
    assert done.returncode != 0
    assert "study.yaml: top level: Additional properties are not allowed ('__use_yte__'" in done.stdout
    assert not (project.folder / "ran").exists()


def test_no_file_time_deletes_a_record(project: Project) -> None:
    """A server of files may have another time than the nodes."""
    an_hour_ahead = time.time() + 3600
    for path in project.folder.glob("results/tiny/**/*"):
        os.utime(path, (an_hour_ahead, an_hour_ahead))
    before = {path: path.read_bytes() for path in project.records()}
    project.record().unlink()
    done = project.snakemake("--keep-going", "--until", "time")
    assert done.returncode == 0, done.stdout
    assert set(project.records()) == set(before)

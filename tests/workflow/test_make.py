"""`make report` in a fresh clone, as a stranger would run it; the environment alone is borrowed."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.snakemake


@pytest.fixture(scope="module")
def clone(root, tmp_path_factory):
    if not (root / ".git").exists():
        pytest.skip("no git repository here to clone")
    folder = tmp_path_factory.mktemp("clone") / "project"
    subprocess.run(["git", "clone", "--quiet", str(root), str(folder)], check=True)
    for change in ("Makefile", "Snakefile", "workflow", "config"):  # what is not committed yet is tested too
        copy = shutil.copytree if (root / change).is_dir() else shutil.copy
        copy(root / change, folder / change, **({"dirs_exist_ok": True} if (root / change).is_dir() else {}))
    return folder


def make(clone: Path, *targets: str) -> str:
    environment_folder = Path(sys.executable).parents[1]
    if not (environment_folder / ".ready").exists():
        pytest.skip("not in an environment that make has set up")
    alone = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    done = subprocess.run(
        [
            "make",
            "--no-print-directory",
            *targets,
            f"VENV={environment_folder}",
            f"--old-file={environment_folder}/.ready",
        ],
        cwd=clone,
        env={**alone, "PYTHONPATH": str(clone / "workflow"), "CUDA_VISIBLE_DEVICES": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_make_report_measures_the_laptop_study_and_then_nothing(clone):
    output = make(clone, "report")
    page = clone / "report/laptop.html"
    assert output.splitlines()[0] == "0 CUDA GPUs here; the study is config/laptop.yaml"
    assert output.splitlines()[-1] == f"The page: {page}"
    assert re.search(r"^ddp +2 +128 +ok +[\d.]+ \[", output, re.MULTILINE)
    assert "not available" in output
    records = sorted(clone.glob("results/laptop/cells/**/run-*.json"))
    assert len(records) == 12
    html = page.read_text()
    for state in ("ok", "capped", "not available"):
        assert f">{state}<" in html
    stamps = {path: path.stat().st_mtime_ns for path in [*records, page]}
    assert "Nothing to be done" in make(clone, "report")
    assert stamps == {path: path.stat().st_mtime_ns for path in stamps}


def test_make_example_renders_the_recorded_study(clone):
    output = make(clone, "example")
    assert "27 records" in output
    assert "NVIDIA H200" in (clone / "report/recorded.html").read_text()


def test_make_help_names_every_target(clone):
    output = make(clone, "help")
    for target in ("report", "example", "test", "lint", "bench"):
        assert f"make {target}" in output

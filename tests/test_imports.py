"""What runs on a login node, in every job and in every launcher loads neither torch nor pandas; nor a study in Python.

The contracts of import-linter in pyproject.toml prove the same of the rooms that do not measure.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import dpscale
from command_line import must
from project import Project

HEAVY = {"torch", "torchvision", "pandas", "altair", "jinja2"}
# Runs a command, a list in JSON, and prints which packages are loaded then.
PROGRAM = """
import json, sys
from click.testing import CliRunner
from dpscale.cli import main
for command in map(json.loads, sys.argv[1:]):
    result = CliRunner().invoke(main, command, catch_exceptions=False)
    assert result.exit_code == 0, result.output
print(json.dumps(sorted({name.split(".")[0] for name in sys.modules})))
"""


def packages_after(*command: object, first: str = "", project: Project | None = None) -> set[str]:
    """Return the packages that are loaded after the code `first` and a command of `dpscale`."""
    words = [json.dumps(list(map(str, command)))] if command else []
    done = subprocess.run(
        [sys.executable, "-c", first + PROGRAM, *words],
        capture_output=True,
        text=True,
        env=project.environment if project else None,
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.processes
def test_a_plan_needs_none_of_them(root: Path, tmp_path: Path) -> None:
    loaded = packages_after("plan", root / "config/recorded.yaml", "--results", tmp_path, "--json")
    assert not (HEAVY | {"numpy"}) & loaded


@pytest.mark.processes
def test_an_audit_needs_none_of_them(root: Path, tmp_path: Path) -> None:
    files = sorted((root / "config/published").glob("*.yaml"))
    assert not HEAVY & packages_after("audit", *files, "--out", tmp_path)


@pytest.mark.processes
def test_a_launcher_needs_none_of_them(root: Path, tmp_path: Path) -> None:
    """Its worker, which needs torch, is a stub here."""
    stubbed = Project.create(root, tmp_path / "project")
    source = f"synthetic --epoch-images 32 --dataset {tmp_path / 'dataset'}"
    must("dataset", "--source", "synthetic", "--images", 32, "--out", tmp_path / "dataset")
    cell = "--strategy single --gpus 1 --batch-per-gpu 32 --device cpu --width 4 --timed-epochs 1 --loader-workers 0"
    words = f"time {cell} --dataset-source {source} --out {tmp_path / 'r.json'}"
    assert not HEAVY & packages_after(*words.split(), project=stubbed)


@pytest.mark.processes
def test_reading_the_snakefile_needs_none_of_them(root: Path) -> None:
    rules = "".join(path.read_text() for path in (root / "workflow/rules").glob("*.smk"))
    modules = sorted(set(re.findall(r"^from (dpscale[\w.]*) import", rules, re.MULTILINE)))
    assert "dpscale.records.outdated" in modules
    assert not HEAVY & packages_after(first=f"import {', '.join(modules)}\n")


NOTEBOOK = """
import json, re, sys
from functools import cache
import dpscale
dpscale.load = cache(dpscale.load)  # its charts are drawn once
found = {}
for cell in json.load(open("examples/explore.ipynb"))["cells"]:
    if cell["cell_type"] == "code":
        exec("".join(cell["source"]), found)
assert found["best"]["images_per_s"] > 1e4
shown = found["study"].figure("efficiency")._repr_html_()
assert shown.startswith("<svg")
assert "var(--" not in shown and "currentColor" not in shown
assert "Efficiency on 2 GPUs" in shown
exec(re.search(r"```python\\n(.*?)```", open("README.md").read(), re.DOTALL)[1])
assert study.figure("speedup").pictures[0].name == "speedup-1"
assert study.speedup.attrs["units"]["speedup"] == "1"
assert "torch" not in sys.modules
"""


@pytest.mark.processes
def test_the_notebook_of_ten_cells_runs_without_torch(root: Path) -> None:
    assert len(json.loads((root / "examples/explore.ipynb").read_text())["cells"]) == 10
    subprocess.run([sys.executable, "-c", NOTEBOOK], cwd=root, check=True)


@pytest.mark.parametrize("what", ["recorded", "config/recorded.yaml", "results/recorded"])
def test_a_study_is_named_in_three_ways(root: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    monkeypatch.chdir(root)
    study = dpscale.load(what)
    assert (study.study.name, study.results.name) == ("recorded", "recorded")
    assert {"speedup", "times", "answer"} <= set(dir(study))


@pytest.mark.slow
def test_a_summary_makes_the_tables_that_are_missing_and_finds_a_study_by_its_name(root: Path) -> None:
    told = must("summary", "recorded", folder=root)
    assert told.startswith("With ddp at batch 128")
    sentence = json.loads(must("summary", "recorded", "--json", folder=root))["sentence"]
    assert " ".join(told.split()).startswith(sentence[:200])

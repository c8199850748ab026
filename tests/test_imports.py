"""What runs on a login node, in every job and in every launcher loads neither torch nor pandas.

The contracts of import-linter in pyproject.toml prove the same of the rooms that do not measure.
"""

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

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


def test_a_class_name_means_one_thing(root: Path) -> None:
    texts = "\n".join(path.read_text() for path in (root / "workflow/dpscale").rglob("*.py"))
    names = Counter(re.findall(r"^ *class (\w+)[:(]", texts, re.MULTILINE))
    assert names["Figure"] == 1
    assert [name for name, count in names.items() if count > 1] == []

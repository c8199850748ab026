"""The rooms keep apart: a page needs no torch, and a GPU job starts as fast as torch does."""

import ast
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from dpscale.plan.study import Study
from made_study import records_of, slower
from project import Project
from record_factory import write

# Runs commands, each a list in JSON, and prints which packages are loaded then.
PROGRAM = """
import json, sys
from click.testing import CliRunner
from dpscale.cli import main
for command in map(json.loads, sys.argv[1:]):
    result = CliRunner().invoke(main, command, catch_exceptions=False)
    assert result.exit_code == 0, result.output
print(json.dumps(sorted({name.split(".")[0] for name in sys.modules})))
"""


def modules_after(*commands: list[str], first: str = "", of: Project | None = None) -> set[str]:
    """Packages that are loaded after these commands of `dpscale`, one after the other, and after the code `first`;
    `of` a copy of the project, or of this one."""
    words = [json.dumps(command) for command in commands]
    done = subprocess.run(
        [sys.executable, "-c", first + PROGRAM, *words],
        capture_output=True,
        text=True,
        env=of.environment if of else None,
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study")
    values = {"study": "s", "gpus": [1, 2], "batch_per_gpu": [32], "runs": 2, "communication": {"runs": 0}}
    (folder / "study.json").write_text(json.dumps(values))
    for results, factor in ((folder, 1.0), (folder / "again", 1.1)):
        for cell, record in records_of(Study(values), slower(factor)).items():
            write(results, cell, record)
    return folder


@pytest.mark.processes
def test_tables_and_pages_load_no_torch(measured: Path) -> None:
    study, tables = ["--study", str(measured / "study.json")], str(measured / "tables")
    results = ["--results", str(measured), "--results", str(measured / "again")]
    loaded = modules_after(
        ["tables", *study, "--results", str(measured), "--out", tables],
        ["report", *study, "--tables", tables, "--out", str(measured / "p.html")],
        ["compare", *[study[1]] * 2, *results, "--out", f"{tables}/c.html"],
    )
    assert "pandas" in loaded
    assert not {"torch", "torchvision"} & loaded


@pytest.mark.processes
def test_an_audit_loads_neither_torch_nor_pandas(root: Path, tmp_path: Path) -> None:
    files = sorted(map(str, (root / "config/published").glob("*.yaml")))
    assert not {"torch", "pandas", "altair", "jinja2"} & modules_after(["audit", *files, "--out", str(tmp_path)])


@pytest.mark.processes
def test_a_plan_loads_neither_torch_nor_pandas(measured: Path) -> None:
    loaded = modules_after(["plan", str(measured / "study.json"), "--results", str(measured), "--cells"])
    assert not {"torch", "torchvision", "pandas", "numpy", "altair", "jinja2"} & loaded


# What a worker loads, before anything else is.
WORKER = """
import sys
import dpscale.measure.worker.timing, dpscale.measure.worker.training
loaded = {name.split(".")[0] for name in sys.modules}
assert "torch" in loaded
assert not {"pandas", "altair", "jinja2", "click"} & loaded, loaded
"""


@pytest.mark.processes
def test_measuring_loads_no_pandas_altair_or_jinja2(root: Path, tmp_path: Path) -> None:
    """The launcher's own worker is a stub: what workers load is seen without a cell."""
    images = ["--source", "synthetic", "--images", "32", "--out", str(tmp_path / "dataset")]
    dataset = modules_after(["dataset", *images], first=WORKER)
    cell = "--strategy single --gpus 1 --batch-per-gpu 32 --device cpu --width 4 --timed-epochs 1 --loader-workers 0"
    source = ["--dataset-source", "synthetic", "--epoch-images", "32"]
    paths = ["--dataset", str(tmp_path / "dataset"), "--out", str(tmp_path / "r.json")]
    stubbed = Project.create(root, tmp_path / "project")
    launcher = modules_after(["time", *cell.split(), *source, *paths], of=stubbed)
    assert "torch" not in launcher, "the launcher must not pay for torch: its workers do"
    assert not {"pandas", "altair", "jinja2"} & (dataset | launcher)


@pytest.mark.processes
def test_reading_the_snakefile_needs_neither_torch_nor_pandas(root: Path) -> None:
    rules = "".join(path.read_text() for path in (root / "workflow/rules").glob("*.smk"))
    modules = sorted(set(re.findall(r"^from (dpscale[\w.]*) import", rules, re.MULTILINE)))
    assert "dpscale.records.outdated" in modules
    loaded = modules_after(first=f"import {', '.join(modules)}\n")
    assert not {"torch", "pandas"} & loaded


def test_a_class_name_means_one_thing(root: Path) -> None:
    modules = (ast.parse(path.read_text()) for path in (root / "workflow/dpscale").rglob("*.py"))
    names = Counter(node.name for module in modules for node in ast.walk(module) if isinstance(node, ast.ClassDef))
    assert [name for name, count in names.items() if count > 1] == []

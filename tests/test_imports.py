"""The floors keep apart: a page needs no torch, and a GPU job starts as fast as torch does."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from dpscale.analyse.tables import expected_cells
from dpscale.plan.cells import TimingCell
from dpscale.plan.study import Study
from record_factory import timing_record, write

PROGRAM = """
import json, sys
from click.testing import CliRunner
from dpscale.cli import main
result = CliRunner().invoke(main, sys.argv[1:], catch_exceptions=False)
assert result.exit_code == 0, result.output
print(json.dumps(sorted({name.split(".")[0] for name in sys.modules})))
"""


def modules_after(*arguments: str) -> set[str]:
    done = subprocess.run([sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study")
    values = {"study": "s", "gpus": [1, 2], "batch_per_gpu": [32], "runs": 2, "communication": {"runs": 0}}
    (folder / "study.json").write_text(json.dumps(values))
    study = Study(values)
    for cell in expected_cells(study):
        assert isinstance(cell, TimingCell)
        write(folder, cell, timing_record(cell, study.settings, [2.0 / cell.configuration.gpus, 2.1]))
    return folder


def test_tables_and_pages_load_no_torch(measured: Path) -> None:
    study = ["--study", str(measured / "study.json")]
    tables = modules_after("tables", *study, "--results", str(measured), "--out", str(measured / "tables"))
    report = modules_after("report", *study, "--tables", str(measured / "tables"), "--out", str(measured / "p.html"))
    files = [str(measured / "study.json")] * 2
    compare = modules_after("compare", *files, "--results", *[str(measured)] * 2, "--out", str(measured / "c.html"))
    assert "pandas" in tables & report & compare
    assert not {"torch", "torchvision"} & (tables | report | compare)


def test_an_audit_loads_neither_torch_nor_pandas(root: Path, tmp_path: Path) -> None:
    files = sorted(map(str, (root / "config/published").glob("*.yaml")))
    assert not {"torch", "pandas", "altair", "jinja2"} & modules_after("audit", *files, "--out", str(tmp_path))


@pytest.mark.processes
def test_measuring_loads_no_pandas_altair_or_jinja2(tmp_path: Path) -> None:
    images = ["--source", "synthetic", "--images", "32", "--out", str(tmp_path / "dataset")]
    dataset = modules_after("dataset", *images)
    cell = "--strategy single --gpus 1 --batch-per-gpu 32 --device cpu --width 4 --timed-epochs 1 --loader-workers 0"
    source = ["--dataset-source", "synthetic", "--epoch-images", "32"]
    paths = ["--dataset", str(tmp_path / "dataset"), "--out", str(tmp_path / "r.json")]
    launcher = modules_after("time", *cell.split(), *source, *paths)
    assert "torch" not in launcher, "the launcher must not pay for torch: its workers do"
    worker = subprocess.run(
        [
            sys.executable,
            "-c",
            "import json, sys, dpscale.measure.worker.timing, dpscale.measure.worker.training; "
            "print(json.dumps([*sys.modules]))",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = {name.split(".")[0] for name in json.loads(worker.stdout)}
    assert "torch" in loaded
    assert not {"pandas", "altair", "jinja2", "click"} & loaded
    assert not {"pandas", "altair", "jinja2"} & (dataset | launcher)


def test_reading_the_snakefile_needs_neither_torch_nor_pandas(root: Path) -> None:
    modules = [
        "dpscale.records.outdated",
        "dpscale.audit.published",
        "dpscale.measure.data.dataset",
        "dpscale.analyse.columns",
        "dpscale.present.chart_files",
    ]
    program = f"import json, sys, {', '.join(modules)}; print([*sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "'torch'" not in done.stdout
    assert "'pandas'" not in done.stdout

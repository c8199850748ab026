"""Ten thousand finished cells: compare `snakemake -n` with a minimal Snakefile of as many jobs; time tables and page.

python bench/many_cells.py [cells] [repeats]    Both Snakefiles are run in turn; medians and their ratio are printed.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "workflow"), str(ROOT / "tests/helpers")]

from dpscale.measure.workload.dataset import ARRAYS  # noqa: E402
from dpscale.plan.plan import plan  # noqa: E402
from dpscale.plan.study import Study  # noqa: E402
from record_factory import timing_record, write  # noqa: E402

MINIMAL = """
CELLS = {cells}
rule all:
    input: "all"
rule collect:
    input: expand("cells/{{cell}}", cell=range(CELLS))
    output: "all"
    shell: "touch {{output}}"
rule cell:
    input: ancient("dataset")
    output: "cells/{{cell}}"
    params: settings="one", version=1
    shell: "touch {{output}}"
"""
RATIO_LIMIT = 1.3
SECONDS_LIMIT, MB_LIMIT, PAGE_KB_LIMIT = 20, 1000, 1000


def main(cells: int, repeats: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        ours, minimal = Path(name) / "ours", Path(name) / "minimal"
        study = finished_study(cells, ours)
        count = len(plan(Study(json.loads((ours / "study.json").read_text()))).timing)
        finished_minimal(count, minimal)
        tables_s, tables_bytes = measured("tables", ours, study)
        page_s, page_bytes = measured("page", ours, study)
        page_size = (ours / "report/many.html").stat().st_size
        link_outputs(ours)
        dry_run(ours, "study.json")  # once, to fill the file system's caches
        ours_s: list[float] = []
        minimal_s: list[float] = []
        for _ in range(repeats):
            minimal_s.append(dry_run(minimal))
            ours_s.append(dry_run(ours, "study.json"))
    ratio = median(ours_s) / median(minimal_s)
    print(f"{count} finished cells, median of {repeats}")
    print(f"snakemake -n, minimal Snakefile  {median(minimal_s):7.2f} s")
    print(f"snakemake -n, this project       {median(ours_s):7.2f} s  {ratio:.2f} times (limit {RATIO_LIMIT})")
    total_s, peak_bytes = tables_s + page_s, max(tables_bytes, page_bytes)
    print(f"tables                           {tables_s:7.2f} s  {tables_bytes / 1e6:6.0f} MB")
    print(f"page                             {page_s:7.2f} s  {page_bytes / 1e6:6.0f} MB")
    print(f"its size                         {page_size / 1e3:7.0f} kB (limit {PAGE_KB_LIMIT})")
    print(f"together {total_s:.2f} s (limit {SECONDS_LIMIT}), peak {peak_bytes / 1e6:.0f} MB (limit {MB_LIMIT})")


def finished_study(cells: int, folder: Path) -> list[str]:
    """A study of about `cells` cells, all measured; returns the options that name it."""
    batches = max(1, cells // 15)  # 5 configurations per batch, 3 runs
    values = {
        "study": "many",
        "gpus": [1, 2, 4],
        "batch_per_gpu": list(range(1, batches + 1)),
        "scopes": ["compute"],
        "dataset": {"source": "synthetic"},
        "communication": {"runs": 0},
    }
    folder.mkdir()
    (folder / "study.json").write_text(json.dumps(values))
    study = Study(values)
    results = folder / "results/many"
    for cell in plan(study).timing:
        configuration = cell.configuration
        epoch_s = (2 + 30 / configuration.batch_per_gpu) / configuration.gpus**0.9 * (1 + 0.01 * cell.run)
        write(results, cell, timing_record(cell, study.settings, [epoch_s, 1.01 * epoch_s, 0.99 * epoch_s]))
    return [str(folder / "study.json")]


def link_outputs(folder: Path) -> None:
    """Make all other outputs, so that no job is left."""
    results = folder / "results/many"
    dataset = results / "dataset"
    dataset.mkdir()
    for array in ARRAYS:
        (dataset / array).touch()
    manifest = {
        "kind": "dataset",
        "source": "synthetic",
        "root": "data",
        "synthetic": True,
        "images": 50_000,
        "test_images": 0,
        "classes": [],
        "sha256": "",
        "files": {array: {"bytes": 0, "sha256": ""} for array in ARRAYS},
    }
    (dataset / "manifest.json").write_text(json.dumps(manifest))
    (results / "study.json").write_text(Study(json.loads((folder / "study.json").read_text())).to_json())
    for path in [*sorted((results / "tables").iterdir()), folder / "report/many.html", results / "charts"]:
        path.touch()


def finished_minimal(cells: int, folder: Path) -> None:
    (folder / "cells").mkdir(parents=True)
    (folder / "Snakefile").write_text(MINIMAL.format(cells=cells))
    for path in [folder / "dataset", *(folder / "cells" / str(cell) for cell in range(cells)), folder / "all"]:
        path.touch()


def dry_run(folder: Path, *configfile: str) -> float:
    snakefile = ROOT / "Snakefile" if configfile else folder / "Snakefile"
    command = [sys.executable, "-m", "snakemake", "-n", "--quiet", "all", "--snakefile", str(snakefile)]
    if configfile:
        command += ["--configfile", *configfile]
    start = time.perf_counter()
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    seconds = time.perf_counter() - start
    if done.returncode or "rule" in done.stdout:
        sys.exit(f"not a dry run of a finished study: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return seconds


def measured(stage: str, folder: Path, study: list[str]) -> tuple[float, int]:
    """Seconds and peak bytes of one command."""
    tables, charts = (str(folder / "results/many" / name) for name in ("tables", "charts"))
    arguments = {
        "tables": ["tables", *study, "--results", str(folder / "results/many"), "--out", tables],
        "page": ["report", *study, "--tables", tables, "--out", str(folder / "report/many.html"), "--charts", charts],
    }[stage]
    start = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "dpscale", *arguments], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"dpscale {stage} failed")
    return time.perf_counter() - start, usage.ru_maxrss * 1024  # Linux counts kilobytes


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000, int(sys.argv[2]) if len(sys.argv) > 2 else 3)

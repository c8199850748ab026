"""A study with `max` in batch_per_gpu: the largest batch is found before the cells at it, and they follow it.

With a real Snakemake and real launchers. The workers measure nothing; GPUs have room for 80 samples.
"""

import json
from typing import Any

import pandas as pd

from project import STUDY, Project

ON_GPUS: dict[str, Any] = {
    "device": "cuda", "batch_per_gpu": [32, "max"], "runs": 1, "dataset": {**STUDY["dataset"], "images": 512},
}  # fmt: skip


def trained_at_max(project: Project) -> list[int]:
    paths = project.folder.glob("results/tiny/cells/*/*/batch-max/run-1.json")
    return [json.loads(path.read_text())["cell"]["batch_per_gpu"] for path in paths]


def test_the_largest_batch_is_found_first_and_the_cells_at_it_follow_what_was_found(project: Project) -> None:
    nvml = project.folder / "workflow/dpscale/measure/watch/nvml.py"
    nvml.write_text(nvml.read_text() + "\n\ndef gpus_there(environment): return 8\n")
    project.change_study(**ON_GPUS)
    done = project.snakemake("--logger", "dpscale")
    assert done.returncode == 0, done.stdout + project.logs()
    assert "largest batch of ddp, 2 GPUs: 64, took " in done.stdout
    assert "ddp, 2 GPUs, batch 64, run 1: " in done.stdout
    assert trained_at_max(project) == [64, 64]
    times = pd.read_csv(project.folder / "results/tiny/tables/times.csv")
    assert sorted(times["batch_per_gpu"]) == [32, 32, 64, 64]
    assert project.planned() == {}

    project.change_study(**ON_GPUS, round_max_to="multiple_of_8")
    assert project.run() == {"fit": 2, "time": 2, "study": 1, "tables": 1, "report": 1, "all": 1}
    assert trained_at_max(project) == [80, 80]

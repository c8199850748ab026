"""What cannot work is said in one line, before anything is measured, read or loaded that takes longer."""

import time
from pathlib import Path

import pytest

from command_line import dpscale

THREE_GPUS = "study: three\ngpus: [1, 3]\nbatch_per_gpu: [32]\nstrong_scaling_global_batch: [32]\n"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (
            "diagnose --workload cifar_resnet18 --gpus 99 --batch-per-gpu 32 --device cuda",
            "asked for 99 GPUs on this node, visible are ",
        ),
        ("audit {folder}/large.csv", "large.csv: is no table of results: it has 50 MB, a table at most 5"),
        ("plan {folder}/three.yaml", "strong_scaling_global_batch: 32 does not divide by 3 GPUs"),
        (
            "tables --study config/recorded.yaml --results {folder}/nowhere --out {folder}/tables",
            "nowhere: there is no such folder of results. To measure the study: make report",
        ),
        (
            "tables --study config/recorded.yaml --results {folder} --out {folder}/tables",
            "Make it again with: dpscale audit config/published/*.yaml --out {folder}/audit",
        ),
    ],
)
def test_it_is_said_in_one_line(root: Path, tmp_path: Path, command: str, said: str) -> None:
    (tmp_path / "three.yaml").write_text(THREE_GPUS)
    with (tmp_path / "large.csv").open("wb") as large:
        large.truncate(50_000_000)
    start = time.process_time()
    done = dpscale(*command.format(folder=tmp_path).split(), folder=root)
    assert done.returncode != 0
    (line,) = done.stderr.splitlines()
    assert said.format(folder=tmp_path) in line
    assert time.process_time() - start < 5

"""What cannot work is said in one line, before anything is measured, read or loaded that takes longer."""

import time
from pathlib import Path

import pytest

from cases import cases
from command_line import dpscale

THREE_GPUS = "study: three\ngpus: [1, 3]\nbatch_per_gpu: [32]\nstrong_scaling_global_batch: [32]\n"


@pytest.mark.parametrize(
    ("command", "said"),
    cases(__file__, "commands"),
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

"""What cells need is checked where there is no Slurm, a line each."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from dpscale.cli import main

TINY = {"study": "tiny", "gpus": [1], "strategies": ["single"], "batch_per_gpu": [32]}
SYNTHETIC = {"source": "synthetic", "images": 64}


@pytest.mark.parametrize(
    ("study", "lines"),
    [
        ({"device": "cpu", "dataset": SYNTHETIC}, ["ok: torch ", "ok: results/tiny ", "ok: no images"]),
        (
            {"device": "cpu", "dataset": {"download": False}},
            ["ok: torch ", "ok: results/tiny ", "failed: images: data/cifar-10-batches-py is not there"],
        ),
        ({}, ["failed: asked for 1 GPUs", "ok: results/tiny ", "ok: images: the first job downloads"]),
    ],
)
def test_a_line_says_what_is_well_and_what_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, study: dict[str, Any], lines: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    Path("study.yaml").write_text(yaml.safe_dump({**TINY, **study}))
    done = CliRunner().invoke(main, ["doctor", "study.yaml"])
    first, *said = done.stdout.splitlines()
    assert first == "no Slurm here; checked on this machine:"
    assert [line.startswith(begin) for line, begin in zip(said, lines, strict=True)] == [True] * 3, said
    assert done.exit_code == any(line.startswith("failed") for line in lines)

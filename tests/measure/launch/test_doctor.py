"""What cells need is checked where there is no Slurm, a line each."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from cases import cases
from dpscale.cli import main

TINY = {"study": "tiny", "gpus": [1], "strategies": ["single"], "batch_per_gpu": [32]}


@pytest.mark.parametrize(("study", "lines"), cases(__file__, "checked"))
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


@pytest.mark.parametrize(
    ("cluster", "message"),
    [
        (None, "there is no such file: it says how Slurm runs cells"),
        ("gpus_per_node: none", 'gpus_per_node: "none" is not of types'),
    ],
)
def test_what_is_wrong_with_the_cluster_file_is_said_before_a_job_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cluster: str | None, message: str
) -> None:
    srun = tmp_path / "bin/srun"
    srun.parent.mkdir()
    srun.touch(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(srun.parent))
    Path("study.yaml").write_text(yaml.safe_dump(TINY))
    if cluster:
        Path("config").mkdir()
        Path("config/cluster.yaml").write_text(cluster)
    done = CliRunner().invoke(main, ["doctor", "study.yaml"])
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith(f"Error: config/cluster.yaml: {message}")

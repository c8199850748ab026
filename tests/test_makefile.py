"""`make`: errors are told in one line, the recorded study, and what is installed.

`make report`: test_laptop_study.py.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from project import Clone


def error_lines(root: Path, study: Path | str) -> list[str]:
    """Return the lines that `make report CONFIG=<study>` ends with, or without a study `make assignment`."""
    words = [sys.executable, "-m", "dpscale.run", str(study), "config/config.yaml", "", "", "summary"]
    without_gpus = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(words, cwd=root, env=without_gpus, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    return done.stderr.strip().splitlines()


@pytest.mark.processes
def test_an_error_of_the_study_is_one_line_without_the_place_in_the_rules(root: Path, tmp_path: Path) -> None:
    (study := tmp_path / "mine.yaml").write_text("study: mine\nbatch_per_gpu: [60000]\n")
    lines = error_lines(root, study)
    assert lines[-1].startswith("Error: ") and "/mine.yaml: nothing can be run here: global batch 60000" in lines[-1]
    assert not [line for line in lines if "WorkflowError" in line or "common.smk" in line]


@pytest.mark.processes
def test_an_assignment_is_not_made_up_where_there_is_no_gpu(root: Path) -> None:
    (line,) = error_lines(root, "")
    assert "no GPU" in line
    for way in ("snakemake --profile slurm --configfile config/config.yaml", "CONFIG=config/laptop.yaml"):
        assert way in line


@pytest.mark.processes
@pytest.mark.parametrize(("torch", "takes_gigabytes"), [("", True), ("none", False)])
def test_what_is_installed_without_torch_is_not_announced_as_gigabytes(
    root: Path, tmp_path: Path, torch: str, takes_gigabytes: bool
) -> None:
    words = ["make", "--dry-run", "env", f"TORCH={torch}", f"VENV={tmp_path}/venv"]
    done = subprocess.run(words, cwd=root, capture_output=True, text=True, check=True)
    (announced,) = [line for line in done.stdout.splitlines() if line.startswith(("echo Inst", 'echo "Inst'))]
    assert ("6 GB" in announced) == takes_gigabytes


def test_make_example_renders_the_recorded_study(example: Path) -> None:
    assert "2 GPUs are " in (example / "example.txt").read_text()
    assert "NVIDIA H200" in (example / "report/recorded.html").read_text()


@pytest.mark.parametrize(("torch", "installed"), [("torch==2.8.0 torchvision==0.23.0 --no-deps", 1), ("none", 0)])
def test_another_torch_is_one_variable_and_remembered(clone: Clone, tmp_path: Path, torch: str, installed: int) -> None:
    def commands(*words: str) -> str:
        return clone.run("make", "-n", "env", f"VENV={tmp_path}", *words)

    (tmp_path / ".torch").write_text(f"{torch}\n")
    for printed in (commands(f"TORCH={torch}"), commands()):
        assert sum(line.endswith(f"pip install -qq {torch}") for line in printed.splitlines()) == installed
        assert f"grep -vE '^torch(vision)?==' requirements.txt > {tmp_path}/requirements.txt" in printed
    assert "grep" not in commands("TORCH=").split(".torch\n", 1)[1].replace("grep -o", "")

"""`make` in a fresh clone: the laptop's study, the recorded one, and the help."""

import re
import sys
from pathlib import Path

import pytest

from clone import Clone

pytestmark = pytest.mark.snakemake


def test_make_report_measures_the_laptop_study_and_then_nothing(clone: Clone, laptop_report: str) -> None:
    output = laptop_report
    page = clone.folder / "report/laptop.html"
    assert output.splitlines()[0] == "0 CUDA GPUs here; the study is config/laptop.yaml"
    assert output.splitlines()[-1] == f"The page: {page}"
    assert re.search(r"^ddp +2 +128 +ok +[\d.]+ \[", output, re.MULTILINE)
    assert "not available" in output
    records = sorted(clone.folder.glob("results/laptop/*/**/run-*.json"))
    assert len(records) == 12 + 1 + 3, "timing, collectives, communication"
    trainings = sorted(clone.folder.glob("results/laptop/training/*/seed-*.json"))
    assert len(trainings) == 3 * 2, "arms, seeds"
    html = page.read_text()
    for state in ("ok", "capped", "not available"):
        assert f">{state}<" in html
    stamps = {path: path.stat().st_mtime_ns for path in [*records, *trainings, page]}
    assert "Nothing to be done" in clone.make("report")
    assert stamps == {path: path.stat().st_mtime_ns for path in stamps}


def test_make_example_renders_the_recorded_study(clone: Clone) -> None:
    output = clone.make("example")
    assert "167 records" in output
    assert "NVIDIA H200" in (clone.folder / "report/recorded.html").read_text()


def test_make_help_names_every_target(clone: Clone) -> None:
    output = clone.make("help")
    for target in ("report", "example", "test", "lint", "bench"):
        assert f"make {target}" in output


@pytest.mark.parametrize(("torch", "installed"), [("torch==2.8.0 torchvision==0.23.0 --no-deps", 1), ("none", 0)])
def test_another_torch_is_one_variable(clone: Clone, tmp_path: Path, torch: str, installed: int) -> None:
    commands = clone.run("make", "-n", "env", f"VENV={tmp_path}/venv", f"TORCH={torch}")
    assert commands.count(f"pip install --quiet {torch}\n") == installed
    assert f"--requirement {tmp_path}/venv/without-torch.txt" in commands
    assert "--requirement requirements.txt" not in commands


def test_the_chosen_torch_is_remembered(clone: Clone, tmp_path: Path) -> None:
    (tmp_path / ".torch").write_text("torch==2.8.0 torchvision==0.23.0\n")
    assert "pip install --quiet torch==2.8.0 torchvision==0.23.0" in clone.run("make", "-n", "env", f"VENV={tmp_path}")


def test_the_graph_can_be_drawn(clone: Clone) -> None:
    """What the workflow says while it is read must not get into the graph."""
    command = [sys.executable, "-m", "snakemake", "--dag", "--cores", "1", "--configfile", "config/laptop.yaml"]
    graph = clone.run(*command)
    assert graph.startswith("digraph")
    assert graph.count('label = "time') == 12
    assert graph.rstrip().endswith("}")

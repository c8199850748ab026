"""`make` in a fresh clone: the recorded study, and the help. `make report`: test_laptop_study.py."""

import re
import sys
from pathlib import Path

import pytest

from clone import Clone


def test_make_example_renders_the_recorded_study(example: Path) -> None:
    assert "167 records" in (example / "example.txt").read_text()
    assert "NVIDIA H200" in (example / "report/recorded.html").read_text()


def test_make_help_names_every_target_and_how_long_it_takes(clone: Clone, root: Path) -> None:
    help = dict(re.findall(r"^  make ([\w-]+) +(.*)$", clone.make("help"), re.MULTILINE))
    listed, *_ = re.findall(r"^\.PHONY: (.*)$", (root / "Makefile").read_text(), re.MULTILINE)
    assert set(help) == set(listed.split())
    for target in ("report", "example", "check", "test", "test-slurm", "lint", "bench"):
        assert re.search(r"\d+ (s|min)\b", help[target]), target


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
    assert graph.count('label = "time\\n') == 10
    assert graph.count('label = "time_variant') == 2
    assert graph.rstrip().endswith("}")

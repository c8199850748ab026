"""`make` in a fresh clone: the recorded study, and the help. `make report`: test_laptop_study.py."""

import re
import sys
from pathlib import Path

import pytest

from project import Clone


def test_make_example_renders_the_recorded_study(example: Path) -> None:
    assert "2 GPUs are " in (example / "example.txt").read_text()
    assert "NVIDIA H200" in (example / "report/recorded.html").read_text()


def test_make_help_names_every_target(clone: Clone, root: Path) -> None:
    targets = re.findall(r"^  make ([\w-]+) ", clone.make("help"), re.MULTILINE)
    listed, *_ = re.findall(r"^\.PHONY: (.*)$", (root / "Makefile").read_text(), re.MULTILINE)
    assert sorted(targets) == sorted(listed.split())


@pytest.mark.parametrize(("torch", "installed"), [("torch==2.8.0 torchvision==0.23.0 --no-deps", 1), ("none", 0)])
def test_another_torch_is_one_variable_and_remembered(clone: Clone, tmp_path: Path, torch: str, installed: int) -> None:
    def commands(*words: str) -> str:
        return clone.run("make", "-n", "env", f"VENV={tmp_path}", *words)

    (tmp_path / ".torch").write_text(f"{torch}\n")
    for printed in (commands(f"TORCH={torch}"), commands()):
        assert sum(line.endswith(f"pip install -qq {torch}") for line in printed.splitlines()) == installed
        assert f"grep -vE '^torch(vision)?==' requirements.txt > {tmp_path}/requirements.txt" in printed
    assert "grep" not in commands("TORCH=").split(".torch\n", 1)[1].replace("grep -o", "")


def test_bytecode_is_kept_where_the_environment_forbids_it(clone: Clone, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    variables = clone.run("make", "--eval", "variables:; @env", "variables").splitlines()
    assert any(line.startswith("PYTHONPATH=") for line in variables)
    assert not any(line.startswith("PYTHONDONTWRITEBYTECODE=") for line in variables)


def test_the_graph_can_be_drawn(clone: Clone) -> None:
    command = [sys.executable, "-m", "snakemake", "--dag", "--cores", "1", "--configfile", "config/laptop.yaml"]
    graph = clone.run(*command)
    assert graph.startswith("digraph")
    assert graph.count('label = "time\\n') == 12
    assert graph.rstrip().endswith("}")

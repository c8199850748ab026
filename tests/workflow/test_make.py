"""`make` in a fresh clone: the recorded study, and the help. `make report`: test_laptop_study.py."""

from pathlib import Path

import pytest

from project import Clone


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

"""A study in Python, and the notebook that shows it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import dpscale
from command_line import must

NOTEBOOK = """
import json, re, sys
from functools import cache
import dpscale
dpscale.load = cache(dpscale.load)  # its charts are drawn once
found = {}
for cell in json.load(open("examples/explore.ipynb"))["cells"]:
    if cell["cell_type"] == "code":
        exec("".join(cell["source"]), found)
assert found["best"]["images_per_s"] > 1e4
shown = found["study"].figure("efficiency")._repr_html_()
assert shown.startswith("<svg")
assert "var(--" not in shown and "currentColor" not in shown
assert "Efficiency on 2 GPUs" in shown
exec(re.search(r"```python\\n(.*?)```", open("README.md").read(), re.DOTALL)[1])
assert study.figure("speedup").pictures[0].name == "speedup-1"
assert study.speedup.attrs["units"]["speedup"] == "1"
assert "torch" not in sys.modules
"""


@pytest.mark.processes
def test_the_notebook_of_ten_cells_runs_without_torch(root: Path) -> None:
    assert len(json.loads((root / "examples/explore.ipynb").read_text())["cells"]) == 10
    subprocess.run([sys.executable, "-c", NOTEBOOK], cwd=root, check=True)


@pytest.mark.parametrize("what", ["recorded", "config/recorded.yaml", "results/recorded"])
def test_a_study_is_named_in_three_ways(root: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    monkeypatch.chdir(root)
    study = dpscale.load(what)
    assert (study.study.name, study.results.name) == ("recorded", "recorded")
    assert {"speedup", "times", "answer"} <= set(dir(study))


def test_a_summary_makes_the_tables_that_are_missing_and_finds_a_study_by_its_name(root: Path) -> None:
    told = must("summary", "recorded", folder=root)
    assert told.startswith("With ddp at batch 128")
    sentence = json.loads(must("summary", "recorded", "--json", folder=root))["sentence"]
    assert " ".join(told.split()).startswith(sentence[:200])

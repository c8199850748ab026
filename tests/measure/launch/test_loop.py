"""A workload as a script that is diagnosed: its batch, its faults in one line, and its answer."""

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch

import dpscale as package
import warm
from cases import cases
from command_line import dpscale
from dpscale.measure.launch.loop import configuration_of, loop_command
from dpscale.measure.workload.from_file import load_workload
from json_records import read_json
from warm_workers import warm_workers
from workload_file import SAMPLES, written


@pytest.mark.parametrize(
    ("gpus", "asked", "configuration"),
    cases(__file__, "batches"),
)
def test_the_batch_is_that_of_a_device_or_of_all(gpus: int, asked: dict[str, Any], configuration: Any) -> None:
    chosen = configuration_of(gpus, "ddp", **asked)
    assert [chosen.strategy, chosen.gpus, chosen.batch_per_gpu] == configuration


@pytest.mark.parametrize(
    ("options", "message"),
    cases(__file__, "refused"),
)
def test_options_that_do_not_fit_together_are_an_error(options: list[object], message: str, tmp_path: Path) -> None:
    done = dpscale("diagnose", "--workload", written(tmp_path), "--device", "cpu", *options, folder=tmp_path)
    assert done.returncode == 1
    assert message in done.stderr


@pytest.mark.processes
def test_more_samples_per_step_than_the_dataset_has_are_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)  # the loop chooses its own
    settings = {"workload": str(written(tmp_path)), "device": "cpu", "loader_workers": 0}
    step = {"strategy": "ddp", "batch_per_gpu": SAMPLES, "global_batch": None}
    _, *words = loop_command({"settings": settings, "step": step}, 2)
    with warm_workers():
        done = dpscale(*words[2:], folder=tmp_path)
    assert done.returncode == 1
    assert f"the dataset has {SAMPLES} samples, and a step of all devices takes {2 * SAMPLES}" in done.stderr


@pytest.mark.processes
@pytest.mark.slow
def test_a_workload_is_answered_as_any_script(tmp_path: Path) -> None:
    private = tmp_path / "private"
    private.mkdir()
    options = "--gpus 1 --batch-per-gpu 1 --device cpu --loader-workers 0 --minutes 0.05 --json r.json"
    words = ["diagnose", "--workload", str(written(tmp_path)), *options.split()]
    package_folder = str(Path(package.__file__).parents[1])
    done = warm.dpscale(words, tmp_path, {**os.environ, "PYTHONPATH": package_folder, "TMPDIR": str(private)})
    assert done.returncode == 0, done.stdout
    assert "\ndpscale diagnose --workload " in done.stdout
    assert "A step takes" in done.stdout
    record = read_json("script", tmp_path / "r.json")
    (process,) = record["runs"][0]["processes"]
    assert (process["strategy"], process["batch"], process["status"]) == ("single", 1, "measured")
    assert list(private.iterdir()) == []


def test_the_file_of_the_document_is_a_workload(root: Path, tmp_path: Path) -> None:
    section = (root / "docs/diagnose.md").read_text()
    file = tmp_path / "mine.py"
    file.write_text(section.split("```python\n")[1].split("```")[0])
    workload = load_workload(file)
    images, label = workload.dataset()[0]
    loss = workload.loss(workload.network(), (images[None], torch.tensor([label])))
    assert loss.item() > 0
